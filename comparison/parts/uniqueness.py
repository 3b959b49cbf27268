"""A batched run of `keymill bench` that takes a hundred million keys and compares each with all others."""

from __future__ import annotations

import json
import os
import subprocess
import time

from kit.plan import Plan
from kit.processes import environment
from kit.series import Row
from kit.servers import Keymill

NEEDS: dict[str, str] = {}
VERSIONS: list[list[str]] = []

KEYS = 100_000_000
NOTE = "With the default `--memory 256MB`; what does not fit is sorted on disk, in as many bytes as the keys have. It is run once."


def run(plan: Plan) -> list[Row]:
    count = plan.scaled(KEYS)
    with Keymill(plan.binary, plan.folder) as keymill:
        options = [
            "--protocol",
            "http-batch",
            "--count",
            "10000",
            "--connections",
            "8",
            "--keys",
            str(count),
            "--failures",
            "0%",
            "--json",
        ]
        begun = time.monotonic()
        command = [str(plan.binary), "bench", keymill.url, *options, "--temp-dir", str(plan.folder)]
        bench = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment({}))
        assert bench.stdout is not None
        report = json.loads(bench.stdout.read())
        _, status, used = os.wait4(bench.pid, 0)
        bench.returncode = os.waitstatus_to_exitcode(status)
        took, memory = time.monotonic() - begun, keymill.memory_peak()
    keys = report["keys"]
    assert bench.returncode == 0 and keys["duplicated"] == 0 and keys["unique"] == count, report
    figures = {
        "keys that came twice": keys["duplicated"],
        "keys/s while they were taken": keys["per_second"],
        "s, to take them": report["seconds"],
        "s, with the comparison": took,
        "MB of memory of `bench` at most": used.ru_maxrss / 1024,
        "MB of memory of the server at most": memory,
    }
    return [
        Row(f"{count:,} keys, 10,000 a request", None, unit, [float(value)], note=NOTE)
        for unit, value in figures.items()
    ]
