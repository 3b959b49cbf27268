"""Snowflake IDs in process, beside crates that make them."""

from __future__ import annotations

from kit import criterion
from kit.plan import Plan
from kit.series import Row, alternate

NEEDS: dict[str, str] = {"cargo": "cargo"}
VERSIONS = [["rustc", "--version"]]

#: Who is compared in which layout: in 41/10/12 everybody waits for the clock, in 41/0/22 nobody does.
CLOCK, FREE = "41/10/12, one thread", "41/0/22, one thread"
PEERS = {
    CLOCK: {
        "snowflaked": "`snowflaked`",
        "rs-snowflake, generate": "`rs-snowflake`",
        "ferroid, atomic": "`ferroid`, atomic",
    },
    FREE: {
        "ferroid, atomic": "`ferroid`, atomic, whose clock is a thread",
        "rs-snowflake, lazy_generate": "`rs-snowflake`, lazy, which does not read the clock",
        "uuid, now_v7": "`uuid` v7, as 16 bytes",
    },
}


def run(plan: Plan) -> list[Row]:
    program = criterion.build("keymill-engine", "snowflake", "--all-features")
    peers = "|".join(dict.fromkeys(name for names in PEERS.values() for name in names))
    only = f"one thread/(keymill|keymill, 1,000 at a time|{peers})$"
    found = alternate({"all": lambda: criterion.measure(program, plan.folder, 1.0, only)}, plan.repeats)["all"]
    rows = []
    for group, names in PEERS.items():
        for ours, how in (("keymill", "one by one"), ("keymill, 1,000 at a time", "1,000 at a time")):
            for peer, against in names.items():
                what = f"an ID of {group.partition(',')[0]}, {how}"
                rows.append(Row(what, against, "ns an ID", found[f"{group}/{ours}"], found[f"{group}/{peer}"]))
    return rows
