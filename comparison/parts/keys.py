"""Making keys in process: keymill-core beside crates that make keys or IDs as text."""

from __future__ import annotations

from kit import criterion
from kit.plan import Plan
from kit.series import Row, alternate

NEEDS: dict[str, str] = {"cargo": "cargo"}
VERSIONS = [["rustc", "--version"]]

PEERS = {
    "fpe crate": "`fpe` (FF1, as here)",
    "nanoid crate": "`nanoid`, same alphabet and length",
    "sqids crate": "`sqids`, at least 7 characters",
    "uuid crate, v7": "`uuid` v7 as text",
    "ulid crate": "`ulid` as text",
}


def run(plan: Plan) -> list[Row]:
    program = criterion.build("keymill-core", "keys")
    seconds = 0.2 if plan.is_quick else 1.0
    only = "(batch of 1000/shuffled|one by one/.*)$"
    # A run has all of them after one another, some seconds apart.
    found = alternate({"all": lambda: criterion.measure(program, plan.folder, seconds, only)}, plan.repeats)["all"]
    rows = []
    for name, what in (
        ("batch of 1000", "a shuffled key of 7, made 1,000 at a time"),
        ("one by one", "the same, one by one"),
    ):
        ours = found[f"{name}/shuffled"]
        for peer, against in PEERS.items():
            rows.append(Row(what, against, "ns a key", ours, found[f"one by one/{peer}"]))
    return rows
