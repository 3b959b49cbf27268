"""Private servers and programs: started in a folder of the run, measured, and ended by their own process ID."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Optional, TypeVar

ROOT = Path(__file__).resolve().parents[2]
TICKS = os.sysconf("SC_CLK_TCK")
#: How long a server may take to start, and to stop.
TIME_MAX = 30.0

Some = TypeVar("Some", bound="Process")

# Debian keeps servers where only root looks for them.
os.environ["PATH"] += ":/usr/sbin:/sbin"


class Process:
    """A server process, which ends with the `with` block that it is opened in."""

    def __init__(self, command: Sequence[str], folder: Path, name: str, **settings: str) -> None:
        self.log = folder / f"{name}.log"
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                list(command), stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment(settings)
            )

    def __enter__(self: Some) -> Some:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(TIME_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def until(self, ready: Callable[[], bool]) -> None:
        """Waits until it is ready, or complains with its log."""
        end = time.monotonic() + TIME_MAX
        while not ready():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"it did not start:\n{self.log.read_text(errors='replace')}")
            time.sleep(0.05)

    def said(self, pattern: str) -> Optional[str]:
        found = re.search(pattern, self.log.read_text(errors="replace"), re.MULTILINE)
        return found[1] if found else None

    def cpu(self) -> float:
        """Seconds of CPU of the process, of its children, and of the children that have ended."""
        return _cpu_of(self._process.pid, True) + sum(_cpu_of(child, False) for child in _children(self._process.pid))

    def memory_peak(self) -> float:
        """The most memory that it has had, in MB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"^VmHWM:\s+(\d+)", status, re.MULTILINE)
        return int(found[1]) / 1024 if found else 0.0


def _cpu_of(pid: int, with_ended: bool) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    # User and system time; behind them, those of children that were waited for.
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / TICKS


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def run(
    command: Sequence[str],
    *,
    stdin: Optional[str] = None,
    cwd: Optional[Path] = None,
    timeout: float = 600,
    settings: Optional[Mapping[str, str]] = None,
) -> str:
    """Runs a program to its end, and returns what it printed. Complains with all that it said if it fails."""
    done = subprocess.run(
        list(command),
        input=stdin,
        cwd=cwd,
        timeout=timeout,
        capture_output=True,
        text=True,
        env=environment(settings or {}),
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    return done.stdout


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The variables of a program. Settings for keymill of whoever runs this are not those of the comparison."""
    return {key: value for key, value in os.environ.items() if not key.startswith("KEYMILL_")} | dict(settings)


def install(packages: dict[str, str]) -> None:
    """Installs what is missing, by the command that shows it; where that is not allowed, says what is needed."""
    missing = sorted({package for command, package in packages.items() if not is_there(command)})
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SystemExit(f"please install: {' '.join(missing)}")
    print(f"installing {' '.join(missing)}", flush=True)
    run(["apt-get", "update", "-qq"])
    run(["apt-get", "install", "-y", "-qq", *missing], settings={"DEBIAN_FRONTEND": "noninteractive"})


def is_there(command: str) -> bool:
    return Path(command).exists() if command.startswith("/") else shutil.which(command) is not None


def build_proof(name: str) -> Path:
    """A program of keymill-proof."""
    return build(name, "build", "--release", "-p", "keymill-proof", "--bin", name, "--all-features")


def build(name: str, *command: str) -> Path:
    """The program of this name that a command of cargo builds."""
    print(f"  building {name}", flush=True)
    for line in run(["cargo", *command, "-q", "--message-format=json"], cwd=ROOT, timeout=3_600).splitlines():
        message = json.loads(line)
        if message.get("target", {}).get("name") == name and message.get("executable"):
            return Path(message["executable"])
    raise RuntimeError(f"cargo names no program {name}")
