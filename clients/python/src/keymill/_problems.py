"""Answers that are not a success, as errors. The one place where codes become classes."""

from __future__ import annotations

import json
from email.utils import parsedate_to_datetime
from typing import Any, Optional

from ._fields import Fields
from ._http1 import Answer
from .errors import (
    BadAnswer,
    Difference,
    DifferentDefinition,
    Exhausted,
    Forbidden,
    Invalid,
    KeymillError,
    NoKeysReady,
    RateLimited,
    Sealed,
    Taken,
    Unauthorized,
    Unavailable,
    UnknownAlias,
    UnknownKeyspace,
    WrongKind,
)

_BY_CODE: dict[str, type[KeymillError]] = {
    "exhausted": Exhausted,
    "sealed": Sealed,
    "no_keys_ready": NoKeysReady,
    "no_worker": NoKeysReady,
    "pool_filling": NoKeysReady,
    "unknown_space": UnknownKeyspace,
    "unknown_alias": UnknownAlias,
    "taken": Taken,
    "different_definition": DifferentDefinition,
    "wrong_kind": WrongKind,
}

# For all other codes, those of later versions too.
_BY_STATUS: dict[int, type[KeymillError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    413: Invalid,
    415: Invalid,
    429: RateLimited,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_of(answer: Answer, server: str) -> KeymillError:
    """The error in an answer whose status is not one of success."""
    wait = _retry_after(answer)
    try:
        problem = Fields.of(answer.body)
        common: dict[str, Any] = {
            "code": problem.text("code"),
            "status": answer.status,
            "request_id": problem.text_or_none("request_id") or answer.headers.get("x-request-id"),
            "server": server,
        }
        detail = problem.text("detail")
        held_elsewhere = problem.number_or_none("held_elsewhere")
        differences = _differences(problem)
    except BadAnswer:
        return _foreign(answer, wait, server)
    kind = _BY_CODE.get(common["code"]) or _BY_STATUS.get(answer.status, KeymillError)
    if kind is Exhausted:
        return Exhausted(detail, held_elsewhere=held_elsewhere, **common)
    if kind is DifferentDefinition:
        return DifferentDefinition(detail, differences=differences, **common)
    if kind is RateLimited:
        return RateLimited(detail, retry_after=1.0 if wait is None else wait, **common)
    if kind is NoKeysReady:
        return NoKeysReady(detail, retry_after=wait, **common)
    if kind is Unavailable:
        return Unavailable(detail, retry_after=wait, **common)
    return kind(detail, **common)


def retry_after_of(error: Optional[KeymillError]) -> float:
    """For how many seconds a server asks to be left alone."""
    if isinstance(error, (NoKeysReady, RateLimited, Unavailable)):
        return error.retry_after or 0.0
    return 0.0


def _foreign(answer: Answer, wait: Optional[float], server: str) -> KeymillError:
    """The error in an answer that no keymill server has written: a proxy in between, or something else."""
    start = answer.body[:80].decode("utf-8", "replace")
    detail = f"the server answered with status {answer.status}: {json.dumps(start)}"
    if answer.status in (502, 503, 504):
        return Unavailable(detail, retry_after=wait, code="bad_answer", status=answer.status, server=server)
    return BadAnswer(detail, code="bad_answer", status=answer.status, server=server)


def _differences(problem: Fields) -> list[Difference]:
    try:
        found = problem.parts("differences")
    except BadAnswer:
        return []
    return [Difference(each.text("setting"), each.text("stored"), each.text("asked")) for each in found]


def _retry_after(answer: Answer) -> Optional[float]:
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        # By the clock of the server, which may not be that of this machine.
        wait = parsedate_to_datetime(text) - parsedate_to_datetime(answer.headers.get("date", ""))
    except (TypeError, ValueError, IndexError):
        return None
    return max(0.0, wait.total_seconds())
