"""The local cache for asyncio: keys that were fetched ahead, handed out from memory.

The same as ``cache``, with a task instead of a thread. No key is ever the result of a future, which could be lost
with a cancelled caller or be found by both sides of a fork: callers who waited take it themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, NoReturn, Optional, Union

from . import _fork
from ._calls import Batch
from ._demand import CacheSettings
from ._fork import OWN
from ._settings import check_seconds
from ._stock import Fetch, Look, Stock
from .answers import CacheStatus, KeyspaceInfo
from .errors import KeymillError

if TYPE_CHECKING:
    from .aio import AsyncKeyspace

log = logging.getLogger("keymill")
monotonic = time.monotonic


class AsyncCachedKeyspace:
    """A keyspace whose keys are fetched ahead and handed out from memory: ``keyspace.cached()``.

    See ``CachedKeyspace`` for what it holds and when it is off. It serves one event loop at a time.
    """

    def __init__(self, keyspace: AsyncKeyspace, settings: CacheSettings) -> None:
        self._keyspace = keyspace
        self._settings = settings
        self._stock = Stock(settings)
        self._refill: Optional[_Refill] = None
        _fork.register(self)

    @property
    def keyspace(self) -> AsyncKeyspace:
        """The keyspace, for calls that ask a server."""
        return self._keyspace

    async def take(self, *, timeout: Optional[float] = None) -> str:
        """Takes a key: at once if there is one in memory, otherwise when the next ones arrive."""
        stock = self._stock
        if OWN[0] and monotonic() < stock.fresh_until:
            try:
                return stock.keys.popleft()
            except IndexError:
                pass
        return (await self._take_slowly(1, timeout))[0]

    async def take_many(self, count: int, *, timeout: Optional[float] = None) -> list[str]:
        """Takes so many keys: at once if they are all in memory, otherwise when the next ones arrive."""
        if not 1 <= count <= self._settings.keys_max:
            # The server says what is wrong with it, or hands out more than are ever kept here.
            return await self._keyspace.take_many(count, timeout=timeout)
        return await self._take_slowly(count, timeout)

    def try_take(self) -> Optional[str]:
        """Takes a key if there is one in memory. If not, more are being fetched from now on. Needs a running loop."""
        stock = self._stock
        if OWN[0] and monotonic() < stock.fresh_until:
            try:
                return stock.keys.popleft()
            except IndexError:
                pass
        _fork.check()
        refill = self._own_refill()
        key = self._stock.take_one()
        if key is None and refill is not None:
            refill.call()
        return key

    def status(self) -> CacheStatus:
        """How it is: whether keys are handed out from memory, how many there are, and what is wrong."""
        _fork.check()
        return self._stock.status()

    async def aclose(self) -> None:
        """Drops its keys, which stay unused, and ends its task."""
        _fork.check()
        self._stock.is_open = False
        self._stock.drop()
        refill, self._refill = self._refill, None
        if refill is not None and refill.serves(asyncio.get_running_loop()):
            refill.task.cancel()
            await asyncio.wait([refill.task])

    def __len__(self) -> int:
        _fork.check()
        return len(self._stock.keys)

    def __bool__(self) -> bool:
        # An empty cache is still one.
        return True

    def __aiter__(self) -> AsyncCachedKeyspace:
        """Keys without end, each taken when it is asked for."""
        return self

    async def __anext__(self) -> str:
        return await self.take()

    def __repr__(self) -> str:
        return f"AsyncCachedKeyspace({self._keyspace.name!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a cache of keys cannot be copied or pickled, because two copies would hand out the same keys")

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__reduce__()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, RuntimeError):
            self._stock.is_open = False
            if self._refill is not None:
                self._refill.loop.call_soon_threadsafe(self._refill.call)

    async def _take_slowly(self, count: int, timeout: Optional[float]) -> list[str]:
        seconds = self._seconds(timeout)
        end = monotonic() + seconds
        while True:
            _fork.check()
            stock = self._stock
            refill = self._own_refill()
            keys = stock.serve(count, end, seconds)
            if keys is not None:
                return keys
            if refill is None or stock.is_off:
                # Time may be short, but this much is left for saying what is wrong.
                return await self._keyspace.take_many(count, timeout=max(0.001, end - monotonic()))
            stock.waiting += count
            refill.call()
            try:
                await refill.wait(min(end - monotonic(), 1.0))
            finally:
                stock.waiting -= count

    def _own_refill(self) -> Optional[_Refill]:
        """The refill in this loop, started if it does not run; none if the cache is off."""
        if not self._stock.is_open:
            raise RuntimeError("the cache is closed")
        if not self._stock.needs_refill():
            return None
        loop = asyncio.get_running_loop()
        if self._refill is None or not self._refill.serves(loop):
            # It must not hold on to this cache, which would then never be dropped.
            self._refill = _Refill(self._stock, self._keyspace, loop)
        return self._refill

    def _seconds(self, timeout: Optional[float]) -> float:
        if timeout is None:
            return self._keyspace._client._settings.timeout
        check_seconds("timeout", timeout)
        return timeout

    def _after_fork(self) -> None:
        # Whoever is in the middle of a take finds nothing there. The task is the parent's, as is its event loop.
        self._stock.keys.clear()
        is_open = self._stock.is_open
        self._stock = Stock(self._settings)
        self._stock.is_open = is_open
        _fork.keep(self._refill)
        self._refill = None


class _Refill:
    """The task that keeps a stock filled, in one event loop."""

    def __init__(self, stock: Stock, keyspace: AsyncKeyspace, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._stock = stock
        self._keyspace = keyspace
        self._called = asyncio.Event()
        self._filled = asyncio.Event()
        self.task = keyspace._client._refill(self._run())

    def serves(self, loop: asyncio.AbstractEventLoop) -> bool:
        return self.loop is loop and not self.task.done()

    def call(self) -> None:
        """Has it look whether keys are wanted."""
        self._called.set()

    async def wait(self, seconds: float) -> None:
        """Waits until something has changed."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._filled.wait(), max(0.0, seconds))

    async def _run(self) -> None:
        steps = self._stock.steps()
        outcome: Union[KeyspaceInfo, Batch, KeymillError, None] = None
        try:
            while True:
                try:
                    step = steps.send(outcome)
                except StopIteration:
                    return
                if outcome is not None:
                    self._tell()
                outcome = None
                if isinstance(step, Fetch):
                    outcome = await _ask(self._keyspace._fetch(step.count, None))
                elif isinstance(step, Look):
                    outcome = await _ask(self._keyspace.show())
                else:
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(self._called.wait(), step.seconds)
                    self._called.clear()
        finally:
            # The next take starts another one, because nothing is fresh until it has looked.
            self._stock.fresh_until = float("-inf")
            self._tell()

    def _tell(self) -> None:
        """Wakes all who wait."""
        self._filled.set()
        self._filled = asyncio.Event()


async def _ask(call: Awaitable[Union[KeyspaceInfo, Batch]]) -> Union[KeyspaceInfo, Batch, KeymillError]:
    try:
        return await call
    except KeymillError as error:
        return error
    except Exception as error:
        # A task that ends with a traceback would leave callers without a reason.
        log.debug("a fetch failed in an unexpected way", exc_info=True)
        return KeymillError(f"keys cannot be fetched: {error}", code="failed")
