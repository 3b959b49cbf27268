"""The stock of a cache: the keys at hand, and what the refill is to do next.

``cache`` and ``aio_cache`` take from it, and drive ``steps`` in a thread or a task. There is no I/O and no waiting
here. With threads, everything but ``keys.popleft()`` is done under the lock of the cache.

- A key is handed out once: it leaves ``keys`` in a single step of a ``deque``.
- A key that is older than the maximum age, or has expired, is not handed out: before they take a key, callers look at
  ``fresh_until``, which is never later than the end of the oldest key.
- The age of a key counts from before it was asked for.
- A stock belongs to one process. A forked child makes a new one.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Optional, Union

from ._calls import Batch
from ._demand import CacheSettings, Demand
from ._problems import retry_after_of
from ._servers import Backoff
from .answers import CacheStatus, KeyspaceInfo
from .errors import (
    BadAnswer,
    Forbidden,
    KeymillError,
    NoKeysReady,
    RateLimited,
    Sealed,
    Unauthorized,
    Unavailable,
    Unreachable,
)

log = logging.getLogger("keymill")

#: How many seconds a refusal is repeated to callers, before servers are asked again.
ASK_AGAIN = 1.0
# How often the rate is looked at while keys are taken.
_TICK = 0.25
# After how many seconds without a take the refill ends. The next take starts it again.
_IDLE = 10.0
# Reading more at once would hold up all other threads for milliseconds.
_FETCH_MAX = 10_000
# The longest pause that a server can ask for.
_RETRY_AFTER_MAX = 60.0
# Errors that fewer keys at once may not have: of limits, and of the memory of a server.
_TOO_MUCH = ("bad_count", "above_burst", "too_many_large_answers")
_NEVER = float("-inf")


@dataclass(frozen=True)
class Look:
    """Read the settings of the keyspace."""


@dataclass(frozen=True)
class Fetch:
    """Take so many keys."""

    count: int


@dataclass(frozen=True)
class Rest:
    """Wait so long, unless somebody calls."""

    seconds: float


Steps = Generator[Union[Look, Fetch, Rest], Union[KeyspaceInfo, Batch, KeymillError, None], None]


class Stock:
    """The keys of a cache in one process."""

    def __init__(self, settings: CacheSettings) -> None:
        now = time.monotonic()
        self.keys: deque[str] = deque()
        # Until when callers may take from `keys` without a further look. It is over when the oldest key is, and while
        # the refill has ended, so that the next take starts it.
        self.fresh_until = _NEVER
        # How many keys callers wait for.
        self.waiting = 0
        self.is_open = True
        # Whether every take asks a server.
        self.is_off = False
        self._settings = settings
        # For each fetch: how many keys there were in all with it, and when they end.
        self._batches: deque[tuple[int, float]] = deque()
        self._added = 0
        self._dropped = 0
        self._demand = Demand(now)
        self._lifetime = settings.max_age
        self._state = "starting"
        self._reason: Optional[str] = None
        self._error: Optional[KeymillError] = None
        self._since = now
        self._backoff = Backoff()
        self._fetch_max = _FETCH_MAX
        self._looked_at: Optional[float] = None
        # After a failure: when servers are asked again.
        self._asks_at = _NEVER
        self._is_filling = False

    def renew(self, now: float) -> None:
        """Drops keys that have ended, and lets callers take what is left."""
        ended = 0
        for end, until in self._batches:
            if until <= now:
                ended = end
        while self._batches and self._batches[0][0] <= max(ended, self._added - len(self.keys)):
            self._batches.popleft()
        # Callers may take some of them meanwhile, and then a few more are dropped: a gap.
        while self._added - len(self.keys) < ended and self.keys:
            self.keys.popleft()
            self._dropped += 1
        self.fresh_until = min((until for _, until in self._batches), default=_NEVER)

    def serve(self, count: int, end: float, seconds: float) -> Optional[list[str]]:
        """So many keys, if they are all there.

        Returns ``None`` if the caller is to wait for them, or to ask a server (``is_off``). Raises the error for a
        caller who need not wait: because servers refuse, or because its time is over by ``end``.
        """
        now = time.monotonic()
        self.renew(now)
        keys = self._take(count)
        if keys or self.is_off:
            return keys or None
        if self._error is not None and (self.refusal(now) is not None or self._asks_at >= end):
            raise self._error._again()
        if now >= end:
            if self._error is not None:
                raise self._error._again()
            raise Unreachable(f"no keys in memory, and none arrived within {seconds:g} s", code="unreachable")
        return None

    def needs_refill(self) -> bool:
        """Whether the refill is to run: where the cache is off, only to find out whether it still has to be."""
        return not self.is_off or self._needs_look(time.monotonic())

    def take_one(self) -> Optional[str]:
        """A key, if there is one."""
        self.renew(time.monotonic())
        keys = self._take(1)
        return keys[0] if keys else None

    def _take(self, count: int) -> list[str]:
        """So many keys, or none."""
        keys: list[str] = []
        if len(self.keys) >= count:
            try:
                while len(keys) < count:
                    keys.append(self.keys.popleft())
            except IndexError:
                # Other threads were faster. What is left goes back to where it was.
                self.keys.extendleft(reversed(keys))
                return []
        return keys

    def drop(self) -> None:
        """Drops all keys."""
        self._dropped += len(self.keys)
        self.keys.clear()
        self._batches.clear()
        self.fresh_until = _NEVER

    def refusal(self, now: float) -> Optional[KeymillError]:
        """Why servers refuse to give out more, if they said so just now."""
        if self._state == "refused" and now - self._since < ASK_AGAIN:
            return self._error
        return None

    def status(self) -> CacheStatus:
        target = self._demand.target(self._settings, self._lifetime)
        return CacheStatus(self._state, len(self.keys), target, self._demand.rate, self._reason, self._error)

    def steps(self) -> Steps:
        """What the refill is to do, one thing after the other. It ends when nobody takes any more."""
        self._demand.taken_at = time.monotonic()
        last_fetch = 0
        while self.is_open:
            now = time.monotonic()
            if self._needs_look(now):
                info = yield Look()
                yield from self._looked(info)
                continue
            if self.is_off:
                return
            self._demand.sample(self._added - self._dropped - len(self.keys), now)
            self.renew(now)
            count = self._missing(now)
            if count == 0:
                if not self.waiting and now - self._demand.taken_at > _IDLE:
                    return
                yield Rest(_TICK)
                continue
            if last_fetch and not self.keys:
                self._demand.ran_dry(last_fetch)
                count = max(count, self._missing(now))
            elif last_fetch:
                self._demand.sufficed()
            batch = yield Fetch(count)
            if isinstance(batch, Batch):
                last_fetch = len(batch.keys)
            yield from self._fetched(batch, count, now)

    def _missing(self, now: float) -> int:
        """How many keys to fetch: from when half of the target is used, until nearly all of it is there."""
        if self.refusal(now) is not None:
            return 0
        held, target = self._lasting(now), self._demand.target(self._settings, self._lifetime)
        target = min(target + self.waiting, self._settings.keys_max)
        is_enough = held >= min(self.waiting, target)
        if held >= target * 0.9 and is_enough:
            self._is_filling = False
        elif held <= target / 2 or not is_enough:
            self._is_filling = True
        room = self._settings.keys_max - len(self.keys)
        return max(0, min(target - held, room, self._fetch_max)) if self._is_filling else 0

    def _lasting(self, now: float) -> int:
        """How many keys there are, without those that end soon: these are replaced while there are servers."""
        soon = now + min(self._settings.horizon, self._lifetime / 4)
        ending = max((end for end, until in self._batches if until <= soon), default=0)
        return min(len(self.keys), self._added - ending)

    def _needs_look(self, now: float) -> bool:
        """Whether it is to be found out if keys of this keyspace may be kept. Its settings may change, too."""
        if self._settings.any_keyspace or self.refusal(now) is not None:
            return False
        return self._looked_at is None or now - self._looked_at > self._settings.max_age

    def _looked(self, info: Union[KeyspaceInfo, Batch, KeymillError, None]) -> Steps:
        if isinstance(info, Forbidden):
            # It may still take keys.
            self._turn_off("the token may not read the settings of the keyspace, as the right `read` would allow")
        elif isinstance(info, KeymillError):
            if self._looked_at is not None and not _is_refusal(info):
                # What was found out before holds until servers can be reached again.
                self._looked_at = time.monotonic() - self._settings.max_age + ASK_AGAIN
                return
            yield from self._failed(info)
        elif isinstance(info, KeyspaceInfo):
            why = _why_off(info)
            if why is not None:
                self._turn_off(why)
            elif self.is_off:
                self.is_off, self._reason = False, None
                self._set("starting", None)
            self._looked_at = time.monotonic()

    def _fetched(self, batch: Union[KeyspaceInfo, Batch, KeymillError, None], count: int, asked_at: float) -> Steps:
        if isinstance(batch, KeymillError):
            if batch.code in _TOO_MUCH and count > 1:
                self._fetch_max = count // 2
                if not batch.is_retryable:
                    return
            yield from self._failed(batch)
        elif isinstance(batch, Batch):
            lifetime = self._settings.max_age
            if batch.lifetime is not None:
                lifetime = min(lifetime, batch.lifetime)
            if asked_at + lifetime <= time.monotonic():
                late = BadAnswer("keys expire before they arrive; is a clock wrong?", code="bad_answer")
                yield from self._failed(late)
                return
            self._add(batch.keys, lifetime, asked_at)

    def _add(self, keys: list[str], lifetime: float, asked_at: float) -> None:
        self._lifetime = lifetime
        self._added += len(keys)
        self._batches.append((self._added, asked_at + lifetime))
        self.keys.extend(keys)
        self.renew(time.monotonic())
        if self._state == "failing":
            log.info("keys are fetched again")
        self._backoff.reset()
        self._asks_at = _NEVER
        self._set("on", None)

    def _failed(self, error: KeymillError) -> Steps:
        if isinstance(error, (Sealed, Unauthorized, Forbidden)):
            self.drop()
        if _is_refusal(error):
            log.warning("no more keys: %s", error)
            self._set("refused", error)
            return
        if self._state != "failing":
            log.warning("keys cannot be fetched at present; %d are left: %s", len(self.keys), error)
        self._set("failing", error)
        pause = max(self._backoff.next(), min(retry_after_of(error), _RETRY_AFTER_MAX))
        self._asks_at = end = time.monotonic() + pause
        # Callers who find no keys do not make it ask sooner.
        while self.is_open and time.monotonic() < end:
            yield Rest(max(0.0, end - time.monotonic()))

    def _turn_off(self, why: str) -> None:
        self.drop()
        self.is_off, self._looked_at = True, time.monotonic()
        self._reason = why
        self._set("off", None)

    def _set(self, state: str, error: Optional[KeymillError]) -> None:
        self._state, self._error, self._since = state, error, time.monotonic()


def _is_refusal(error: KeymillError) -> bool:
    """Whether asking again makes no sense until somebody does something."""
    is_passing = isinstance(error, (NoKeysReady, RateLimited, Unavailable, Unreachable, BadAnswer))
    return not is_passing and (error.status or 0) < 500


def _why_off(info: KeyspaceInfo) -> Optional[str]:
    if info.definition.audit == "key":
        return 'single keys are recorded (`audit = "key"`), and a fetch would be on record instead of the use'
    if info.definition.kind == "pooled":
        return "keys of a pool are not to be wasted"
    if info.definition.kind == "snowflake":
        return "snowflake IDs would be out of order by the time they are used"
    return None
