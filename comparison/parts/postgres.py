"""Keys from PostgreSQL as people take them, beside keymill on the same server with as many clients."""

from __future__ import annotations

from contextlib import ExitStack

from kit.loads import CPU, RATE, cpu_of, pgbench, with_cpu, wrk
from kit.plan import Plan
from kit.series import Row, alternate
from kit.servers import Keymill, Postgres

NEEDS = {"/usr/share/postgresql-common": "postgresql", "pgbench": "postgresql-contrib", "psql": "postgresql-client", "wrk": "wrk", "setpriv": "util-linux"}
VERSIONS = [["psql", "--version"], ["wrk", "-v"]]

CLIENTS = 16
#: The two tables of a home-made pool, and how one key is moved from one to the other.
TABLES = """
CREATE SEQUENCE numbers;
CREATE TABLE unused_keys (id bigint PRIMARY KEY, key text COLLATE "C" NOT NULL);
CREATE TABLE used_keys (key text COLLATE "C" PRIMARY KEY, taken_at timestamptz NOT NULL DEFAULT now());
INSERT INTO unused_keys SELECT id, substr(md5(id::text), 1, 12) FROM generate_series(1, {rows}) AS id;
ANALYZE unused_keys;
"""
NEXTVAL = "SELECT nextval('numbers');\n"
CLAIM = """
WITH taken AS (
  DELETE FROM unused_keys WHERE id = (SELECT id FROM unused_keys ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING key
)
INSERT INTO used_keys (key) SELECT key FROM taken RETURNING key;
"""
NOTE = (
    "CPU counts PostgreSQL and keymill together, and no client. `pooled` with `audit = \"key\"` promises what the two tables do: "
    "each key is on record as used, durably, before it is answered."
)


def run(plan: Plan) -> list[Row]:
    scripts = {name: plan.folder / f"{name}.sql" for name in ("nextval", "claim")}
    scripts["nextval"].write_text(NEXTVAL)
    scripts["claim"].write_text(CLAIM)
    with ExitStack() as stack:
        postgres = stack.enter_context(Postgres(plan.folder))
        postgres.sql(TABLES.format(rows=plan.scaled(2_000_000)))
        keymill = stack.enter_context(Keymill(plan.binary, plan.folder, store=postgres.url))
        keymill.command("space", "create", "recorded", "--kind", "pooled", "--audit", "key")
        keymill.command("pool", "fill", "recorded", "--count", str(plan.scaled(2_000_000)))
        both = [postgres, keymill]

        def ours(space: str) -> dict[str, float]:
            before = cpu_of(both)
            keys, rate = wrk(f"{keymill.url}/v1/spaces/{space}/keys", plan.seconds, plan.folder, connections=CLIENTS)
            return {RATE: rate, CPU: with_cpu(both, keys, before)}

        def theirs(name: str) -> dict[str, float]:
            before = cpu_of([postgres])
            keys, rate = pgbench(postgres.address, scripts[name], plan.seconds, CLIENTS)
            return {RATE: rate, CPU: with_cpu([postgres], keys, before)}

        ours("default"), ours("recorded")
        sides = {
            "shuffled": lambda: ours("default"),
            "nextval": lambda: theirs("nextval"),
            "pooled, audit = key": lambda: ours("recorded"),
            "claim": lambda: theirs("claim"),
        }
        found = alternate(sides, plan.repeats)
        taken, rows_left = postgres.sql("SELECT count(*), count(DISTINCT key) FROM used_keys; SELECT count(*) FROM unused_keys").split()
        assert int(rows_left) > 0, f"the home-made pool ran out: {taken}"
    one, two = "a shuffled key", "a key of a pool, on record with `audit = \"key\"`"
    sequence, claim = "`nextval` for each key", "a claim from two tables with `SKIP LOCKED`"
    pairs = [(one, "shuffled", sequence, "nextval"), (one, "shuffled", claim, "claim"), (two, "pooled, audit = key", claim, "claim")]
    what = f", {CLIENTS} clients"
    return [
        Row(name + what, against, unit, found[ours_name][unit], found[their_name][unit], NOTE)
        for name, ours_name, against, their_name in pairs
        for unit in (RATE, CPU)
    ]
