"""A take from the cache of each client: Rust, Python and TypeScript."""

from __future__ import annotations

import re
import sys

from kit import criterion
from kit.plan import Plan
from kit.processes import ROOT
from kit.processes import run as run_program
from kit.series import Row, alternate
from kit.servers import Keymill

NEEDS = {"cargo": "cargo", "node": "nodejs"}
VERSIONS = [["rustc", "--version"], ["python3", "--version"], ["node", "--version"]]

#: As clients/typescript/check builds it.
TYPESCRIPT = ROOT / "target/clients-typescript/package/build/benches/cached.js"


def run(plan: Plan) -> list[Row]:
    rust = criterion.build("keymill-client", "cached_take", "--all-features")
    settings = {"PYTHONPATH": str(ROOT / "clients/python/src")}

    def python() -> dict[str, float]:
        said = run_program(
            [sys.executable, str(ROOT / "clients/python/benches/cached.py")], settings=settings
        )
        return {name.strip(): float(nanos) for name, nanos in re.findall(r"^(.{42}) +(\d+) ns", said, re.MULTILINE)}

    with Keymill(plan.binary, plan.folder) as keymill:

        def typescript() -> dict[str, float]:
            said = run_program(["node", str(TYPESCRIPT)], settings={"KEYMILL_SERVER": keymill.url})
            return {
                name.strip(): 1e3 / float(rate)
                for name, rate in re.findall(r"^(.{34}) ([\d.]+) million", said, re.MULTILINE)
            }

        sides = {"rust": lambda: criterion.measure(rust, plan.folder, plan.seconds), "python": python}
        if TYPESCRIPT.exists():
            sides["typescript"] = typescript
        else:
            print("  the TypeScript client is not built, and left out: run clients/typescript/check")
        found = alternate(sides, plan.repeats)
    rows = [
        Row("Rust, one thread", None, "ns a key", found["rust"]["cached take/one thread"]),
        Row("Rust, two threads, per key", None, "ns a key", found["rust"]["cached take/two threads, per key"]),
    ]
    popleft = found["python"]["deque.popleft(), nothing else"]
    for call in ("links.take()", "for key in links", "await links.take()"):
        rows.append(
            Row(f"Python, `{call}`", "`deque.popleft()`, nothing else", "ns a key", found["python"][call], popleft)
        )
    for call, figures in found.get("typescript", {}).items():
        rows.append(Row(f"TypeScript, `{call.partition(', ')[2]}`", None, "ns a key", figures))
    return rows
