"""A program that takes keys at a fixed rate, and prints what it met.

caller.py FACE RATE SECONDS FILE SERVERS    the keys go to FILE, one per line
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from typing import Optional

from keymill import AsyncKeymill, Keymill

FACE, RATE, SECONDS, FILE, SERVERS = sys.argv[1:]
THREADS = 4
#: How often each thread or task takes keys, and how many at a time.
EVERY = 0.04
COUNT = round(int(RATE) / THREADS * EVERY)


class Tally:
    """What one thread or task has met."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.errors: list[str] = []
        self.longest = 0.0
        self._next = time.monotonic()
        self._end = self._next + float(SECONDS)

    def pause(self) -> Optional[float]:
        """How long to wait for the next turn; ``None`` at the end. What is late is made up for."""
        self._next += EVERY
        return max(0.0, self._next - time.monotonic()) if self._next < self._end else None

    def took(self, started: float) -> None:
        self.longest = max(self.longest, time.monotonic() - started)


def threads() -> list[Tally]:
    tallies = [Tally() for _ in range(THREADS)]
    with Keymill(SERVERS) as client:
        links = client.keyspace("default").cached()

        def take(tally: Tally) -> None:
            while True:
                for _ in range(COUNT):
                    started = time.monotonic()
                    try:
                        tally.keys.append(links.take())
                    except Exception as error:
                        tally.errors.append(str(error))
                    tally.took(started)
                pause = tally.pause()
                if pause is None:
                    return
                time.sleep(pause)

        running = [threading.Thread(target=take, args=(tally,)) for tally in tallies]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    return tallies


async def tasks() -> list[Tally]:
    tallies = [Tally() for _ in range(THREADS)]
    async with AsyncKeymill(SERVERS) as client:
        links = client.keyspace("default").cached()

        async def take(tally: Tally) -> None:
            while True:
                for _ in range(COUNT):
                    started = time.monotonic()
                    try:
                        tally.keys.append(await links.take())
                    except Exception as error:
                        tally.errors.append(str(error))
                    tally.took(started)
                pause = tally.pause()
                if pause is None:
                    return
                await asyncio.sleep(pause)

        await asyncio.gather(*(take(tally) for tally in tallies))
    return tallies


if __name__ == "__main__":
    met = threads() if FACE == "sync" else asyncio.run(tasks())
    with open(FILE, "w", encoding="ascii") as file:
        for tally in met:
            file.writelines(key + "\n" for key in tally.keys)
    errors = [error for tally in met for error in tally.errors]
    longest = max(tally.longest for tally in met)
    print(json.dumps({"errors": errors[:10], "error_count": len(errors), "longest_ms": round(longest * 1000, 1)}))
