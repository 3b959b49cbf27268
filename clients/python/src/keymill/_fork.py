"""Forks: which process this is, so cheaply that every take can ask.

A forked child has a copy of everything in memory: keys that its parent hands out too, and connections that both would
write to. Whoever holds such things registers here and forgets them in a child.

``os.register_at_fork`` does that for forks of Python's own. Other code may fork without it, so every use looks at
``OWN[0]`` first, which is zero in a child that has not forgotten yet. On Linux, it is in a page of memory that the
kernel empties in a child (``MADV_WIPEONFORK``): looking at it takes some 30 ns, where asking for the process ID is a
system call that takes several times as long. It also notices children that have the process ID of their parent, each
being the first process of its container. Elsewhere, and on kernels before 4.14, it is the process ID. Where processes
do not fork, it is a constant.
"""

from __future__ import annotations

import mmap
import os
import sys
import weakref
from typing import Any, Protocol

# Python has no name for it.
_MADV_WIPEONFORK = 18


class Forgetful(Protocol):
    """What has something that a forked child must not use."""

    def _after_fork(self) -> None:
        """Forgets it. Takes no lock: whoever held one may not exist in this process."""


class _ProcessId:
    """Looks like the page, and asks for the process ID."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def __getitem__(self, _: int) -> int:
        return self._pid == os.getpid()

    def __setitem__(self, _: int, value: int) -> None:
        self._pid = os.getpid()


def _mark() -> Any:
    if not hasattr(os, "fork"):
        return bytearray(b"\x01")
    if sys.platform == "linux":
        try:
            page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            page.madvise(_MADV_WIPEONFORK)
        except OSError:
            return _ProcessId()
        page[0] = 1
        return page
    return _ProcessId()


#: ``OWN[0]`` is true if everything that is registered belongs to this process.
OWN: Any = _mark()

_registered: weakref.WeakSet[Forgetful] = weakref.WeakSet()
_kept: list[object] = []
_forks = 0


def register(holder: Forgetful) -> None:
    """Has something forgotten in every child that is forked from now on."""
    _registered.add(holder)


def check() -> None:
    """Makes sure that nothing of a parent is left. To be called before a connection or a key is used."""
    if not OWN[0]:
        _forget()


def process() -> int:
    """A number that no process has from which this one was forked."""
    check()
    return _forks


def keep(inherited: object) -> None:
    """Keeps something of a parent for as long as this process lives, because to drop it would harm the parent."""
    _kept.append(inherited)


def _forget() -> None:
    global _forks
    _forks += 1
    for holder in list(_registered):
        holder._after_fork()
    OWN[0] = 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
