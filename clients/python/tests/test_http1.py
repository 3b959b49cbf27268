"""Answers are read however they are cut into pieces, and what is none is refused."""

from __future__ import annotations

import pytest

from keymill._address import Address
from keymill._http1 import Answer, AnswerReader, NotHttp, Request

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nx-a:  2 \r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"4;ext=1\r\nwiki\r\n10\r\n0123456789abcdef\r\n0\r\nTrailer: x\r\n\r\n"
)
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + PLAIN


@pytest.mark.parametrize(("text", "body"), [(PLAIN, b"hello"), (CHUNKED, b"wiki0123456789abcdef"), (INTERIM, b"hello")])
def test_an_answer_is_read_from_pieces_of_any_size(text: bytes, body: bytes) -> None:
    for size in range(1, len(text) + 1):
        reader = AnswerReader()
        for start in range(0, len(text), size):
            assert reader.answer is None
            reader.feed(text[start : start + size])
        assert reader.answer is not None and reader.can_be_reused
        assert (reader.answer.status, reader.answer.body) == (200, body)


def test_headers_are_found_by_lower_case_and_joined() -> None:
    _, answer = read(PLAIN)
    assert answer.headers == {"content-length": "5", "x-a": "1, 2"}


@pytest.mark.parametrize(
    ("text", "body", "can_be_reused"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nab", b"ab", True),
        (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nab", b"ab", True),
        (b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nab", b"ab", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", b"ab", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nab", b"ab", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc", b"ab", False),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end", False),
    ],
)
def test_a_connection_is_used_again_only_where_the_answer_has_an_end(
    text: bytes, body: bytes, can_be_reused: bool
) -> None:
    reader, answer = read(text)
    assert (answer.body, reader.can_be_reused) == (body, can_be_reused)


@pytest.mark.parametrize(
    "text",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 99 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nCont",
        b"",
        b"x" * 70_000,
    ],
)
def test_what_is_no_answer_is_refused(text: bytes) -> None:
    with pytest.raises(NotHttp):
        read(text)


def test_a_request_is_written_for_the_server_that_it_goes_to() -> None:
    request = Request("PUT", "/v1/spaces/a%2Fb", b"{}")
    text = bytes(request.to_bytes(Address.parse("https://proxy/keymill/"), "Authorization: Bearer km_x\r\n"))
    head, _, body = text.decode().partition("\r\n\r\n")
    lines = head.split("\r\n")
    assert lines[0] == "PUT /keymill/v1/spaces/a%2Fb HTTP/1.1"
    assert {"Host: proxy", "Authorization: Bearer km_x", "Content-Length: 2"} <= set(lines[1:])
    assert body == "{}"
    plain = bytes(Request("POST", "/v1/spaces/a/keys").to_bytes(Address.parse("http://[::1]:81"), ""))
    assert b"Content-Type" not in plain and b"Host: [::1]:81\r\n" in plain


def read(text: bytes) -> tuple[AnswerReader, Answer]:
    """Reads a whole connection."""
    reader = AnswerReader()
    if text:
        reader.feed(text)
    if reader.answer is None:
        reader.feed(b"")
    assert reader.answer is not None
    return reader, reader.answer
