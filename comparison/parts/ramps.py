"""Ramps to 50, 1,000 and 2,000 users and down again, of half a minute each, against three instances on one SQLite file."""

from __future__ import annotations

import json
from contextlib import ExitStack

from kit.plan import Plan
from kit.processes import run as run_program
from kit.series import Row
from kit.servers import Keymill

NEEDS: dict[str, str] = {}
VERSIONS: list[list[str]] = []

INSTANCES = 3
NOTE = "It fails if a request fails, if p95 is 200 ms or more, or if a key comes twice. It is run once: it takes two minutes."


def run(plan: Plan) -> list[Row]:
    store = f"sqlite:{plan.folder / 'keymill.db'}"
    time = "1s" if plan.is_quick else "30s"
    with ExitStack() as stack:
        instances = [
            stack.enter_context(Keymill(plan.binary, plan.folder, f"k{number}", store)) for number in range(INSTANCES)
        ]
        options = [
            "--stages",
            f"50:{time},1000:{time},2000:{time},0:{time}",
            "--p95",
            "200ms",
            "--failures",
            "0%",
            "--json",
        ]
        # Its exit code says whether thresholds were kept to and no key came twice.
        report = json.loads(
            run_program([str(plan.binary), "bench", *(instance.url for instance in instances), *options])
        )
        memory = max(instance.memory_peak() for instance in instances)
    requests, keys, latency = report["requests"], report["keys"], report["latency_ms"]
    assert report["passed"] and keys["duplicated"] == 0 and requests["failed"] == 0, report
    what = f"three instances, up to {report['users_max']:,} users"
    figures = {
        "keys": keys["received"],
        "keys that came twice": keys["duplicated"],
        "requests that failed": requests["failed"],
        "requests/s on average": requests["per_second"],
        "ms, p50": latency["p50"],
        "ms, p95": latency["p95"],
        "ms, p99": latency["p99"],
        "MB of memory of an instance at most": memory,
    }
    return [Row(what, None, unit, [float(value)], note=NOTE) for unit, value in figures.items()]
