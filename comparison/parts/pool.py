"""`pool fill`, beside the databases' own programs for bulk loads, which load the same rows into such a table."""

from __future__ import annotations

import itertools
import time
from contextlib import ExitStack
from pathlib import Path

from kit.plan import Plan
from kit.processes import run as run_program
from kit.series import Row, alternate
from kit.servers import Postgres

NEEDS = {
    "/usr/share/postgresql-common": "postgresql",
    "psql": "postgresql-client",
    "sqlite3": "sqlite3",
    "setpriv": "util-linux",
}
VERSIONS = [["sqlite3", "--version"], ["psql", "--version"]]

KEYS = 1_000_000
SPACE = "coupons"
SQLITE = """
PRAGMA journal_mode = wal; PRAGMA synchronous = full;
CREATE TABLE available_keys (id INTEGER NOT NULL, space TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (space, id)) WITHOUT ROWID;
.mode csv
.import {rows} available_keys
"""
POSTGRES = """
DROP TABLE IF EXISTS bulk_keys;
CREATE TABLE bulk_keys (id bigint NOT NULL, space text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
  reserved_by text COLLATE "C", reserved_at bigint, PRIMARY KEY (space, id));
CREATE INDEX ON bulk_keys (space, reserved_at) WHERE reserved_at IS NOT NULL;
"""
NOTE = "`pool fill` also makes the keys, and its time includes the start of the program."


def run(plan: Plan) -> list[Row]:
    count, numbers = plan.scaled(KEYS), itertools.count()
    with ExitStack() as stack:
        postgres = stack.enter_context(Postgres(plan.folder))

        def keymill(folder: Path, store: str, *arguments: str) -> str:
            return run_program(
                [str(plan.binary), "--data-dir", str(folder), *(["--store", store] if store else []), *arguments]
            )

        def fill(store: str) -> dict[str, float]:
            number = next(numbers)
            # A keyspace of its own each time; on SQLite in a file of its own.
            space, folder = f"{SPACE}-{number}", plan.folder / (f"data-{number}" if not store else "data")
            keymill(folder, store, "space", "create", space, "--kind", "pooled", "--blocklist", "false")
            return timed(lambda: keymill(folder, store, "pool", "fill", space, "--count", str(count)))

        def sqlite_import() -> dict[str, float]:
            file = plan.folder / f"import-{next(numbers)}.db"
            return timed(lambda: run_program(["sqlite3", str(file)], stdin=SQLITE.format(rows=rows(","))))

        def psql_copy() -> dict[str, float]:
            postgres.sql(POSTGRES)
            return timed(lambda: postgres.sql(f"\\copy bulk_keys (id, space, key) FROM '{rows(chr(9))}'\n"))

        def rows(separator: str) -> Path:
            return plan.folder / ("rows.csv" if separator == "," else "rows.tsv")

        fill("")
        keys = keymill(plan.folder / "data-0", "", "pool", "export", f"{SPACE}-0").split()
        assert len(set(keys)) == count, f"{len(set(keys))} keys, not {count}"
        for separator in ",\t":
            lines = (f"{number + 131_072}{separator}{SPACE}{separator}{key}\n" for number, key in enumerate(keys))
            rows(separator).write_text("".join(lines))
        sides = {
            "SQLite": lambda: fill(""),
            "sqlite3 .import": sqlite_import,
            "PostgreSQL": lambda: fill(postgres.url),
            "psql \\copy": psql_copy,
        }
        found = alternate(sides, plan.repeats)
    what = f"`pool fill` of {count:,} keys on"
    pairs = [("SQLite", "sqlite3 .import"), ("PostgreSQL", "psql \\copy")]
    return [
        Row(f"{what} {ours}", f"`{theirs}` of the same rows", "s", found[ours]["s"], found[theirs]["s"], NOTE)
        for ours, theirs in pairs
    ]


def timed(call: object) -> dict[str, float]:
    begun = time.monotonic()
    call()  # type: ignore[operator]
    return {"s": time.monotonic() - begun}
