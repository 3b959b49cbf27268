"""The errors of every call: one class for each reaction that a program may have.

``_problems`` makes them of answers, ``_attempts`` of what happened on the way to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional, TypeVar

E = TypeVar("E", bound="KeymillError")


class KeymillError(Exception):
    """Why a call failed.

    Attributes:
        code: The stable code: of the server, such as ``unknown_space``, or ``unreachable``, ``bad_answer`` or
            ``bad_settings`` of the client.
        detail: What happened and what to do about it, for people.
        status: The HTTP status, if a server answered.
        request_id: The ID under which the server's log has the request.
        server: The server that answered, or that was tried last.
    """

    code: str
    detail: str
    status: Optional[int]
    request_id: Optional[str]
    server: Optional[str]

    def __init__(
        self,
        detail: str,
        *,
        code: str,
        status: Optional[int] = None,
        request_id: Optional[str] = None,
        server: Optional[str] = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.status = status
        self.request_id = request_id
        self.server = server

    def __str__(self) -> str:
        server = f", {self.server}" if self.server else ""
        return f"{self.detail} ({self.code}{server})"

    @property
    def is_retryable(self) -> bool:
        """Whether the same call may succeed later without anybody doing something.

        The client has tried again already, as far as its timeout and its retry budget allowed.
        """
        return False

    # Exceptions are pickled by calling their class with ``args``, which has no place for keyword arguments. Errors
    # have to travel, because a pool of processes sends them back to its parent.
    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), dict(self.__dict__))

    def _again(self: E) -> E:
        """The same error without its traceback, to be raised in another place."""
        return _restored(type(self), dict(self.__dict__))


class Exhausted(KeymillError):
    """The keyspace, or its pool, has no keys left. ``held_elsewhere``: how many other instances still hold."""

    def __init__(self, detail: str, *, held_elsewhere: Optional[int] = None, **common: Any) -> None:
        super().__init__(detail, **common)
        self.held_elsewhere = held_elsewhere


class Sealed(KeymillError):
    """The keyspace is sealed: it hands out no more keys."""


class NoKeysReady(KeymillError):
    """The servers that were asked have no keys in memory, and got none in time. ``retry_after``: seconds, if known."""

    def __init__(self, detail: str, *, retry_after: Optional[float] = None, **common: Any) -> None:
        super().__init__(detail, **common)
        self.retry_after = retry_after

    @property
    def is_retryable(self) -> bool:
        return True


class RateLimited(KeymillError):
    """The token, or this address, has sent too much. ``retry_after``: how many seconds to wait."""

    def __init__(self, detail: str, *, retry_after: float, **common: Any) -> None:
        super().__init__(detail, **common)
        self.retry_after = retry_after

    @property
    def is_retryable(self) -> bool:
        return True


class Unavailable(KeymillError):
    """The servers that were asked cannot answer at present. ``retry_after``: seconds, if known."""

    def __init__(self, detail: str, *, retry_after: Optional[float] = None, **common: Any) -> None:
        super().__init__(detail, **common)
        self.retry_after = retry_after

    @property
    def is_retryable(self) -> bool:
        # Until an operator has advanced the keyspace, trying again does not help.
        return self.code != "store_rolled_back"


class Unreachable(KeymillError):
    """No server answered in time, or none could be reached."""

    @property
    def is_retryable(self) -> bool:
        return True


class Unauthorized(KeymillError):
    """There is no token, or it is mistyped, unknown, expired or revoked."""


class Forbidden(KeymillError):
    """The token does not allow this."""


class UnknownKeyspace(KeymillError):
    """There is no keyspace of this name."""


class UnknownAlias(KeymillError):
    """The keyspace has no such alias."""


class Taken(KeymillError):
    """The alias belongs to someone else, or may already have been handed out as a key."""


@dataclass(frozen=True)
class Difference:
    """A setting in which an existing keyspace differs from what was asked for."""

    setting: str
    stored: str
    asked: str


class DifferentDefinition(KeymillError):
    """The keyspace already exists with other settings. ``differences``: each setting that differs."""

    def __init__(self, detail: str, *, differences: Sequence[Difference] = (), **common: Any) -> None:
        super().__init__(detail, **common)
        self.differences = tuple(differences)


class WrongKind(KeymillError):
    """The keyspace, or its store, does not support this operation."""


class Invalid(KeymillError):
    """The request is wrong: a value is out of range, or cannot be read."""


class BadAnswer(KeymillError):
    """What answered is not a keymill server, or one that this client does not understand."""


class BadSettings(KeymillError, ValueError):
    """The settings of the client cannot be used."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, code="bad_settings")


def _restored(of: type[E], fields: dict[str, Any]) -> E:
    error = of.__new__(of, fields["detail"])
    error.__dict__.update(fields)
    return error
