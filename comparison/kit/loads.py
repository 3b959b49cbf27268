"""Programs that put a server under load, and what they print as figures. Each fails if the server refused anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kit.processes import Process, run

CPU = "µs of CPU a key"
RATE = "keys/s"


def wrk(
    url: str, seconds: float, folder: Path, *, connections: int = 64, method: str = "POST", accept: str = ""
) -> tuple[float, float]:
    """Requests, and requests a second."""
    script = folder / f"{method}-{bool(accept)}.lua"
    script.write_text(f'wrk.method = "{method}"\n' + (f'wrk.headers["Accept"] = "{accept}"\n' if accept else ""))
    said = run(["wrk", "-t", "1", "-c", str(connections), "-d", f"{max(1, round(seconds))}s", "-s", str(script), url])
    if "Non-2xx" in said or "Socket errors" in said:
        raise RuntimeError(f"{url}:\n{said}")
    return _number(r"(\d+) requests in", said), _number(r"Requests/sec:\s+([\d.]+)", said)


def redis_benchmark(port: int, requests: int, *command: str, connections: int = 50, pipeline: int = 1) -> float:
    """Commands a second."""
    options = ["-p", str(port), "-n", str(requests), "-c", str(connections), "-P", str(pipeline), "--csv"]
    said = run(["redis-benchmark", *options, *command])
    if "ERR" in said or "error" in said.lower():
        raise RuntimeError(said)
    return _number(r'^"[^"]*","([\d.]+)"', said.splitlines()[-1])


def pgbench(address: Sequence[str], script: Path, seconds: float, clients: int) -> tuple[float, float]:
    """Transactions, and transactions a second."""
    options = ["-n", "-M", "prepared", "-c", str(clients), "-j", "1", "-T", str(max(2, round(seconds)))]
    said = run(["pgbench", *address, *options, "-f", str(script), "postgres"])
    if _number(r"number of failed transactions: (\d+)", said) > 0:
        raise RuntimeError(said)
    return _number(r"actually processed: (\d+)", said), _number(r"^tps = ([\d.]+)", said)


def with_cpu(servers: Sequence[Process], keys: float, before: float) -> float:
    """Microseconds of CPU that servers took for each key since a time that `cpu_of` was asked."""
    return (cpu_of(servers) - before) * 1e6 / keys


def cpu_of(servers: Sequence[Process]) -> float:
    return sum(server.cpu() for server in servers)


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"no `{pattern}` in:\n{text}")
    return float(found[1])
