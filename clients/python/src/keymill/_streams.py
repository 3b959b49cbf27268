"""The line to one server, for asyncio: its open connections, and sending a request on one of them.

The same as ``_sockets``: a request is handed to one connection, which is used again only after its answer was read to
the end. Connections are protocols of asyncio rather than its streams, which close themselves when they are dropped:
in a forked child, that would take them out of the selector that it shares with its parent.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Optional, Union

from . import _fork
from ._address import Address
from ._attempts import Failure
from ._http1 import Answer, AnswerReader, NotHttp
from ._settings import Settings
from ._sockets import IDLE_MAX, words

# How many connections to one server may be open at a time.
_CONNECTIONS_MAX = 256


class Connection(asyncio.Protocol):
    """One connection. It belongs to the event loop that opened it."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.is_usable = False
        self._transport: Optional[asyncio.Transport] = None
        self._reader: Optional[AnswerReader] = None
        self._waiter: Optional[asyncio.Future[None]] = None

    async def ask(self, request: memoryview, reader: AnswerReader) -> None:
        """Sends a request, and has the reader read the answer."""
        if not self.is_usable or self._transport is None:
            raise ConnectionResetError("the connection was closed")
        self._reader, self._waiter = reader, asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            await self._waiter
        finally:
            self._reader = self._waiter = None

    def close(self) -> None:
        self.is_usable = False
        if self._transport is not None:
            # At once: there is nothing to wait for, and the event loop may end before it would have happened.
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
            self.is_usable = True

    def data_received(self, data: bytes) -> None:
        if self._reader is None or self._waiter is None or self._waiter.done():
            # Nothing was asked that this could answer.
            self.close()
            return
        try:
            self._reader.feed(data)
        except NotHttp as error:
            self._waiter.set_exception(error)
            return
        if self._reader.answer is not None:
            self._waiter.set_result(None)

    def connection_lost(self, error: Optional[Exception]) -> None:
        self.is_usable = False
        if self._reader is None or self._waiter is None or self._waiter.done():
            return
        try:
            if error is not None:
                raise error
            self._reader.feed(b"")
        except (OSError, NotHttp) as problem:
            self._waiter.set_exception(problem)
        else:
            self._waiter.set_result(None)


class AsyncLine:
    """The connections to one server, in one event loop."""

    def __init__(self, address: Address, settings: Settings) -> None:
        self._address = address
        self._settings = settings
        self._idle: deque[Connection] = deque()
        self._is_closed = False
        self._places = asyncio.Semaphore(_CONNECTIONS_MAX)

    async def exchange(self, request: memoryview, end: float) -> Union[Answer, Failure]:
        """Sends a request and reads the answer, until ``end`` (of ``time.monotonic``)."""
        attempt = _Attempt()
        started = time.monotonic()
        try:
            await asyncio.wait_for(self._exchange(attempt, request), max(0.0, end - started))
        except (OSError, NotHttp, asyncio.TimeoutError) as error:
            is_late = isinstance(error, (asyncio.TimeoutError, TimeoutError))
            is_stale = attempt.was_idle and not attempt.reader.has_begun and not is_late
            if is_stale and attempt.is_own():
                # What was open for as long may be closed, too.
                self.close_idle()
            return Failure(words(error, is_late, attempt.was_sent, started), attempt.was_sent, is_stale, error)
        if not attempt.is_own() or attempt.reader.answer is None:
            # A fork happened during the exchange: the other process has the same answer.
            return Failure("was asked before a fork", attempt.was_sent)
        return attempt.reader.answer

    def close(self) -> None:
        """Closes all connections, each as soon as it is not in use any more."""
        self._is_closed = True
        self.close_idle()

    def close_idle(self) -> None:
        """Closes all connections that are not in use."""
        while self._idle:
            self._idle.pop().close()

    async def _exchange(self, attempt: _Attempt, request: memoryview) -> None:
        async with self._places:
            connection = self._pop_idle()
            if connection is not None:
                attempt.was_idle = True
            else:
                connection = await asyncio.wait_for(self._dial(), self._settings.connect_timeout)
            is_reusable = False
            try:
                attempt.was_sent = True
                await connection.ask(request, attempt.reader)
                is_reusable = attempt.reader.can_be_reused and connection.is_usable and not self._is_closed
            finally:
                if not attempt.is_own():
                    _fork.keep(connection)
                elif is_reusable:
                    connection.idle_since = time.monotonic()
                    self._idle.append(connection)
                else:
                    connection.close()

    def _pop_idle(self) -> Optional[Connection]:
        while self._idle:
            connection = self._idle.pop()
            if time.monotonic() - connection.idle_since > IDLE_MAX:
                # The others have been unused for even longer.
                connection.close()
                self.close_idle()
                return None
            if connection.is_usable:
                return connection
        return None

    async def _dial(self) -> Connection:
        address, loop = self._address, asyncio.get_running_loop()
        if address.is_unix:
            _, connection = await loop.create_unix_connection(Connection, address.host)
            return connection
        tls = self._settings.tls if address.is_tls else None
        _, connection = await loop.create_connection(
            Connection,
            address.host,
            address.port,
            ssl=tls,
            server_hostname=address.host if tls else None,
            ssl_handshake_timeout=self._settings.connect_timeout if tls else None,
        )
        return connection


class _Attempt:
    """How far an exchange has come."""

    def __init__(self) -> None:
        self.was_sent = False
        self.was_idle = False
        self.reader = AnswerReader()
        self._process = _fork.process()

    def is_own(self) -> bool:
        """Whether it was begun in this process."""
        return self._process == _fork.process()
