"""Demand: how fast keys are taken from a cache, and how many to hold.

``_stock`` asks before every fetch. Pure arithmetic on the numbers and times it is given.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import BadSettings


@dataclass(frozen=True)
class CacheSettings:
    """What a cache holds, and for how long."""

    horizon: float
    keys_min: int
    keys_max: int
    max_age: float
    any_keyspace: bool

    def __post_init__(self) -> None:
        if not 1 <= self.keys_min <= self.keys_max:
            raise BadSettings("`keys_min` must be at least 1, and `keys_max` not less than that")
        if not (self.horizon > 0 and self.max_age > 0):
            raise BadSettings("`horizon` and `max_age` must be more than zero")


class Demand:
    """The present rate of takes, as a moving average, and how many keys to hold for it."""

    # How many seconds a change of the rate takes to show by half.
    _HALF_LIFE = 5.0
    # The shortest time that a rate is measured over.
    _SAMPLE_MIN = 0.02

    def __init__(self, now: float) -> None:
        self.taken_at = now
        self._average = 0.0
        # How much of the average is measured. The rest is the zero that it started with.
        self._weight = 0.0
        self._sampled_at = now
        self._taken = 0
        # How much to hold at least, because less ran out before the next keys came.
        self._at_least = 0

    @property
    def rate(self) -> float:
        """Keys per second."""
        # In the first seconds it stays below what was measured, so that a program that takes a few keys and ends leaves
        # no large gap.
        return self._average / max(self._weight, 0.5)

    def sample(self, taken: int, now: float) -> None:
        """Learns how many keys were taken in all."""
        elapsed = now - self._sampled_at
        if elapsed < self._SAMPLE_MIN:
            return
        current = max(0, taken - self._taken) / elapsed
        keep = 0.5 ** (elapsed / self._HALF_LIFE)
        self._average = self._average * keep + current * (1 - keep)
        self._weight = self._weight * keep + (1 - keep)
        if taken != self._taken:
            self.taken_at = now
        self._sampled_at, self._taken = now, taken

    def ran_dry(self, last_fetch: int) -> None:
        """Learns that all keys were gone before the next ones came.

        The rate cannot show how many would have been taken, so the next fetch is twice as large.
        """
        self._at_least = last_fetch * 2

    def sufficed(self) -> None:
        """Learns that keys were left when the next ones came."""
        self._at_least //= 2

    def target(self, settings: CacheSettings, lifetime: float) -> int:
        """How many keys to hold. What does not live as long as the horizon is held for half of its life."""
        horizon = min(settings.horizon, lifetime / 2)
        wanted = max(int(self.rate * horizon), self._at_least)
        return max(settings.keys_min, min(wanted, settings.keys_max))
