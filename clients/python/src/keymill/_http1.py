"""HTTP/1.1, as far as a client of keymill needs it: the bytes of a request, and reading an answer (RFC 9112).

``_sockets`` and ``_streams`` send the one and feed the other. There is no I/O here. Redirects are not followed, and
nothing is decompressed, because nothing compressed is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ._address import Address
from ._version import __version__

_HEAD_MAX = 64 << 10
_BODY_MAX = 64 << 20
_AGENT = f"User-Agent: keymill-python/{__version__}\r\nAccept: application/json\r\n"


@dataclass(frozen=True)
class Request:
    """What is asked, without where and by whom. ``target`` is path and query, encoded."""

    method: str
    target: str
    body: bytes = b""

    def to_bytes(self, address: Address, authorization: str) -> memoryview:
        """The bytes for a server.

        They contain the token. A view of them does not show it, in whichever traceback it may come to stand.
        """
        length, kind = "", ""
        if self.body or self.method != "GET":
            length = f"Content-Length: {len(self.body)}\r\n"
        if self.body:
            kind = "Content-Type: application/json\r\n"
        head = (
            f"{self.method} {address.prefix}{self.target} HTTP/1.1\r\n"
            f"Host: {address.header}\r\n{_AGENT}{authorization}{kind}{length}\r\n"
        )
        return memoryview(head.encode("ascii") + self.body)


@dataclass(frozen=True)
class Answer:
    """An answer that was read to its end. Names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class NotHttp(Exception):
    """What came is not an answer in HTTP/1.1, or it broke off."""


class AnswerReader:
    """Reads one answer from the pieces that it is fed.

    Attributes:
        answer: The answer, once it is whole.
        has_begun: Whether anything came at all.
        can_be_reused: Whether the connection can carry another request after it.
    """

    def __init__(self) -> None:
        self.answer: Optional[Answer] = None
        self.has_begun = False
        self.can_be_reused = False
        self._unread = bytearray()
        self._body = bytearray()
        self._status = 0
        self._headers: Optional[dict[str, str]] = None
        # How many bytes of the body, or of a chunk, are to come; `None` until the end of the connection.
        self._left: Optional[int] = 0
        self._is_chunked = False
        self._is_trailer = False

    def feed(self, data: bytes) -> None:
        """Takes what was received: nothing means that the other side has closed."""
        if not data:
            self._end()
            return
        self.has_begun = True
        self._unread += data
        if self._headers is None and not self._read_head():
            return
        if self._is_chunked:
            self._read_chunks()
        else:
            self._read_body()

    def _end(self) -> None:
        if self.answer is not None:
            return
        if self._headers is not None and self._left is None:
            self.can_be_reused = False
            self._finish()
            return
        raise NotHttp("closed the connection in the middle of an answer" if self.has_begun else "closed the connection")

    def _read_head(self) -> bool:
        """Reads the head, if it is whole; and the body of an answer that has none."""
        while True:
            end = self._unread.find(b"\r\n\r\n")
            if end < 0:
                if len(self._unread) > _HEAD_MAX:
                    raise NotHttp("sent headers that are too large")
                return False
            head = bytes(self._unread[:end]).decode("latin-1")
            del self._unread[: end + 4]
            first, *lines = head.split("\r\n")
            version, status = _status_line(first)
            headers = _headers(lines)
            if 100 <= status < 200:
                if status == 101:
                    raise NotHttp("switched to another protocol")
                # An interim answer: the real one follows.
                continue
            self._status, self._headers = status, headers
            self._choose_framing(version, status, headers)
            return True

    def _choose_framing(self, version: str, status: int, headers: dict[str, str]) -> None:
        options = {option.strip().lower() for option in headers.get("connection", "").split(",")}
        is_persistent = "close" not in options and (version == "1.1" or "keep-alive" in options)
        encoding = headers.get("transfer-encoding")
        length = headers.get("content-length")
        if status in (204, 304):
            self._left = 0
        elif encoding is not None:
            if encoding.strip().lower() != "chunked" or length is not None:
                raise NotHttp("sent a body of unknown length")
            self._is_chunked = True
        elif length is not None:
            # The same length twice is allowed.
            lengths = {part.strip() for part in length.split(",")}
            text = lengths.pop()
            if lengths or not (text.isascii() and text.isdigit()):
                raise NotHttp("sent a body of unknown length")
            self._left = int(text)
            self._check_size(self._left)
        else:
            self._left = None
        self.can_be_reused = is_persistent and (self._is_chunked or self._left is not None)

    def _read_body(self) -> None:
        if self._left is None:
            self._body += self._unread
            self._unread.clear()
            self._check_size(0)
            return
        if len(self._unread) >= self._left:
            self._body += self._unread[: self._left]
            del self._unread[: self._left]
            self._finish()

    def _read_chunks(self) -> None:
        while self.answer is None:
            if self._left:
                if len(self._unread) < self._left:
                    return
                # A chunk, and the end of its line.
                if self._unread[self._left - 2 : self._left] != b"\r\n":
                    raise NotHttp("sent a chunk that does not end where it should")
                self._body += self._unread[: self._left - 2]
                del self._unread[: self._left]
                self._left = 0
            end = self._unread.find(b"\r\n")
            if end < 0:
                if len(self._unread) > _HEAD_MAX:
                    raise NotHttp("sent a line that is too long")
                return
            line = bytes(self._unread[:end])
            del self._unread[: end + 2]
            if self._is_trailer:
                if not line:
                    self._finish()
                continue
            size = line.split(b";", 1)[0].strip()
            if not size or size.strip(b"0123456789abcdefABCDEF") or len(size) > 8:
                raise NotHttp("sent a chunk of unknown length")
            count = int(size, 16)
            self._check_size(count)
            self._is_trailer = count == 0
            self._left = count + 2 if count else 0

    def _check_size(self, more: int) -> None:
        if len(self._body) + more > _BODY_MAX:
            raise NotHttp(f"sent an answer of more than {_BODY_MAX} bytes")

    def _finish(self) -> None:
        if self._unread:
            # Nothing was asked that this could answer.
            self.can_be_reused = False
        self.answer = Answer(self._status, self._headers or {}, bytes(self._body))


def _status_line(line: str) -> tuple[str, int]:
    version, _, rest = line.partition(" ")
    status = rest[:3]
    if version not in ("HTTP/1.1", "HTTP/1.0") or not (status.isascii() and status.isdigit() and len(status) == 3):
        raise NotHttp("does not speak HTTP")
    if rest[3:4] not in ("", " ") or not 100 <= int(status) <= 599:
        raise NotHttp("does not speak HTTP")
    return version[5:], int(status)


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise NotHttp("sent a header that cannot be read")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
