"""A program that forks after its cache was filled. Prints the keys that each process got, as JSON.

forking.py WAY SERVER...
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

WAY, SERVERS = sys.argv[1], sys.argv[2:]
PLATFORM = sys.platform
if WAY == "fork-noticed-by-pid":
    # As where there is no page of memory that is empty after a fork.
    sys.platform = "elsewhere"

from keymill import AsyncKeymill, Keymill, _fork  # noqa: E402

sys.platform = PLATFORM
COUNT = 300

client = Keymill(SERVERS)
links = client.keyspace("default").cached(keys_min=2_000)
# Also in a process that was spawned and has this module imported: it has a cache of its own.
links.take()


def take(_: int = 0) -> list[str]:
    return [links.take() for _ in range(COUNT)]


def in_child(fork: Callable[[], int], run: Callable[[], Any]) -> Any:
    """What a forked child returns. It fails if the child takes longer than it should."""
    reading, writing = os.pipe()
    pid = fork()
    if pid == 0:
        status = 1
        with contextlib.suppress(BaseException):
            # Longer than this is a deadlock.
            threading.Timer(20, os._exit, [2]).start()
            os.write(writing, json.dumps(run()).encode())
            status = 0
        os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0, "the child failed"
    return json.loads(said)


def forked(fork: Callable[[], int] = os.fork) -> list[list[str]]:
    """Children, a grandchild, and the parent before and after."""
    held = len(links)
    assert held > 5 * COUNT, "the cache is to be filled before the fork"
    before = take()
    first = in_child(fork, lambda: [take(), in_child(fork, lambda: [take()])[0], take()])
    second = in_child(fork, lambda: [take()])
    return [before, *first, *second, take()]


def forked_by_others() -> list[list[str]]:
    """By the C library, which does not tell Python, as other extensions do."""
    return forked(ctypes.PyDLL(None).fork)


def forked_while_locked() -> list[list[str]]:
    """While other threads are in the middle of everything."""
    is_over = threading.Event()
    mine: list[list[str]] = [[] for _ in range(3)]

    def busy(keys: list[str]) -> None:
        while not is_over.is_set():
            keys += links.take_many(3)
            keys.append(links.take())
            links.status()

    threads = [threading.Thread(target=busy, args=(keys,)) for keys in mine]
    for thread in threads:
        thread.start()
    with links._shop.lock:
        children = [in_child(os.fork, take)]
    children += [in_child(os.fork, take) for _ in range(5)]
    is_over.set()
    for thread in threads:
        thread.join()
    return [*mine, *children, take()]


def forked_asyncio() -> list[list[str]]:
    client = AsyncKeymill(SERVERS)
    links = client.keyspace("default").cached(keys_min=2_000)

    async def take() -> list[str]:
        keys = [await links.take() for _ in range(COUNT)]
        return [*keys, await links.keyspace.take()]

    async def parent() -> list[list[str]]:
        before = await take()
        while len(links) <= 5 * COUNT:  # noqa: ASYNC110 (the cache tells nobody when it is full)
            await asyncio.sleep(0.01)
        # In a running loop, as multiprocessing forks in an asyncio program.
        child = in_child(os.fork, lambda: run_in_thread(take))
        started = time.monotonic()
        after = await take()
        assert time.monotonic() - started < 2, "the child has taken connections away from the loop of its parent"
        return [before, child, after]

    kept = asyncio.run(parent())
    return [*kept, in_child(os.fork, lambda: asyncio.run(take())), asyncio.run(take())]


def run_in_thread(take: Callable[[], Any]) -> list[str]:
    """Runs another loop in a process that has one."""
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.extend(asyncio.run(take())))
    thread.start()
    thread.join()
    return found


def forked_without_noticing() -> list[list[str]]:
    """A faulty twin: nothing is forgotten in a child. It shows that the tests would find duplicates."""
    _fork._registered.clear()
    return forked()


def by_multiprocessing(method: str) -> list[list[str]]:
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        # The server of forks has this module imported, and so its cache filled, before it forks.
        context.set_forkserver_preload(["__main__"])
    before = take()
    with context.Pool(3) as pool:
        try:
            pool.apply(take, (links,))
            raise AssertionError("a cache was sent to another process")
        except TypeError as error:
            assert "cannot be copied" in str(error)
        children = pool.map(take, range(9), chunksize=1)
    return [before, *children, take()]


if __name__ == "__main__":
    ways: dict[str, Callable[[], list[list[str]]]] = {
        "fork": forked,
        "fork-by-others": forked_by_others,
        "fork-noticed-by-pid": forked_by_others,
        "fork-while-locked": forked_while_locked,
        "fork-asyncio": forked_asyncio,
        "without-noticing": forked_without_noticing,
        "multiprocessing-fork": lambda: by_multiprocessing("fork"),
        "multiprocessing-spawn": lambda: by_multiprocessing("spawn"),
        "multiprocessing-forkserver": lambda: by_multiprocessing("forkserver"),
    }
    print(json.dumps(ways[WAY]()))
