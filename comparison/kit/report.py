"""RESULTS.md, of all parts that were measured, and results.json, which keeps the figures of every run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kit.series import Row

HERE = Path(__file__).resolve().parents[1]
RAW = HERE / "results.json"
PAGE = HERE / "RESULTS.md"

#: From so many cores on that others used, figures are not those of the machine.
BUSY = 0.2

HEAD = """# Results

`comparison/run` writes this page; `comparison/run NAME…` measures single parts anew. `results.json` has the figures of every run.

- Both sides of a row are measured in turn, in one run on one machine, and every figure is a median.
- **Ratio** is keymill's median divided by the other's. Where the unit is a rate, more is better; where it is a time or memory, less is better.
- **Spread** is the lowest and the highest ratio of two neighbouring runs or, of a figure that stands alone, its lowest and highest run.
- Clients and servers share the machine. A rate therefore includes what the client needs; CPU a key counts all server processes and no client.
- If others used the machine when a part began, it says so: then only ratios count.
"""


def save(machine: dict[str, Any], name: str, moment: dict[str, Any], rows: list[Row]) -> None:
    """Puts the rows of a part in the place of those that it had."""
    raw = json.loads(RAW.read_text()) if RAW.exists() else {"parts": {}}
    if raw.get("machine", machine) != machine:
        raise SystemExit(f"{RAW.name} is of another machine; remove it to begin anew")
    raw["machine"] = machine
    raw["parts"][name] = {**moment, "rows": [row.as_json() for row in rows]}
    RAW.write_text(json.dumps(raw, indent=1, ensure_ascii=False) + "\n")


def write(order: dict[str, str]) -> None:
    """Writes the page; parts come in the order of their titles."""
    raw = json.loads(RAW.read_text())
    machine = raw["machine"]
    lines = [HEAD]
    lines += [
        f"Machine: {machine['cores']} cores ({machine['cpu']}), {machine['memory']}, {machine['system']}, Linux {machine['kernel']}.",
        "",
    ]
    for name, title in order.items():
        part = raw["parts"].get(name)
        if part is None:
            continue
        rows = [Row(**row) for row in part["rows"]]
        lines += [
            f"## {title}",
            "",
            f"`comparison/run {name}`: {part['date']}, commit {part['commit']}{_beside(part)}.",
            "",
        ]
        if part["versions"]:
            lines += [f"With {'; '.join(part['versions'])}.", ""]
        lines += table(rows)
    PAGE.write_text("\n".join(lines).rstrip() + "\n")


def _beside(part: dict[str, Any]) -> str:
    others = part.get("others", 0)
    return f", while others used {others} cores" if others >= BUSY else ""


def table(rows: list[Row]) -> list[str]:
    lines = []
    compared = [row for row in rows if row.against]
    if compared:
        lines += [
            "| what | against | unit | keymill | other | ratio | spread | runs |",
            "| --- | --- | --- | --: | --: | --: | --- | --: |",
        ]
        for row in compared:
            low, high = row.spread
            cells = [row.what, row.against, row.unit, figure(row.median), figure(row.median_of_theirs or 0)]
            cells += [f"**{ratio(row.ratio or 0)}**", f"{ratio(low)}–{ratio(high)}", str(len(row.ours))]
            lines.append(f"| {' | '.join(map(str, cells))} |")
        lines.append("")
    alone = [row for row in rows if not row.against]
    if alone:
        lines += ["| what | unit | figure | spread | runs |", "| --- | --- | --: | --- | --: |"]
        for row in alone:
            low, high = row.spread
            spread = f"{figure(low)}–{figure(high)}" if len(row.ours) > 1 else ""
            lines.append(f"| {row.what} | {row.unit} | {figure(row.median)} | {spread} | {len(row.ours)} |")
        lines.append("")
    notes = dict.fromkeys(row.note for row in rows if row.note)
    return lines + [line for note in notes for line in (note, "")]


def ratio(value: float) -> str:
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def figure(value: float) -> str:
    if value == round(value):
        return f"{value:,.0f}"
    return (
        f"{value:.3f}"
        if abs(value) < 1
        else f"{value:,.2f}"
        if abs(value) < 10
        else f"{value:,.1f}"
        if abs(value) < 100
        else f"{value:,.0f}"
    )
