"""Figures that are measured in turn, so that a busy or throttled machine hits every side alike.

A part makes rows of them, and `report` prints those. Nothing here starts a process.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

#: A run of one side: its figures by unit.
Run = Callable[[], Mapping[str, float]]


@dataclass
class Row:
    """What was compared: the figures of every run, in the order of the runs."""

    what: str
    #: Nothing, where a figure stands alone.
    against: Optional[str]
    unit: str
    ours: list[float]
    theirs: list[float] = field(default_factory=list)
    #: What a reader must know to judge it.
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def median(self) -> float:
        return statistics.median(self.ours)

    @property
    def median_of_theirs(self) -> Optional[float]:
        return statistics.median(self.theirs) if self.theirs else None

    @property
    def ratio(self) -> Optional[float]:
        return self.median / statistics.median(self.theirs) if self.theirs else None

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest and the highest ratio of two neighbours; of a figure that stands alone, its lowest and highest."""
        if not self.theirs:
            return min(self.ours), max(self.ours)
        ratios = [ours / theirs for ours, theirs in zip(self.ours, self.theirs) if theirs > 0]
        return min(ratios, default=0.0), max(ratios, default=0.0)


def alternate(sides: Mapping[str, Run], repeats: int) -> dict[str, dict[str, list[float]]]:
    """Runs all sides in turn, as often as asked: the figures of each side, by unit.

    Every second round goes backwards, so that nobody always comes first.
    """
    figures: dict[str, dict[str, list[float]]] = {name: {} for name in sides}
    for number in range(repeats):
        names = list(sides)[:: 1 if number % 2 == 0 else -1]
        for name in names:
            measured = sides[name]()
            for unit, value in measured.items():
                figures[name].setdefault(unit, []).append(value)
            shown = ", ".join(f"{value:,.2f} {unit}" for unit, value in measured.items())
            print(f"  round {number + 1}: {name}: {shown}", flush=True)
    return figures
