"""What a part is told: which binary, how long, how often, and a folder that is removed after it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Plan:
    binary: Path
    folder: Path
    repeats: int
    #: How long one run takes.
    seconds: float
    #: Less of everything, to see whether it works.
    is_quick: bool

    def scaled(self, count: int) -> int:
        """A number of keys or requests: a twentieth of it if it has to be quick."""
        return count // 20 if self.is_quick else count
