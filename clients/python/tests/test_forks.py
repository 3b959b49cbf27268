"""The cache is filled before a fork, and no key is handed out by both processes."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, Optional

import pytest
from servers import Deployment

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("way", "processes"),
    [
        ("fork", 4),
        ("fork-by-others", 4),
        ("fork-noticed-by-pid", 4),
        ("fork-while-locked", 7),
        ("fork-asyncio", 3),
        ("multiprocessing-fork", 4),
        ("multiprocessing-spawn", 4),
        ("multiprocessing-forkserver", 4),
    ],
)
def test_no_key_is_handed_out_by_two_processes(deployment: Deployment, way: str, processes: int) -> None:
    taken = run(deployment, way)
    together = [key for keys in taken for key in keys]
    assert len(taken) >= processes and len(together) >= processes * 300
    assert len(set(together)) == len(together)


def test_a_cache_that_does_not_notice_forks_would_be_found(deployment: Deployment) -> None:
    together = [key for keys in run(deployment, "without-noticing") for key in keys]
    assert len(set(together)) < len(together)


def run(deployment: Deployment, way: str) -> list[list[str]]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(HERE / "forking.py"), way, deployment.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    taken: list[list[str]] = json.loads(done.stdout)
    return taken


def test_a_preloading_web_server(deployment: Deployment, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "3", "--bind", f"unix:{path}"]
    command += ["--chdir", str(HERE), "preloaded:application"]
    if int(version("gunicorn").split(".")[0]) >= 25:
        command.append("--no-control-socket")
    environment = {**os.environ, "TEST_SERVERS": deployment.url, "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    with open(tmp_path / "log", "wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        taken: dict[int, list[str]] = {}
        end = time.monotonic() + 30
        # Until every worker has answered, and some more.
        while len(taken) < 4 or sum(map(len, taken.values())) < 3_000:
            assert time.monotonic() < end and server.poll() is None, (tmp_path / "log").read_text()
            answered = ask(path)
            if answered is None:
                time.sleep(0.05)
                continue
            loaded, here = answered
            taken[loaded["pid"]] = loaded["keys"]
            taken.setdefault(here["pid"], []).extend(here["keys"])
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)
    together = [key for keys in taken.values() for key in keys]
    assert len(set(together)) == len(together)


def ask(path: str) -> Optional[list[Any]]:
    """Sends a request over a Unix socket."""
    connection = http.client.HTTPConnection("localhost", timeout=10)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(10)
    try:
        connection.sock.connect(path)
        connection.request("GET", "/")
        found: list[Any] = json.loads(connection.getresponse().read())
        return found
    except OSError:
        return None
    finally:
        connection.close()
