"""Drawing an ordinal from a lease, beside the cheapest thing that hands out distinct numbers."""

from __future__ import annotations

from kit import criterion
from kit.plan import Plan
from kit.series import Row, alternate

NEEDS: dict[str, str] = {"cargo": "cargo"}
VERSIONS = [["rustc", "--version"]]


def run(plan: Plan) -> list[Row]:
    program = criterion.build("keymill-engine", "draw", "--all-features")
    seconds = 0.2 if plan.is_quick else 1.0
    found = alternate({"all": lambda: criterion.measure(program, plan.folder, seconds)}, plan.repeats)["all"]
    rows = []
    for ours, what in (("lease", "an ordinal of a lease"), ("mill", "the same with the count of demand")):
        for beside in ("", ", two threads"):
            name, against = f"draw one/{ours}{beside}", f"draw one/fetch_add{beside}"
            rows.append(Row(what + beside, "`AtomicU64::fetch_add`", "ns", found[name], found[against]))
    return rows
