"""The line to one server, for threads: its open connections, and sending a request on one of them.

- A request is handed to one connection, and never to a second one from here.
- A connection carries one request at a time, and is used again only after its answer was read to the end.
- There are no locks: the operations on the idle connections are single steps of a ``deque``.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections import deque
from typing import Optional, Union

from . import _fork
from ._address import Address
from ._attempts import Failure
from ._http1 import Answer, AnswerReader, NotHttp
from ._settings import Settings

#: How many seconds a connection may be unused. Servers, proxies and firewalls close those that are longer.
IDLE_MAX = 30.0
_IDLE_COUNT_MAX = 64
_PIECE = 256 << 10


class Line:
    """The connections to one server."""

    def __init__(self, address: Address, settings: Settings) -> None:
        self._address = address
        self._settings = settings
        self._idle: deque[tuple[socket.socket, float]] = deque()
        self._is_closed = False

    def exchange(self, request: memoryview, end: float) -> Union[Answer, Failure]:
        """Sends a request and reads the answer, until ``end`` (of ``time.monotonic``)."""
        started, process = time.monotonic(), _fork.process()
        connection = self._pop_idle()
        was_idle = connection is not None
        was_sent = False
        reader = AnswerReader()
        try:
            if connection is None:
                connection = self._dial(min(end, started + self._settings.connect_timeout))
            connection.settimeout(_left(end))
            was_sent = True
            connection.sendall(request)
            while reader.answer is None:
                connection.settimeout(_left(end))
                reader.feed(connection.recv(_PIECE))
        except (OSError, NotHttp) as error:
            _close(connection)
            is_late = isinstance(error, socket.timeout)
            is_stale = was_idle and not reader.has_begun and not is_late
            if is_stale:
                # What was open for as long may be closed, too.
                self.close_idle()
            return Failure(words(error, is_late, was_sent, started), was_sent, is_stale, error)
        except BaseException:
            # An interrupt: the rest of the answer would be taken for that of the next request.
            _close(connection)
            raise
        if _fork.process() != process:
            # A fork happened during the exchange: the other process may have the same answer.
            _close(connection)
            return Failure("was asked before a fork", was_sent)
        if reader.can_be_reused and len(self._idle) < _IDLE_COUNT_MAX:
            self._idle.append((connection, time.monotonic()))
            if self._is_closed:
                # While this one was in use.
                self.close_idle()
        else:
            _close(connection)
        return reader.answer

    def close(self) -> None:
        """Closes all connections, each as soon as it is not in use any more."""
        self._is_closed = True
        self.close_idle()

    def close_idle(self) -> None:
        """Closes all connections that are not in use."""
        with contextlib.suppress(IndexError):
            while True:
                _close(self._idle.pop()[0])

    def _pop_idle(self) -> Optional[socket.socket]:
        while True:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                return None
            if time.monotonic() - since > IDLE_MAX:
                # The others have been unused for even longer.
                _close(connection)
                self.close_idle()
                return None
            if _is_silent(connection):
                return connection
            _close(connection)

    def _dial(self, end: float) -> socket.socket:
        address = self._address
        if address.is_unix:
            connection = socket.socket(socket.AF_UNIX)
        else:
            connection = socket.create_connection((address.host, address.port), _left(end))
        try:
            if address.is_unix:
                connection.settimeout(_left(end))
                connection.connect(address.host)
            else:
                # Requests are written whole: waiting for more of one only delays it.
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.is_tls and self._settings.tls is not None:
                connection.settimeout(_left(end))
                connection = self._settings.tls.wrap_socket(connection, server_hostname=address.host)
        except BaseException:
            connection.close()
            raise
        return connection


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise socket.timeout("timed out")
    return left


def _is_silent(connection: socket.socket) -> bool:
    """Whether nothing came: what comes on an idle connection is its end, or nothing that was asked for."""
    try:
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(connection, select.POLLIN)
            return not poll.poll(0)
        return not select.select([connection], [], [], 0)[0]
    except (OSError, ValueError):
        return False


def _close(connection: Optional[socket.socket]) -> None:
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.close()


def words(error: Exception, is_late: bool, was_sent: bool, started: float) -> str:
    """What happened, as the rest of a sentence that begins with the server."""
    if is_late:
        waited = round((time.monotonic() - started) * 1000)
        what = "did not answer" if was_sent else "did not accept a connection"
        return f"{what} within {waited} ms"
    if isinstance(error, NotHttp):
        return str(error)
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"broke off the connection: {reason}" if was_sent else f"cannot be reached: {reason}"
