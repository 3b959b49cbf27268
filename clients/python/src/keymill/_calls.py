"""Every call as data: what is sent, and how the answer is read. Both faces send these.

All of them are safe to repeat. Aliases, digests and definitions are the same whether they are asked for once or
twice; the keys of a take whose answer was lost stay unused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Generic, Optional, TypeVar
from urllib.parse import quote

from ._fields import Fields, unreadable
from ._http1 import Answer, Request
from .answers import Alias, Digest, Explanation, KeyspaceInfo, UsedKey
from .definition import Definition

T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request and the reader of its answer.

    Attributes:
        done_code: The error that says that an earlier attempt, whose answer was lost, has done it already.
    """

    request: Request
    read: Callable[[Answer], T]
    done_code: Optional[str] = None


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of a list. ``next`` is where the next one starts; ``None`` on the last one."""

    items: list[T]
    next: Optional[str]


@dataclass(frozen=True)
class Batch:
    """Keys that were taken. ``lifetime``: for how many seconds they are valid, if they expire."""

    keys: list[str]
    lifetime: Optional[float]


def take(space: str, count: int, caller: str) -> Call[Batch]:
    # The shortest form is what servers answer fastest.
    queries = [] if count == 1 else [f"count={count}"]
    if caller:
        queries.append(f"caller={_encoded(caller)}")
    query = "?" + "&".join(queries) if queries else ""

    def read(answer: Answer) -> Batch:
        found = Fields.of(answer.body)
        keys = found.texts("keys")
        if not 1 <= len(keys) <= count:
            raise unreadable(f"{count} keys were asked for, and {len(keys)} came")
        return Batch(keys, _lifetime(found.time_or_none("expires_at"), answer))

    return Call(Request("POST", f"{_path(space)}/keys{query}"), read)


def digest(space: str, scope: str, text: str) -> Call[Digest]:
    body = _json({"scope": scope, "input": text})
    return Call(Request("POST", f"{_path(space)}/digests", body), lambda answer: Digest._read(Fields.of(answer.body)))


def digest_many(space: str, scope: str, texts: Sequence[str]) -> Call[list[str]]:
    texts = list(texts)

    def read(answer: Answer) -> list[str]:
        keys = Fields.of(answer.body).texts("keys")
        if len(keys) != len(texts):
            raise unreadable(f"{len(texts)} inputs were sent, and {len(keys)} keys came")
        return keys

    return Call(Request("POST", f"{_path(space)}/digests", _json({"scope": scope, "inputs": texts})), read)


def add_alias(space: str, alias: str, owner: str) -> Call[bool]:
    request = Request("PUT", _alias_path(space, alias), _json({"owner": owner}))
    return Call(request, lambda answer: answer.status == 201)


def remove_alias(space: str, alias: str, owner: str) -> Call[None]:
    query = f"?owner={_encoded(owner)}" if owner else ""
    request = Request("DELETE", _alias_path(space, alias) + query)
    return Call(request, lambda answer: None, done_code="unknown_alias")


def alias(space: str, name: str) -> Call[Alias]:
    return Call(Request("GET", _alias_path(space, name)), lambda answer: Alias._read(Fields.of(answer.body)))


def aliases(space: str, after: Optional[str]) -> Call[Page[Alias]]:
    return _page(f"{_path(space)}/aliases", after, "aliases", Alias._read)


def explain(space: str, key: str) -> Call[Explanation]:
    return Call(Request("GET", _key_path(space, key)), lambda answer: Explanation._read(Fields.of(answer.body)))


def retire(space: str, key: str) -> Call[UsedKey]:
    return Call(Request("DELETE", _key_path(space, key)), lambda answer: UsedKey._read(Fields.of(answer.body)))


def ensure(space: str, definition: Definition) -> Call[KeyspaceInfo]:
    return Call(Request("PUT", _path(space), _json(definition._as_json())), _info)


def show(space: str) -> Call[KeyspaceInfo]:
    return Call(Request("GET", _path(space)), _info)


def keyspaces(after: Optional[str]) -> Call[Page[KeyspaceInfo]]:
    return _page("/v1/spaces", after, "spaces", KeyspaceInfo._read)


def _info(answer: Answer) -> KeyspaceInfo:
    return KeyspaceInfo._read(Fields.of(answer.body))


def _page(path: str, after: Optional[str], name: str, read: Callable[[Fields], T]) -> Call[Page[T]]:
    query = "" if after is None else f"?after={_encoded(after)}"

    def read_page(answer: Answer) -> Page[T]:
        found = Fields.of(answer.body)
        return Page([read(item) for item in found.parts(name)], found.text_or_none("next"))

    return Call(Request("GET", path + query), read_page)


def _lifetime(expires_at: Optional[datetime], answer: Answer) -> Optional[float]:
    if expires_at is None:
        return None
    lifetime = (expires_at - datetime.now(timezone.utc)).total_seconds()
    try:
        # By the clock of the server, which is without fractions and may not be that of this machine.
        by_server = (expires_at - parsedate_to_datetime(answer.headers.get("date", ""))).total_seconds() - 1
    except (TypeError, ValueError, IndexError):
        return lifetime
    return lifetime if abs(lifetime - by_server) < 2 else by_server


def _path(space: str) -> str:
    return f"/v1/spaces/{_encoded(space)}"


def _alias_path(space: str, alias: str) -> str:
    return f"{_path(space)}/aliases/{_encoded(alias)}"


def _key_path(space: str, key: str) -> str:
    return f"{_path(space)}/keys/{_encoded(key)}"


def _encoded(text: str) -> str:
    # What is no text in UTF-8 is for the server to refuse.
    return quote(text, safe="-_.~", errors="surrogatepass")


def _json(value: Any) -> bytes:
    return json.dumps(value).encode("ascii")
