"""One key over HTTP, beside nginx that answers a constant, and with a token and TLS beside without.

`crates/keymill-proof/bench-http` runs it.
"""

from __future__ import annotations

import re

from kit.plan import Plan
from kit.processes import ROOT
from kit.processes import run as run_program
from kit.series import Row

NEEDS = {"nginx": "nginx", "wrk": "wrk", "curl": "curl", "openssl": "openssl"}
VERSIONS = [["nginx", "-v"], ["wrk", "-v"], ["openssl", "version"]]

BESIDE = {
    "nginx": ("one key", "nginx that answers the same headers and length"),
    "token": ("one key with a token that has a rate and a quota", "without a token"),
    "tls": ("one key over TLS, on open connections", "plain HTTP"),
    "resume": ("a TLS connection for each key, whose session is resumed", "a new session"),
}
_RUN = re.compile(r"^run \d+: \D+ ([\d.]+) (\d+), \D+ ([\d.]+) (\d+) \(", re.MULTILINE)


def run(plan: Plan) -> list[Row]:
    rows = []
    for beside, (what, against) in BESIDE.items():
        command = [
            str(ROOT / "crates/keymill-proof/bench-http"),
            str(plan.repeats),
            str(max(1, round(plan.seconds))),
            beside,
        ]
        said = run_program(command, settings={"KEYMILL_BINARY": str(plan.binary)})
        print(said, flush=True)
        runs = [tuple(map(float, found)) for found in _RUN.findall(said)]
        assert len(runs) == plan.repeats, said
        cpu, rate, their_cpu, their_rate = map(list, zip(*runs))
        rows.append(Row(what, against, "µs of CPU a key", cpu, their_cpu))
        rows.append(Row(what, against, "keys/s", rate, their_rate))
    return rows
