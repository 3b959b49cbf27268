"""The Python client of keymill: takes keys from one or several servers, and keeps some at hand.

    with Keymill("http://127.0.0.1:8080") as client:
        links = client.keyspace("links").cached()
        print(links.take())

``Keymill`` and ``Keyspace`` have every call, one request each; ``CachedKeyspace`` hands out keys that were fetched
ahead. ``AsyncKeymill``, ``AsyncKeyspace`` and ``AsyncCachedKeyspace`` are the same for asyncio. Every error is a
``KeymillError``, with a class for each reaction that a program may have.

Inside, ``_calls`` knows the requests and how their answers are read, ``_attempts`` decides which server is asked and
whether to ask again (with ``_servers``), and ``_stock`` how many keys to hold. None of these does any I/O, so that
both faces share them. ``_sockets`` and ``_streams`` send a request once, with ``_http1``.
"""

from ._version import __version__
from .aio import AsyncKeymill, AsyncKeyspace
from .aio_cache import AsyncCachedKeyspace
from .answers import Alias, CacheStatus, Digest, Explanation, Instance, KeyspaceInfo, Lease, UsedKey
from .cache import CachedKeyspace
from .client import Keymill, Keyspace
from .definition import Definition
from .errors import (
    BadAnswer,
    BadSettings,
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
    Unreachable,
    WrongKind,
)

__all__ = [
    "Alias",
    "AsyncCachedKeyspace",
    "AsyncKeymill",
    "AsyncKeyspace",
    "BadAnswer",
    "BadSettings",
    "CacheStatus",
    "CachedKeyspace",
    "Definition",
    "Difference",
    "DifferentDefinition",
    "Digest",
    "Exhausted",
    "Explanation",
    "Forbidden",
    "Instance",
    "Invalid",
    "Keymill",
    "KeymillError",
    "Keyspace",
    "KeyspaceInfo",
    "Lease",
    "NoKeysReady",
    "RateLimited",
    "Sealed",
    "Taken",
    "Unauthorized",
    "Unavailable",
    "UnknownAlias",
    "UnknownKeyspace",
    "Unreachable",
    "UsedKey",
    "WrongKind",
    "__version__",
]
