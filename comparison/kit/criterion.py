"""Benches in process: built once, run again and again, and their medians read from what criterion leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

from kit import processes
from kit.processes import run


def build(package: str, bench: str, *options: str) -> Path:
    """The program of a bench, in a release build."""
    return processes.build(bench, "bench", "--no-run", "-p", package, "--bench", bench, *options)


def measure(program: Path, folder: Path, seconds: float, only: str = "") -> dict[str, float]:
    """Nanoseconds of one element, by group and function. Runs all benches once, or those that match."""
    # Only the median is read, which needs no long resampling.
    options = [
        "--warm-up-time",
        "0.3",
        "--measurement-time",
        str(seconds),
        "--nresamples",
        "2000",
        "--noplot",
        *([only] if only else []),
    ]
    home = folder / "criterion"
    run([str(program), "--bench", *options], cwd=folder, settings={"CRITERION_HOME": str(home)})
    figures = {}
    for found in home.rglob("new/benchmark.json"):
        about = json.loads(found.read_text())
        estimates = json.loads((found.parent / "estimates.json").read_text())
        elements = (about.get("throughput") or {}).get("Elements", 1)
        name = f"{about['group_id']}/{about['function_id']}"
        figures[name] = estimates["median"]["point_estimate"] / elements
    if not figures:
        raise RuntimeError(f"{program.name} has no bench that matches `{only}`")
    return figures
