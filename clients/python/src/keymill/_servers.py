"""The servers of a client: which one to ask next, and how often to ask again.

``_attempts`` picks a server for each attempt and says how it went. A server that failed is left alone for a while that
doubles, then one call tries it; the others go on with servers that work. Nothing here sends anything or sleeps.

There are no locks: threads that interfere cost a needless attempt, and a fork in between can leave nothing locked.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Generic, Optional, TypeVar

from ._address import Address

_FIRST = 0.05
_LONGEST = 2.0

L = TypeVar("L")


class Backoff:
    """Waits that double after each failure, with jitter, so that clients that lost one server do not return in step."""

    def __init__(self) -> None:
        self.failures = 0

    def next(self) -> float:
        """The next wait: anything up to the bound ("full jitter")."""
        return random.uniform(0, self._raise())

    def next_half(self) -> float:
        """One of at least half the bound: for leaving somebody alone, rather than for spreading out."""
        bound = self._raise()
        return random.uniform(bound / 2, bound)

    def reset(self) -> None:
        self.failures = 0

    def _raise(self) -> float:
        bound = min(_LONGEST, _FIRST * 2.0 ** min(self.failures, 16))
        self.failures += 1
        return bound


class Budget:
    """How often requests may be sent again, over all calls of a client.

    Over the life of a client, retries are at most a fifth of its calls, and ten more. Without a bound, servers that
    answer slowly would get every request several times, at the worst moment.
    """

    _RETRY = 5
    _STARTING = 10
    # Enough for the calls that are under way when a busy server is killed.
    _SAVED_MAX = 500

    def __init__(self) -> None:
        self._left = self._STARTING * self._RETRY

    def add_call(self) -> None:
        if self._left < self._SAVED_MAX * self._RETRY:
            self._left += 1

    def take_retry(self) -> bool:
        if self._left < self._RETRY:
            return False
        self._left -= self._RETRY
        return True


class Server(Generic[L]):
    """One server, and how it is. ``line`` is what sends requests to it."""

    def __init__(self, address: Address, line: L) -> None:
        self.address = address
        self.line = line
        self.problem = ""
        self.not_before: Optional[float] = None
        self._backoff = Backoff()

    @property
    def name(self) -> str:
        return self.address.name

    def answered(self) -> None:
        """It has answered, whatever it said."""
        if self.not_before is not None:
            self.not_before, self.problem = None, ""
            self._backoff.reset()

    def failed(self, problem: str, now: float) -> None:
        """It could not be reached, or did not answer."""
        # Calls that were under way together failed together: that counts once.
        if self.not_before is None or self.not_before <= now:
            self.not_before = now + self._backoff.next_half()
        self.problem = problem

    def may_be_tried(self, now: float) -> bool:
        if self.not_before is None:
            return True
        if self.not_before > now:
            return False
        # One call finds out, and the others need not.
        self.not_before = now + self._backoff.next_half()
        return True


class Servers(Generic[L]):
    """All servers of a client, in one process."""

    def __init__(self, servers: Sequence[Server[L]]) -> None:
        self.all: list[Server[L]] = list(servers)
        self.budget = Budget()
        # Clients that start together do not start with the same server.
        self._turns = itertools.count(random.randrange(1 << 16))

    def pick(self, tried: set[Server[L]], now: float) -> Optional[Server[L]]:
        """The next server that this round has not tried and that may be tried now."""
        start = next(self._turns)
        for step in range(len(self.all)):
            server = self.all[(start + step) % len(self.all)]
            if server not in tried and server.may_be_tried(now):
                tried.add(server)
                return server
        return None

    def ready_in(self, now: float) -> float:
        """In how many seconds some server may be tried: none, unless all of them have failed of late."""
        return min(max(0.0, (server.not_before or now) - now) for server in self.all)

    def problems(self) -> str:
        """Why none can be tried, for a call that did not get to try one."""
        return "; ".join(f"{server.name} {server.problem}" for server in self.all)
