"""A call: an attempt at one server after the other, until one answers or it makes no sense to go on.

Every call of both faces is a run of ``attempts``, a generator that yields what to do next (``Send`` or ``Wait``) and
is sent what came of it. So the decisions stand here once, and those who drive it only do I/O.

- Requests that servers may have seen are repeated only within the retry budget. A request that never left costs none:
  no server has more to do because of it.
- A call ends by its deadline.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Generic, Optional, TypeVar, Union

from ._calls import Call
from ._http1 import Answer
from ._problems import error_of, retry_after_of
from ._servers import Backoff, Server, Servers
from ._settings import Settings
from .errors import (
    Exhausted,
    KeymillError,
    NoKeysReady,
    RateLimited,
    Unauthorized,
    Unavailable,
    Unreachable,
)

L = TypeVar("L")
T = TypeVar("T")

log = logging.getLogger("keymill")


@dataclass(frozen=True)
class Send(Generic[L]):
    """Send the request to this server, and take no longer than until ``end`` (of ``time.monotonic``)."""

    server: Server[L]
    end: float


@dataclass(frozen=True)
class Wait:
    """Wait."""

    seconds: float


@dataclass(frozen=True)
class Failure:
    """There is no answer.

    Attributes:
        problem: What happened, as the rest of a sentence that begins with the server.
        was_sent: Whether the server may have seen the request.
        was_idle: The connection had been open for a while, and may have been closed by the server at that very moment.
    """

    problem: str
    was_sent: bool
    was_idle: bool = False
    cause: Optional[BaseException] = None


Steps = Generator[Union[Send[L], Wait], Union[Answer, Failure, None], T]


def attempts(servers: Servers[L], settings: Settings, call: Call[T], timeout: Optional[float]) -> Steps[L, T]:
    """Tries servers until one answers, and returns what it says."""
    servers.budget.add_call()
    seconds = settings.timeout if timeout is None else timeout
    deadline = time.monotonic() + seconds
    met: _Met[L] = _Met(servers)
    has_reloaded = False
    while True:
        now = time.monotonic()
        server = None if met.is_rate_limited else servers.pick(met.tried, now)
        if server is None:
            wait = met.wait(now)
            if met.is_exhausted or now + wait >= deadline:
                raise met.failure(seconds)
            yield Wait(wait)
            met.begin_round()
            continue
        attempt_end = now + settings.attempt_timeout
        outcome = yield Send(server, min(attempt_end, deadline))
        now = time.monotonic()
        if isinstance(outcome, Answer):
            server.answered()
            if 200 <= outcome.status < 300:
                return call.read(outcome)
            error = error_of(outcome, server.name)
            if met.is_doubtful and error.code == call.done_code:
                return call.read(outcome)
            if isinstance(error, Unauthorized) and not has_reloaded and settings.token.reload():
                has_reloaded = True
                met.tried.discard(server)
                continue
            if not met.refused(error) or not servers.budget.take_retry():
                raise met.failure(seconds)
        elif isinstance(outcome, Failure):
            # Where the caller's time was too short, the server is not to blame.
            is_fault = not outcome.was_idle and (now >= attempt_end or now < deadline)
            met.failed(server, outcome, is_fault, now)
            if outcome.was_sent and not servers.budget.take_retry():
                raise met.failure(seconds)
        if now >= deadline:
            raise met.failure(seconds)


class _Met(Generic[L]):
    """What a call has met so far."""

    def __init__(self, servers: Servers[L]) -> None:
        self.tried: set[Server[L]] = set()
        # An attempt may have had its effect, although there was no answer.
        self.is_doubtful = False
        # A server said that there are no keys left. Others may still hold some.
        self.is_exhausted = False
        # A server said that this client asks too much. Asking another one instead would evade the limit.
        self.is_rate_limited = False
        self._servers = servers
        self._backoff = Backoff()
        self._error: Optional[KeymillError] = None
        self._cause: Optional[BaseException] = None
        self._retry_after = 0.0

    def begin_round(self) -> None:
        self.tried.clear()
        self.is_rate_limited = False

    def refused(self, error: KeymillError) -> bool:
        """Notes what a server said. Returns whether another attempt may succeed."""
        # What one server says of the keyspace is worth more than that another is not ready.
        if not self.is_exhausted or isinstance(error, Exhausted):
            self._error, self._cause = error, None
        if isinstance(error, Exhausted):
            self.is_exhausted = True
            return len(self.tried) < len(self._servers.all)
        if isinstance(error, (NoKeysReady, Unavailable, RateLimited)):
            self.is_rate_limited = isinstance(error, RateLimited)
            self._retry_after = max(self._retry_after, retry_after_of(error))
            return True
        return False

    def failed(self, server: Server[L], failure: Failure, is_fault: bool, now: float) -> None:
        """Notes that there was no answer."""
        self.is_doubtful = self.is_doubtful or failure.was_sent
        if failure.was_idle:
            # A server that has closed an idle connection may well answer on another one.
            self.tried.discard(server)
        elif is_fault:
            log.info("%s %s", server.name, failure.problem)
            server.failed(failure.problem, now)
        # An answer says more than that another server gave none, as does a failure of which time was not the reason.
        if self._error is None or (is_fault and isinstance(self._error, Unreachable)):
            detail = f"{server.name} {failure.problem}"
            self._error = Unreachable(detail, code="unreachable", server=server.name)
            self._cause = failure.cause

    def wait(self, now: float) -> float:
        """How long to wait until the next round."""
        asked, self._retry_after = self._retry_after, 0.0
        # On top of what servers ask for, so that those who were sent away together do not return in step.
        return max(asked + self._backoff.next(), self._servers.ready_in(now))

    def failure(self, seconds: float) -> KeymillError:
        error = self._error
        if error is None:
            detail = f"no server could be asked within {seconds:g} s: {self._servers.problems()}"
            return Unreachable(detail, code="unreachable")
        error.__cause__ = self._cause
        return error
