"""The client for asyncio: every call, one request each.

The same as ``client``, whose classes say what each call does.
"""

from __future__ import annotations

import asyncio
import ssl
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Optional, TypeVar, Union, cast

from . import _calls, _fork
from ._attempts import Send, attempts
from ._calls import Batch, Call, Page
from ._demand import CacheSettings
from ._servers import Server, Servers
from ._settings import Settings, check_seconds
from ._streams import AsyncLine
from .aio_cache import AsyncCachedKeyspace
from .answers import Alias, Digest, Explanation, KeyspaceInfo, UsedKey
from .definition import Definition

if TYPE_CHECKING:
    from ._attempts import Failure
    from ._http1 import Answer

T = TypeVar("T")


class AsyncKeymill:
    """A client of one or several servers of the same store, for one event loop at a time.

    It takes the same arguments as ``Keymill``. It may be made before the event loop, and used in one loop after the
    other.
    """

    def __init__(
        self,
        servers: Union[str, Sequence[str], None] = None,
        *,
        token: Optional[str] = None,
        token_file: Optional[str] = None,
        ca_file: Optional[str] = None,
        client_certificate: Optional[tuple[str, str]] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
        timeout: float = 10.0,
        attempt_timeout: float = 4.0,
        connect_timeout: float = 2.0,
    ) -> None:
        self._settings = Settings.check(
            servers,
            token=token,
            token_file=token_file,
            ca_file=ca_file,
            client_certificate=client_certificate,
            ssl_context=ssl_context,
            timeout=timeout,
            attempt_timeout=attempt_timeout,
            connect_timeout=connect_timeout,
        )
        self._is_closed = False
        self._caches: weakref.WeakSet[AsyncCachedKeyspace] = weakref.WeakSet()
        self._servers: Optional[Servers[AsyncLine]] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._refills: set[asyncio.Task[None]] = set()
        _fork.register(self)

    def keyspace(self, name: str, *, caller: str = "") -> AsyncKeyspace:
        """A keyspace by its name. Nothing is sent: whether it exists shows with the first call.

        ``caller`` names who its keys are for, which is recorded with them where ``audit = "key"``.
        """
        return AsyncKeyspace(self, name, caller)

    def keyspaces(self) -> AsyncIterator[KeyspaceInfo]:
        """All keyspaces, ordered by name, a page at a time. Needs the right ``read`` for all keyspaces."""
        return self._pages(_calls.keyspaces)

    async def aclose(self) -> None:
        """Closes its connections and its caches. Keys in the caches stay unused: a gap."""
        self._is_closed = True
        for cache in list(self._caches):
            await cache.aclose()
        if self._servers is not None and self._loop is asyncio.get_running_loop():
            await _end(list(self._refills))
            for server in self._servers.all:
                server.line.close()
            # The loop closes them in its next turn, which may otherwise be its last.
            await asyncio.sleep(0)

    async def __aenter__(self) -> AsyncKeymill:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"AsyncKeymill({', '.join(address.name for address in self._settings.addresses)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Keymill client cannot be copied or pickled: make one in each process")

    async def _call(self, call: Call[T], timeout: Optional[float]) -> T:
        _fork.check()
        if timeout is not None:
            check_seconds("timeout", timeout)
        steps = attempts(self._own_servers(), self._settings, call, timeout)
        outcome: Union[Answer, Failure, None] = None
        try:
            while True:
                if self._is_closed:
                    raise RuntimeError("the client is closed")
                step = steps.send(outcome)
                if isinstance(step, Send):
                    request = call.request.to_bytes(step.server.address, self._settings.token.header())
                    outcome = await step.server.line.exchange(request, step.end)
                else:
                    await asyncio.sleep(step.seconds)
                    outcome = None
        except StopIteration as end:
            return cast(T, end.value)

    async def _pages(self, page_after: Callable[[Optional[str]], Call[Page[T]]]) -> AsyncIterator[T]:
        after = None
        while True:
            page = await self._call(page_after(after), None)
            for item in page.items:
                yield item
            after = page.next
            if after is None:
                return

    def _own_servers(self) -> Servers[AsyncLine]:
        loop = asyncio.get_running_loop()
        if self._servers is None or self._loop is not loop:
            # Connections of another loop cannot be used in this one, and that loop has closed them or does not run.
            addresses = self._settings.addresses
            self._servers = Servers([Server(address, AsyncLine(address, self._settings)) for address in addresses])
            self._loop, self._refills = loop, set()
        return self._servers

    def _refill(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts the task of a cache, which may outlive the cache for a moment. Loops do not hold on to their tasks."""
        self._own_servers()
        task = asyncio.get_running_loop().create_task(work)
        self._refills.add(task)
        task.add_done_callback(self._refills.discard)
        return task

    def _after_fork(self) -> None:
        # To close or drop them would take them out of the selector of the event loop, which is shared with the parent.
        _fork.keep((self._servers, self._refills))
        self._servers = self._loop = None
        self._refills = set()


class AsyncKeyspace:
    """A keyspace, by its name: ``client.keyspace("links")``. See ``Keyspace`` for what each call does."""

    def __init__(self, client: AsyncKeymill, name: str, caller: str) -> None:
        self._client = client
        self._name = name
        self._caller = caller

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def cached(
        self,
        *,
        horizon: float = 30.0,
        keys_min: int = 32,
        keys_max: int = 100_000,
        max_age: float = 600.0,
        any_keyspace: bool = False,
    ) -> AsyncCachedKeyspace:
        """Keys that are fetched ahead and handed out from memory. The arguments are those of ``Keyspace.cached``."""
        cache = AsyncCachedKeyspace(self, CacheSettings(horizon, keys_min, keys_max, max_age, any_keyspace))
        self._client._caches.add(cache)
        return cache

    async def take(self, *, timeout: Optional[float] = None) -> str:
        """Takes a key. Needs the right ``take``."""
        return (await self._fetch(1, timeout)).keys[0]

    async def take_many(self, count: int, *, timeout: Optional[float] = None) -> list[str]:
        """Takes several keys at once: fewer than ``count`` only if the keyspace has no more."""
        return (await self._fetch(count, timeout)).keys

    async def digest(self, text: str, *, scope: str = "", timeout: Optional[float] = None) -> Digest:
        """The key of an input, in a keyspace of kind ``digest``: always the same. Needs the right ``name``."""
        return await self._client._call(_calls.digest(self._name, scope, text), timeout)

    async def digest_many(self, texts: Iterable[str], *, scope: str = "", timeout: Optional[float] = None) -> list[str]:
        """The keys of several inputs, in their order, by one request. Needs the right ``name``."""
        return await self._client._call(_calls.digest_many(self._name, scope, list(texts)), timeout)

    async def add_alias(self, alias: str, *, owner: str = "", timeout: Optional[float] = None) -> bool:
        """Reserves a key of your choice, and returns whether it is new. Needs the right ``name``."""
        return await self._client._call(_calls.add_alias(self._name, alias, owner), timeout)

    async def remove_alias(self, alias: str, *, owner: str = "", timeout: Optional[float] = None) -> None:
        """Removes an alias. Its key stays reserved and is never handed out. Needs the right ``name``."""
        await self._client._call(_calls.remove_alias(self._name, alias, owner), timeout)

    async def alias(self, alias: str, *, timeout: Optional[float] = None) -> Alias:
        """An alias with its owner and when it was added. Needs the right ``read``."""
        return await self._client._call(_calls.alias(self._name, alias), timeout)

    def aliases(self) -> AsyncIterator[Alias]:
        """All aliases, ordered by name, a page at a time. Needs the right ``read``."""
        return self._client._pages(lambda after: _calls.aliases(self._name, after))

    async def explain(self, key: str, *, timeout: Optional[float] = None) -> Explanation:
        """Explains where a key came from. Needs the right ``read``."""
        return await self._client._call(_calls.explain(self._name, key), timeout)

    async def retire(self, key: str, *, timeout: Optional[float] = None) -> UsedKey:
        """Retires a key that was handed out. Needs the right ``name``."""
        return await self._client._call(_calls.retire(self._name, key), timeout)

    async def ensure(self, definition: Optional[Definition] = None, *, timeout: Optional[float] = None) -> KeyspaceInfo:
        """Creates the keyspace, unless it exists; then its changeable settings are set to these. Needs ``admin``."""
        return await self._client._call(_calls.ensure(self._name, definition or Definition()), timeout)

    async def show(self, *, timeout: Optional[float] = None) -> KeyspaceInfo:
        """Its settings and usage. Needs the right ``read``."""
        return await self._client._call(_calls.show(self._name), timeout)

    def __repr__(self) -> str:
        return f"AsyncKeyspace({self._name!r})"

    async def _fetch(self, count: int, timeout: Optional[float]) -> Batch:
        return await self._client._call(_calls.take(self._name, count, self._caller), timeout)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
