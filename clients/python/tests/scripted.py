"""A server that answers by a script: for what real servers do only in trouble."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional, Union


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


#: Bytes as they are; `None` to close the connection without an answer; or what makes one of these.
Script = Union[bytes, None, Callable[[Asked], Union[bytes, None]]]


class ScriptedServer:
    """Answers with one entry of the script after the other, then with ``otherwise``."""

    def __init__(self, answers: list[Script], otherwise: Script) -> None:
        self.asked: list[Asked] = []
        self._answers = answers
        self._otherwise = otherwise
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        # Wakes the thread that accepts, too.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()

    def drop(self) -> None:
        """Closes all connections."""
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._connections.clear()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError), connection.makefile("rb") as reader:
            while True:
                asked = _read(reader)
                if asked is None:
                    return
                with self._lock:
                    self.asked.append(asked)
                    script = self._answers.pop(0) if self._answers else self._otherwise
                answer = script(asked) if callable(script) else script
                if answer is None:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                connection.sendall(answer)


def _read(reader: Any) -> Optional[Asked]:
    first = reader.readline().decode().split()
    if not first:
        return None
    headers = {}
    for line in iter(reader.readline, b"\r\n"):
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    body = reader.read(int(headers.get("content-length", 0)))
    return Asked(first[0], first[1], headers, body)


def answer(status: int, body: Union[bytes, dict[str, Any]], **headers: str) -> bytes:
    """An answer in HTTP; ``retry_after="1"`` is the header ``retry-after: 1``."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Status", f"content-length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


def problem(status: int, code: str, **more: Any) -> bytes:
    """An answer with a problem; headers begin with ``header_``."""
    headers = {name[len("header_") :]: value for name, value in more.items() if name.startswith("header_")}
    body = {name: value for name, value in more.items() if not name.startswith("header_")}
    return answer(
        status, {"code": code, "status": status, "detail": f"it is {code}", "request_id": "r-1", **body}, **headers
    )


def keys(*texts: str, **more: Any) -> bytes:
    """An answer to a take."""
    return answer(200, {"space": "links", "keys": list(texts), **more})


def info(**more: Any) -> bytes:
    """An answer to a question for the settings of a keyspace."""
    found: dict[str, Any] = { "name": "links", "kind": "shuffled", "audit": "batch", "sealed": False, "created_at":
        "2026-11-17T23:04:59.74Z", "capacity": 3521614606208, "next": 0, "leased": 0, "named": 0, "remaining":
        "9223372036854775808", "at_hand": 12, "density": 0.0, "rate": 0.5, "leased_rate": 0, "exhausted_at": None,
        "fingerprint": None, "later": {"a": [1]},
    }  # fmt: skip
    return answer(200, {**found, **more})


class Mill:
    """A script that hands out fresh keys, as many as are asked for, and the settings of a keyspace."""

    def __init__(self, **more: Any) -> None:
        self._made = 0
        self._more = more

    def __call__(self, asked: Asked) -> bytes:
        if asked.method == "GET":
            return info()
        count = int(asked.target.partition("count=")[2] or 1)
        first, self._made = self._made, self._made + count
        return keys(*(f"k{number}" for number in range(first, first + count)), **self._more)
