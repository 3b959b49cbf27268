"""How fast cached takes are, beside what Python takes for the same without a cache.

Needs no server: the keys are put into the cache by hand, a million at a time. Prints the median of several runs.
"""

from __future__ import annotations

import asyncio
import collections
import itertools
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from keymill import AsyncKeymill, Keymill
from keymill._stock import Stock

COUNT, RUNS = 1_000_000, 7
KEYS = [f"{number:07}" for number in range(COUNT)]


def measure(name: str, prepare: Callable[[], Callable[[], Any]]) -> None:
    seconds = []
    for _ in range(RUNS):
        run = prepare()
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    each = statistics.median(seconds) / COUNT
    print(f"{name:42} {each * 1e9:6.0f} ns  {1 / each / 1e6:6.2f} million a second")


def filled(cache: Any) -> Any:
    stock: Stock = cache._stock
    stock.drop()
    stock._add(KEYS, 600.0, time.monotonic())
    return cache


def bare() -> Callable[[], None]:
    take = collections.deque(KEYS).popleft

    def run() -> None:
        for _ in range(COUNT):
            take()

    return run


def one_by_one(cache: Any, name: str) -> Callable[[], None]:
    take = getattr(filled(cache), name)

    def run() -> None:
        for _ in range(COUNT):
            take()

    return run


def iterated(cache: Any) -> Callable[[], None]:
    filled(cache)
    return lambda: collections.deque(itertools.islice(cache, COUNT), maxlen=0).clear()


def by_threads(cache: Any, count: int) -> Callable[[], None]:
    take = filled(cache).take

    def share() -> None:
        for _ in range(COUNT // count):
            take()

    def run() -> None:
        threads = [threading.Thread(target=share) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return run


def awaited(cache: Any) -> Callable[[], None]:
    filled(cache)

    async def take() -> None:
        for _ in range(COUNT):
            await cache.take()

    return lambda: asyncio.run(take())


print(sys.version)
links = Keymill("http://127.0.0.1:1").keyspace("links").cached(any_keyspace=True)
aio_links = AsyncKeymill("http://127.0.0.1:1").keyspace("links").cached(any_keyspace=True)
measure("deque.popleft(), nothing else", bare)
measure("links.take()", lambda: one_by_one(links, "take"))
measure("links.try_take()", lambda: one_by_one(links, "try_take"))
measure("for key in links", lambda: iterated(links))
measure("links.take(), four threads together", lambda: by_threads(links, 4))
measure("await links.take()", lambda: awaited(aio_links))
