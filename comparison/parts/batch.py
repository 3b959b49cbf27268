"""A thousand keys a request over HTTP as text, beside nginx that answers a constant of the same size."""

from __future__ import annotations

from contextlib import ExitStack
from urllib.request import Request, urlopen

from kit.loads import CPU, RATE, wrk
from kit.plan import Plan
from kit.processes import Process
from kit.series import Row, alternate
from kit.servers import Keymill, Nginx

NEEDS = {"nginx": "nginx", "wrk": "wrk"}
VERSIONS = [["nginx", "-v"], ["wrk", "-v"]]

COUNT, TEXT = 1_000, "text/plain"
PATH = f"/v1/spaces/default/keys?count={COUNT}"


def run(plan: Plan) -> list[Row]:
    with ExitStack() as stack:
        keymill = stack.enter_context(Keymill(plan.binary, plan.folder))
        # The first lease of a keyspace is small; later ones follow the demand.
        wrk(keymill.url + PATH, 2, plan.folder, connections=16, accept=TEXT)
        with urlopen(Request(keymill.url + PATH, method="POST", headers={"Accept": TEXT})) as answer:
            body = answer.read().decode()
        nginx = stack.enter_context(Nginx(plan.folder, body, TEXT))

        def measure(server: Process, url: str) -> dict[str, float]:
            before = server.cpu()
            requests, rate = wrk(url + PATH, plan.seconds, plan.folder, connections=16, accept=TEXT)
            return {RATE: rate * COUNT, CPU: (server.cpu() - before) * 1e6 / (requests * COUNT)}

        sides = {"keymill": lambda: measure(keymill, keymill.url), "nginx": lambda: measure(nginx, nginx.url)}
        found = alternate(sides, plan.repeats)
    what, against = f"{COUNT:,} keys a request, as text", "nginx that answers the same text each time"
    return [Row(what, against, unit, found["keymill"][unit], found["nginx"][unit]) for unit in (RATE, CPU)]
