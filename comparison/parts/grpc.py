"""`Take` over gRPC, beside a tonic server that answers a constant, and `TakeStream`.

`bench_grpc` of keymill-proof runs it.
"""

from __future__ import annotations

import re

from kit.plan import Plan
from kit.processes import build_proof
from kit.processes import run as run_program
from kit.series import Row

NEEDS: dict[str, str] = {"cargo": "cargo", "protoc": "protobuf-compiler"}
VERSIONS = [["rustc", "--version"]]

_RUN = re.compile(r"^run \d+: (keymill|constant): ([\d.]+) calls/s, ([\d.]+) µs", re.MULTILINE)


def run(plan: Plan) -> list[Row]:
    options = [
        "--keymill",
        str(plan.binary),
        "--runs",
        str(plan.repeats),
        "--seconds",
        str(max(1, round(plan.seconds))),
    ]
    said = run_program([str(build_proof("bench_grpc")), *options])
    print(said, flush=True)
    runs: dict[str, list[list[float]]] = {"keymill": [[], []], "constant": [[], []]}
    for name, rate, cpu in _RUN.findall(said):
        runs[name][0].append(float(rate))
        runs[name][1].append(float(cpu))
    streamed = [float(rate) * 1e6 for rate in re.findall(r"^stream \d+: ([\d.]+) million", said, re.MULTILINE)]
    assert len(runs["keymill"][0]) == len(streamed) == plan.repeats, said
    what, against = "`Take` of one key", "a tonic server that answers a constant"
    return [
        Row(what, against, "keys/s", runs["keymill"][0], runs["constant"][0]),
        Row(what, against, "µs of CPU a key", runs["keymill"][1], runs["constant"][1]),
        Row("`TakeStream`, two streams", None, "keys/s", streamed),
    ]
