"""The local cache for threads: keys that were fetched ahead, handed out from memory.

``_stock`` holds the keys and decides what to fetch; a daemon thread does it, while keys are taken.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Iterator
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
    from .client import Keyspace

log = logging.getLogger("keymill")
monotonic = time.monotonic


class CachedKeyspace:
    """A keyspace whose keys are fetched ahead and handed out from memory: ``keyspace.cached()``. Threads may share it.

    A take is answered at once while there are keys, and the next ones are fetched in the background before they are
    needed: by default enough for the next 30 seconds at the present rate. So takes go on while no server can be
    reached, for as long as the keys last; after that they wait, up to the timeout, while the cache goes on trying.
    The first take waits for the first keys.

    **Fetched counts as handed out.** Keys that are in the cache when it is dropped, or when the process ends, stay
    unused: a gap. Therefore the cache is off, and every take asks a server, in keyspaces with ``audit = "key"``,
    where the fetch would be on record instead of the use; of kind ``pooled``, whose keys are not to be wasted; of
    kind ``snowflake``, whose keys would be out of order by the time they are used; and whose settings the token may
    not read. ``cached(any_keyspace=True)`` turns it on there, too, and ``status()`` says whether it is on.

    Keys are dropped when they are too old, when they expire, and when a server says that the keyspace is sealed or
    the token no longer valid.

    It cannot be copied or pickled. A forked child starts with an empty cache, and never hands out what its parent may
    hand out too. A snapshot of a virtual machine is a copy that nothing notices: do not start one twice while a cache
    in it has keys.
    """

    def __init__(self, keyspace: Keyspace, settings: CacheSettings) -> None:
        self._keyspace = keyspace
        self._settings = settings
        self._shop = _Shop(settings)
        self._stock = self._shop.stock
        _fork.register(self)

    @property
    def keyspace(self) -> Keyspace:
        """The keyspace, for calls that ask a server."""
        return self._keyspace

    def take(self, *, timeout: Optional[float] = None) -> str:
        """Takes a key: at once if there is one in memory, otherwise when the next ones arrive."""
        stock = self._stock
        if OWN[0] and monotonic() < stock.fresh_until:
            try:
                return stock.keys.popleft()
            except IndexError:
                pass
        return self._take_slowly(1, timeout)[0]

    def take_many(self, count: int, *, timeout: Optional[float] = None) -> list[str]:
        """Takes so many keys: at once if they are all in memory, otherwise when the next ones arrive."""
        if not 1 <= count <= self._settings.keys_max:
            # The server says what is wrong with it, or hands out more than are ever kept here.
            return self._keyspace.take_many(count, timeout=timeout)
        return self._take_slowly(count, timeout)

    def try_take(self) -> Optional[str]:
        """Takes a key if there is one in memory. If not, more are being fetched from now on."""
        stock = self._stock
        if OWN[0] and monotonic() < stock.fresh_until:
            try:
                return stock.keys.popleft()
            except IndexError:
                pass
        shop = self._own_shop()
        with shop.lock:
            self._start_refill(shop)
            key = shop.stock.take_one()
            if key is None:
                shop.call()
            return key

    def status(self) -> CacheStatus:
        """How it is: whether keys are handed out from memory, how many there are, and what is wrong."""
        shop = self._own_shop()
        with shop.lock:
            return shop.stock.status()

    def close(self) -> None:
        """Drops its keys, which stay unused, and ends its thread."""
        shop = self._own_shop()
        with shop.lock:
            shop.stock.is_open = False
            shop.stock.drop()
            shop.calls.put(None)
            shop.filled.notify_all()

    def __len__(self) -> int:
        return len(self._own_shop().stock.keys)

    def __bool__(self) -> bool:
        # An empty cache is still one.
        return True

    def __iter__(self) -> Iterator[str]:
        """Keys without end, each taken when it is asked for."""
        return iter(self.take, None)

    def __repr__(self) -> str:
        return f"CachedKeyspace({self._keyspace.name!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a cache of keys cannot be copied or pickled, because two copies would hand out the same keys")

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__reduce__()

    def __del__(self) -> None:
        # No lock is taken here: whoever holds it may be the one who is interrupted for this.
        with contextlib.suppress(AttributeError):
            self._shop.stock.is_open = False
            self._shop.calls.put(None)

    def _take_slowly(self, count: int, timeout: Optional[float]) -> list[str]:
        seconds = self._seconds(timeout)
        end = monotonic() + seconds
        while True:
            shop = self._own_shop()
            with shop.lock:
                self._start_refill(shop)
                keys = shop.stock.serve(count, end, seconds)
                if keys is None and shop.is_running and not shop.stock.is_off:
                    self._wait(shop, count, end)
                    continue
            if keys is None:
                # Time may be short, but this much is left for saying what is wrong.
                return self._keyspace.take_many(count, timeout=max(0.001, end - monotonic()))
            if shop is self._own_shop():
                return keys

    def _wait(self, shop: _Shop, count: int, end: float) -> None:
        """Waits a while for keys, under the lock."""
        shop.stock.waiting += count
        shop.call()
        try:
            shop.filled.wait(max(0.0, min(end - monotonic(), 1.0)))
        finally:
            shop.stock.waiting -= count

    def _start_refill(self, shop: _Shop) -> None:
        """Starts the refill if it does not run, under the lock."""
        if not shop.stock.is_open:
            raise RuntimeError("the cache is closed")
        if shop.is_running or not shop.stock.needs_refill():
            return
        name = f"keymill-{self._keyspace.name}"
        # It must not hold on to this cache, which would then never be dropped.
        thread = threading.Thread(target=_refill, args=(shop, self._keyspace), name=name, daemon=True)
        try:
            thread.start()
            shop.is_running = True
        except RuntimeError as error:
            # At the end of the program no thread can be started, and servers are asked for single keys.
            log.debug("the refill of the cache cannot be started: %s", error)

    def _seconds(self, timeout: Optional[float]) -> float:
        if timeout is None:
            return self._keyspace._client._settings.timeout
        check_seconds("timeout", timeout)
        return timeout

    def _own_shop(self) -> _Shop:
        _fork.check()
        return self._shop

    def _after_fork(self) -> None:
        # Whoever is in the middle of a take finds nothing there.
        self._stock.keys.clear()
        is_open = self._stock.is_open
        self._shop = _Shop(self._settings)
        self._stock = self._shop.stock
        self._stock.is_open = is_open


class _Shop:
    """What a cache has in one process: its stock, and what threads need to share it."""

    def __init__(self, settings: CacheSettings) -> None:
        self.stock = Stock(settings)
        self.lock = threading.Lock()
        self.filled = threading.Condition(self.lock)
        # Wakes the refill. Unlike other ways to do that, it may be used at any time, in `__del__` too.
        self.calls: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.is_running = False

    def call(self) -> None:
        """Has the refill look whether keys are wanted."""
        if self.calls.empty():
            self.calls.put(None)


def _refill(shop: _Shop, keyspace: Keyspace) -> None:
    """The thread: does what the stock says."""
    steps = shop.stock.steps()
    outcome: Union[KeyspaceInfo, Batch, KeymillError, None] = None
    while True:
        with shop.lock:
            try:
                step = steps.send(outcome)
            except StopIteration:
                _end(shop)
                return
            except BaseException:
                _end(shop)
                raise
            if outcome is not None:
                shop.filled.notify_all()
        outcome = None
        if isinstance(step, Fetch):
            outcome = _ask(lambda count=step.count: keyspace._fetch(count, None))
        elif isinstance(step, Look):
            outcome = _ask(keyspace.show)
        else:
            with contextlib.suppress(queue.Empty):
                shop.calls.get(timeout=step.seconds)


def _ask(call: Any) -> Union[KeyspaceInfo, Batch, KeymillError]:
    try:
        answer: Union[KeyspaceInfo, Batch] = call()
        return answer
    except KeymillError as error:
        return error
    except Exception as error:
        # A thread that ends with a traceback would leave callers without a reason.
        log.debug("a fetch failed in an unexpected way", exc_info=True)
        return KeymillError(f"keys cannot be fetched: {error}", code="failed")


def _end(shop: _Shop) -> None:
    """The refill ends. The next take starts it again, because nothing is fresh until it has looked."""
    shop.is_running = False
    shop.stock.fresh_until = float("-inf")
    shop.filled.notify_all()
