"""What `keymill bench` costs: how much load it makes beside the server, and how much `wrk` does, which checks nothing."""

from __future__ import annotations

import json
import resource
from functools import partial

from kit.loads import RATE, wrk
from kit.plan import Plan
from kit.processes import run as run_program
from kit.series import Row, Run, alternate
from kit.servers import Keymill

NEEDS = {"wrk": "wrk"}
VERSIONS = [["wrk", "-v"]]

SERVER, CLIENT = "µs of CPU of the server a key", "µs of CPU of the client a key"


def run(plan: Plan) -> list[Row]:
    with Keymill(plan.binary, plan.folder) as keymill:
        path = f"{keymill.url}/v1/spaces/default/keys"
        wrk(path, 2, plan.folder, accept="text/plain")

        def by_bench() -> dict[str, float]:
            report = json.loads(run_program([str(plan.binary), "bench", keymill.url, *options]))
            keys = report["keys"]
            assert keys["duplicated"] == 0 and keys["unique"] == keys["received"], keys
            return {RATE: keys["per_second"], "keys": keys["received"]}

        def by_wrk() -> dict[str, float]:
            keys, rate = wrk(path, plan.seconds, plan.folder, accept="text/plain")
            return {RATE: rate, "keys": keys}

        def with_cpu(load: Run) -> dict[str, float]:
            server, client = keymill.cpu(), cpu_of_ended()
            measured = load()
            for_all = {SERVER: keymill.cpu() - server, CLIENT: cpu_of_ended() - client}
            return {RATE: measured[RATE]} | {unit: cpu * 1e6 / measured["keys"] for unit, cpu in for_all.items()}

        options = ["--duration", f"{max(1, round(plan.seconds))}s", "--connections", "64", "--failures", "0%", "--json"]
        found = alternate(
            {"keymill bench": partial(with_cpu, by_bench), "wrk": partial(with_cpu, by_wrk)}, plan.repeats
        )
    what = "load of `keymill bench`, one key a request, 64 connections"
    return [
        Row(what, "load of `wrk`", unit, found["keymill bench"][unit], found["wrk"][unit])
        for unit in (RATE, CLIENT, SERVER)
    ]


def cpu_of_ended() -> float:
    """Seconds of CPU of all programs that were run to their end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
