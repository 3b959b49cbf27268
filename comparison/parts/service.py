"""A key service as people write it in Go (`service/main.go`): ranges of a counter in SQLite, and keys from a channel."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path

from kit.loads import CPU, RATE, wrk
from kit.plan import Plan
from kit.processes import Process, answers, free_port
from kit.processes import run as run_program
from kit.series import Row, alternate
from kit.servers import Keymill

SQLITE = "/usr/share/gocode/src/github.com/mattn/go-sqlite3"
NEEDS = {"go": "golang-go", SQLITE: "golang-github-mattn-go-sqlite3-dev", "wrk": "wrk"}
VERSIONS = [["go", "version"], ["wrk", "-v"]]

RANGES = (1_000, 1_000_000)
NOTE = "The keys of that service follow one another, so they can be guessed. keymill's are shuffled, and nothing else differs in the request."


def run(plan: Plan) -> list[Row]:
    # Debian's Go packages are sources below its own GOPATH.
    settings = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(plan.folder / "go")}
    program = plan.folder / "service"
    source = Path(__file__).resolve().parents[1] / "service"
    run_program(["go", "build", "-o", str(program), "."], cwd=source, settings=settings)
    with ExitStack() as stack:
        servers: dict[str, tuple[Process, str]] = {}
        keymill = stack.enter_context(Keymill(plan.binary, plan.folder))
        servers["keymill"] = (keymill, keymill.url)
        for size in RANGES:
            port = free_port()
            command = [str(program), f"127.0.0.1:{port}", str(plan.folder / f"{size}.db"), str(size)]
            go = stack.enter_context(Process(command, plan.folder, f"service-{size}"))
            go.until(lambda: answers(port))
            servers[f"ranges of {size:,}"] = (go, f"http://127.0.0.1:{port}")

        def measure(name: str) -> dict[str, float]:
            server, url = servers[name]
            before = server.cpu()
            requests, rate = wrk(f"{url}/get-key", plan.seconds, plan.folder, method="GET")
            return {RATE: rate, CPU: (server.cpu() - before) * 1e6 / requests}

        found = alternate({name: partial(measure, name) for name in servers}, plan.repeats)
    rows = []
    for name in list(servers)[1:]:
        for unit in (RATE, CPU):
            against = f"a service in Go with {name}"
            rows.append(
                Row("`GET /get-key`, 64 connections", against, unit, found["keymill"][unit], found[name][unit], NOTE)
            )
    return rows
