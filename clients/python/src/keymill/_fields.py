"""Reads the JSON of answers: each value has its type, or the answer is refused.

Fields that a later server adds are ignored.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from typing import Any, Optional, TypeVar

from .errors import BadAnswer

T = TypeVar("T")

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(?:Z|\+00:00)")


class Fields:
    """A JSON object."""

    def __init__(self, value: Any) -> None:
        if not isinstance(value, dict):
            raise unreadable("it is not an object")
        self._values: dict[str, Any] = value

    @classmethod
    def of(cls, body: bytes) -> Fields:
        try:
            return cls(json.loads(body))
        except ValueError as error:
            raise unreadable("it is not JSON") from error

    def text(self, name: str) -> str:
        return self._need(name, self.text_or_none(name))

    def text_or_none(self, name: str) -> Optional[str]:
        value = self._values.get(name)
        if value is None or isinstance(value, str):
            return value
        raise self._wrong(name)

    def flag(self, name: str) -> bool:
        return self._need(name, self.flag_or_none(name))

    def flag_or_none(self, name: str) -> Optional[bool]:
        value = self._values.get(name)
        if value is None or isinstance(value, bool):
            return value
        raise self._wrong(name)

    def number(self, name: str) -> int:
        return self._need(name, self.number_or_none(name))

    def number_or_none(self, name: str) -> Optional[int]:
        """A whole number, which servers write as a string where JavaScript would round it."""
        value = self._values.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit():
            return int(value)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise self._wrong(name)

    def ratio(self, name: str) -> float:
        value = self._values.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        raise self._wrong(name)

    def time(self, name: str) -> datetime:
        return self._need(name, self.time_or_none(name))

    def time_or_none(self, name: str) -> Optional[datetime]:
        text = self.text_or_none(name)
        if text is None:
            return None
        found = _TIME.fullmatch(text)
        if not found:
            raise self._wrong(name)
        whole, fraction = found.groups(default="")
        # Python's times have microseconds; servers may write more.
        micros = int((fraction + "000000")[:6])
        try:
            return datetime.fromisoformat(whole).replace(tzinfo=timezone.utc) + timedelta(microseconds=micros)
        except (ValueError, OverflowError) as error:
            raise self._wrong(name) from error

    def texts(self, name: str) -> list[str]:
        value = self._values.get(name)
        # Thousands of keys are looked at here, one by one but not in a loop of Python's.
        if isinstance(value, list) and set(map(type, value)) <= {str}:
            return value
        raise self._wrong(name)

    def part_or_none(self, name: str) -> Optional[Fields]:
        value = self._values.get(name)
        return None if value is None else Fields(value)

    def part(self, name: str) -> Fields:
        return self._need(name, self.part_or_none(name))

    def parts(self, name: str) -> list[Fields]:
        value = self._values.get(name)
        if not isinstance(value, list):
            raise self._wrong(name)
        return [Fields(part) for part in value]

    def _need(self, name: str, value: Optional[T]) -> T:
        if value is None:
            raise unreadable(f"`{name}` is missing")
        return value

    def _wrong(self, name: str) -> BadAnswer:
        return unreadable(f"`{name}` is not what it should be")


def unreadable(why: str) -> BadAnswer:
    return BadAnswer(f"the answer of the server cannot be read: {why}", code="bad_answer")
