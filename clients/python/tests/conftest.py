"""What tests share: real servers on free ports, a server that answers by a script, and both faces of the client."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted import ScriptedServer
from servers import Deployment

import keymill


@pytest.fixture(autouse=True, scope="session")
def _own_environment() -> None:
    """Settings of whoever runs this are not those of the tests."""
    for name in [name for name in os.environ if name.startswith("KEYMILL_") and name != "KEYMILL_BINARY"]:
        del os.environ[name]


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """One server that all tests share that do not harm it."""
    with Deployment(tmp_path_factory.mktemp("shared")) as deployment:
        deployment.start()
        yield deployment


@pytest.fixture
def own_deployment(tmp_path: Path) -> Iterator[Deployment]:
    """A store of a test's own, without servers."""
    with Deployment(tmp_path) as deployment:
        yield deployment


@pytest.fixture
def scripted() -> Iterator[Callable[..., ScriptedServer]]:
    """Makes servers that answer by a script."""
    made: list[ScriptedServer] = []

    def make(*answers: Any, otherwise: Any = None) -> ScriptedServer:
        made.append(ScriptedServer(list(answers), otherwise))
        return made[-1]

    yield make
    for server in made:
        server.close()


class Blocking:
    """An object of the asyncio face, whose calls are waited for: so one test tries both faces."""

    def __init__(self, of: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._of = of
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, {"close": "aclose"}.get(name, name))
        if not callable(found):
            return found

        def call(*values: Any, **named: Any) -> Any:
            # Some calls need the loop to be running before there is anything to wait for.
            async def run() -> Any:
                result = found(*values, **named)
                if inspect.isawaitable(result):
                    return await result
                if hasattr(result, "__anext__") and not isinstance(result, keymill.AsyncCachedKeyspace):
                    return [item async for item in result]
                return result

            result = self._loop.run_until_complete(run())
            is_face = isinstance(result, (keymill.AsyncKeyspace, keymill.AsyncCachedKeyspace))
            return Blocking(result, self._loop) if is_face else result

        return call

    def __len__(self) -> int:
        return len(self._of)


@pytest.fixture(params=["sync", "asyncio"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes clients of one face and then of the other."""
    clients: list[Any] = []
    loop = asyncio.new_event_loop()

    def make(*servers: str, **settings: Any) -> Any:
        if request.param == "sync":
            client: Any = keymill.Keymill(servers, **settings)
        else:
            client = Blocking(keymill.AsyncKeymill(servers, **settings), loop)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()
    loop.close()
