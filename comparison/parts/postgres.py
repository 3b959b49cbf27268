"""Keys from PostgreSQL as people take them, beside keymill on the same server with as many clients."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from kit.loads import CPU, RATE, cpu_of, pgbench, with_cpu, wrk
from kit.plan import Plan
from kit.series import Row, Run, alternate
from kit.servers import Keymill, Postgres

NEEDS = {
    "/usr/share/postgresql-common": "postgresql",
    "pgbench": "postgresql-contrib",
    "psql": "postgresql-client",
    "wrk": "wrk",
    "setpriv": "util-linux",
}
VERSIONS = [["psql", "--version"], ["wrk", "-v"]]

CLIENTS = (16, 64)
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
NAMES = {
    "shuffled": "a shuffled key",
    "nextval": "`nextval` for each key",
    "recorded": 'a key of a pool, on record with `audit = "key"`',
    "claim": "a claim from two tables with `SKIP LOCKED`",
}
NOTE = (
    'CPU counts PostgreSQL and keymill together, and no client. `pooled` with `audit = "key"` promises what the two tables do: '
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

        def ours(space: str, clients: int) -> dict[str, float]:
            before = cpu_of(both)
            keys, rate = wrk(f"{keymill.url}/v1/spaces/{space}/keys", plan.seconds, plan.folder, connections=clients)
            return {RATE: rate, CPU: with_cpu(both, keys, before)}

        def theirs(name: str, clients: int) -> dict[str, float]:
            before = cpu_of([postgres])
            keys, rate = pgbench(postgres.address, scripts[name], plan.seconds, clients)
            return {RATE: rate, CPU: with_cpu([postgres], keys, before)}

        sides: dict[str, Run] = {}
        for clients in CLIENTS:
            # The first lease of a keyspace is small; later ones follow the demand.
            ours("default", clients)
            ours("recorded", clients)
            sides |= {
                f"shuffled, {clients} clients": partial(ours, "default", clients),
                f"nextval, {clients} clients": partial(theirs, "nextval", clients),
                f"recorded, {clients} clients": partial(ours, "recorded", clients),
                f"claim, {clients} clients": partial(theirs, "claim", clients),
            }
        found = alternate(sides, plan.repeats)
        left = int(postgres.sql("SELECT count(*) FROM unused_keys"))
        assert left > 0, "the home-made pool ran out"
    pairs = [("shuffled", "nextval"), ("shuffled", "claim"), ("recorded", "claim")]
    rows = []
    for clients in CLIENTS:
        for one, other in pairs:
            what, against = f"{NAMES[one]}, {clients} clients", NAMES[other]
            one, other = f"{one}, {clients} clients", f"{other}, {clients} clients"
            rows += [Row(what, against, unit, found[one][unit], found[other][unit], NOTE) for unit in (RATE, CPU)]
    return rows
