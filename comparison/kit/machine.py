"""The machine, the versions and the state of the sources, as they were when a part ran."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from kit.processes import ROOT


def describe() -> dict[str, Any]:
    """What does not change while parts run."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory": _memory(),
        "kernel": platform.release(),
        "system": _system(),
    }


def moment(binary: Path, commands: list[list[str]]) -> dict[str, Any]:
    """What may be different for each part: when it ran, of which commit, beside how much else, with which programs."""
    versions = [said for command in [[str(binary), "--version"], *commands] if (said := _first_line(command))]
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "others": round(_busy_cores(), 1),
        "versions": versions,
    }


def _busy_cores(seconds: float = 2.0) -> float:
    """How many cores are in use. Nothing of the comparison runs yet, so others use them."""

    def idle_and_all() -> tuple[int, int]:
        ticks = [int(it) for it in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return ticks[3] + ticks[4], sum(ticks)

    before = idle_and_all()
    time.sleep(seconds)
    idle, total = (later - earlier for earlier, later in zip(before, idle_and_all()))
    return (os.cpu_count() or 1) * (1 - idle / max(1, total))


def _cpu() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.processor()


def _memory() -> str:
    found = re.search(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return f"{int(found[1]) / 1024**2:.0f} GB" if found else "unknown"


def _system() -> str:
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)', Path("/etc/os-release").read_text(), re.MULTILINE)
    return found[1] if found else platform.system()


def _commit() -> str:
    head = _first_line(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"])
    # What this writes itself is no change.
    changed = _first_line(
        ["git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no", "crates", "Cargo.lock"]
    )
    return head + (" and changes" if changed else "")


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except OSError:
        return ""
    # Some print their version as an error.
    line = next(iter((done.stdout or done.stderr).strip().splitlines()), "")
    # Without what some add to their version.
    return re.split(r" \[epoll\]| sha=| \(Library| \(Debian| Copyright", line)[0]
