"""The address of a server: ``http://host:port``, ``https://host:port``, or ``unix:/path``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional
from urllib.parse import urlsplit

from .errors import BadSettings

# What may stand in a URL: anything else could end up in a header.
_PLAIN = re.compile(r"[!-~]+")


@dataclass(frozen=True)
class Address:
    """Where a server is.

    Attributes:
        name: As it was given, for people.
        host: The host to connect to; for a Unix socket, its path.
        header: The value of the ``Host`` header.
        prefix: What every path begins with, for a server behind a proxy; usually empty.
    """

    name: str
    host: str
    port: int
    is_tls: bool
    is_unix: bool
    header: str
    prefix: str

    @classmethod
    def parse(cls, text: str) -> Address:
        if text.startswith("unix:"):
            path = text[len("unix:") :]
            if not path.startswith("/") or "\0" in path:
                raise _wrong(text, "has no absolute path")
            return cls(text, path, 0, False, True, "localhost", "")
        if not _PLAIN.fullmatch(text):
            raise _wrong(text, "is not a URL")
        try:
            url = urlsplit(text)
            port: Optional[int] = url.port
            host = url.hostname
            # What cannot be looked up would fail only later, and with other words.
            (host or "").encode("idna")
        except ValueError:
            raise _wrong(text, "is not a URL") from None
        if url.scheme not in ("http", "https"):
            raise _wrong(text, "has an unknown scheme")
        if url.username is not None or url.password is not None:
            # What stands there may be a secret, so the text is not repeated.
            raise BadSettings("the address of a server contains a user name: pass a token instead")
        if not host:
            raise _wrong(text, "has no host")
        if url.query or url.fragment or "?" in text or "#" in text:
            raise _wrong(text, "contains a query")
        is_tls = url.scheme == "https"
        default = 443 if is_tls else 80
        return cls(text, host, port or default, is_tls, False, url.netloc, url.path.rstrip("/"))


def _wrong(text: str, problem: str) -> BadSettings:
    return BadSettings(f"the server {text!r} {problem}; give it as http://host:port, https://host:port or unix:/path")
