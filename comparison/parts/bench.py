"""What `keymill bench` costs: how much load it makes beside the server, and how much `wrk` does, which checks nothing."""

from __future__ import annotations

import json

from kit.loads import CPU, RATE, wrk
from kit.plan import Plan
from kit.processes import run as run_program
from kit.series import Row, alternate
from kit.servers import Keymill

NEEDS = {"wrk": "wrk"}
VERSIONS = [["wrk", "-v"]]


def run(plan: Plan) -> list[Row]:
    with Keymill(plan.binary, plan.folder) as keymill:
        path = f"{keymill.url}/v1/spaces/default/keys"
        wrk(path, 2, plan.folder)

        def by_bench() -> dict[str, float]:
            before = keymill.cpu()
            options = [
                "--duration",
                f"{max(1, round(plan.seconds))}s",
                "--connections",
                "64",
                "--failures",
                "0%",
                "--json",
            ]
            report = json.loads(run_program([str(plan.binary), "bench", keymill.url, *options]))
            keys = report["keys"]
            assert keys["duplicated"] == 0 and keys["unique"] == keys["received"], keys
            return {RATE: keys["per_second"], CPU: (keymill.cpu() - before) * 1e6 / keys["received"]}

        def by_wrk() -> dict[str, float]:
            before = keymill.cpu()
            requests, rate = wrk(path, plan.seconds, plan.folder)
            return {RATE: rate, CPU: (keymill.cpu() - before) * 1e6 / requests}

        found = alternate({"keymill bench": by_bench, "wrk": by_wrk}, plan.repeats)
    what, against = "load of `keymill bench`, one key a request, 64 connections", "load of `wrk`"
    return [
        Row(what, against, RATE, found["keymill bench"][RATE], found["wrk"][RATE]),
        Row("what the server takes for it", "for `wrk`", CPU, found["keymill bench"][CPU], found["wrk"][CPU]),
    ]
