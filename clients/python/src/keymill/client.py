"""The client for threads: every call, one request each.

After a fork, the child uses nothing that its parent has connected: see ``_fork``.
"""

from __future__ import annotations

import ssl
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Optional, TypeVar, Union, cast

from . import _calls, _fork
from ._attempts import Send, attempts
from ._calls import Batch, Call, Page
from ._demand import CacheSettings
from ._servers import Server, Servers
from ._settings import Settings, check_seconds
from ._sockets import Line
from .answers import Alias, Digest, Explanation, KeyspaceInfo, UsedKey
from .cache import CachedKeyspace
from .definition import Definition

if TYPE_CHECKING:
    from ._attempts import Failure
    from ._http1 import Answer

T = TypeVar("T")


class Keymill:
    """A client of one or several servers of the same store. Threads may share it.

    Args:
        servers: ``http://host:port``, ``https://host:port`` or ``unix:/path``; several as a list, or separated by
            commas. All of them must serve the same store: calls go to each in turn, and past those that do not
            answer. If left out, the environment variable ``KEYMILL_SERVER`` names them.
        token: The token to send with every request. If left out, it is that in ``KEYMILL_TOKEN``, or in the file that
            ``KEYMILL_TOKEN_FILE`` names, if there is one. Without TLS, the network can read it.
        token_file: A file that holds the token. It is read again when servers do not accept the token any more.
        ca_file: A file with the certificates of the authorities that servers are trusted by, in PEM, instead of those
            that the system trusts.
        client_certificate: The files of the certificate that the client shows, and of its private key, both in PEM.
        ssl_context: What to use for TLS instead of the two above.
        timeout: How many seconds a call may take with all its attempts.
        attempt_timeout: How many seconds one attempt at one server may take.
        connect_timeout: How many seconds a connection may take to open.

    Nothing is sent before the first call.
    """

    def __init__(
        self,
        servers: Union[str, Sequence[str], None] = None,
        *,
        token: Optional[str] = None,
        token_file: Optional[str] = None,
        ca_file: Optional[str] = None,
        client_certificate: Optional[tuple[str, str]] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
        timeout: float = 10.0,
        # A server waits two seconds for its store by default, before it says that it has no keys.
        attempt_timeout: float = 4.0,
        connect_timeout: float = 2.0,
    ) -> None:
        self._settings = Settings.check(
            servers,
            token=token,
            token_file=token_file,
            ca_file=ca_file,
            client_certificate=client_certificate,
            ssl_context=ssl_context,
            timeout=timeout,
            attempt_timeout=attempt_timeout,
            connect_timeout=connect_timeout,
        )
        self._is_closed = False
        self._caches: weakref.WeakSet[CachedKeyspace] = weakref.WeakSet()
        self._servers = self._new_servers()
        _fork.register(self)

    def keyspace(self, name: str, *, caller: str = "") -> Keyspace:
        """A keyspace by its name. Nothing is sent: whether it exists shows with the first call.

        ``caller`` names who its keys are for, which is recorded with them where ``audit = "key"``.
        """
        return Keyspace(self, name, caller)

    def keyspaces(self) -> Iterator[KeyspaceInfo]:
        """All keyspaces, ordered by name, a page at a time. Needs the right ``read`` for all keyspaces."""
        return self._pages(_calls.keyspaces)

    def close(self) -> None:
        """Closes its connections and its caches. Keys in the caches stay unused: a gap."""
        self._is_closed = True
        for cache in list(self._caches):
            cache.close()
        for server in self._servers.all:
            server.line.close()

    def __enter__(self) -> Keymill:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Keymill({', '.join(address.name for address in self._settings.addresses)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Keymill client cannot be copied or pickled: make one in each process")

    def _call(self, call: Call[T], timeout: Optional[float]) -> T:
        _fork.check()
        if timeout is not None:
            check_seconds("timeout", timeout)
        steps = attempts(self._servers, self._settings, call, timeout)
        outcome: Union[Answer, Failure, None] = None
        try:
            while True:
                if self._is_closed:
                    raise RuntimeError("the client is closed")
                step = steps.send(outcome)
                if isinstance(step, Send):
                    request = call.request.to_bytes(step.server.address, self._settings.token.header())
                    outcome = step.server.line.exchange(request, step.end)
                else:
                    time.sleep(step.seconds)
                    outcome = None
        except StopIteration as end:
            return cast(T, end.value)

    def _pages(self, page_after: Callable[[Optional[str]], Call[Page[T]]]) -> Iterator[T]:
        after = None
        while True:
            page = self._call(page_after(after), None)
            yield from page.items
            after = page.next
            if after is None:
                return

    def _new_servers(self) -> Servers[Line]:
        addresses = self._settings.addresses
        return Servers([Server(address, Line(address, self._settings)) for address in addresses])

    def _after_fork(self) -> None:
        inherited, self._servers = self._servers, self._new_servers()
        # Closes them in this process only: nothing is sent.
        for server in inherited.all:
            server.line.close()


class Keyspace:
    """A keyspace, by its name: ``client.keyspace("links")``. Threads may share it.

    Every call asks a server, and another one if that does not answer, until the ``timeout`` of the call, which is
    that of the client if left out. All calls are safe to repeat, and are repeated.
    """

    def __init__(self, client: Keymill, name: str, caller: str) -> None:
        self._client = client
        self._name = name
        self._caller = caller

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def cached(
        self,
        *,
        horizon: float = 30.0,
        keys_min: int = 32,
        keys_max: int = 100_000,
        max_age: float = 600.0,
        any_keyspace: bool = False,
    ) -> CachedKeyspace:
        """Keys that are fetched ahead and handed out from memory. It fetches nothing before the first take.

        Args:
            horizon: How many seconds the cache is to last at the present rate of takes. When half of it is used, more
                keys are fetched.
            keys_min: The fewest keys to hold, however rarely they are taken.
            keys_max: The most keys to hold, however often they are taken.
            max_age: How many seconds old a key may be when it is handed out. It bounds how long keys are used after the
                keyspace was sealed, or the token revoked.
            any_keyspace: Caches keys of every kind of keyspace, also where a fetch is recorded as a use, keys are not
                to be wasted, or their order matters. The settings of the keyspace are not looked at, so that the
                right ``take`` suffices.
        """
        cache = CachedKeyspace(self, CacheSettings(horizon, keys_min, keys_max, max_age, any_keyspace))
        self._client._caches.add(cache)
        return cache

    def take(self, *, timeout: Optional[float] = None) -> str:
        """Takes a key. Needs the right ``take``."""
        return self._fetch(1, timeout).keys[0]

    def take_many(self, count: int, *, timeout: Optional[float] = None) -> list[str]:
        """Takes several keys at once: fewer than ``count`` only if the keyspace has no more.

        Servers allow 100,000 at once, unless they are set otherwise.
        """
        return self._fetch(count, timeout).keys

    def digest(self, text: str, *, scope: str = "", timeout: Optional[float] = None) -> Digest:
        """The key of an input, in a keyspace of kind ``digest``: always the same. Needs the right ``name``.

        The same input has another key in another scope.
        """
        return self._client._call(_calls.digest(self._name, scope, text), timeout)

    def digest_many(self, texts: Iterable[str], *, scope: str = "", timeout: Optional[float] = None) -> list[str]:
        """The keys of several inputs, in their order, by one request. Needs the right ``name``."""
        return self._client._call(_calls.digest_many(self._name, scope, list(texts)), timeout)

    def add_alias(self, alias: str, *, owner: str = "", timeout: Optional[float] = None) -> bool:
        """Reserves a key of your choice. Needs the right ``name``.

        Returns whether it is new: if not, it already belongs to this owner, or was reserved by an attempt whose
        answer was lost. Raises ``Taken`` if it is somebody else's.
        """
        return self._client._call(_calls.add_alias(self._name, alias, owner), timeout)

    def remove_alias(self, alias: str, *, owner: str = "", timeout: Optional[float] = None) -> None:
        """Removes an alias. Its key stays reserved and is never handed out. Needs the right ``name``."""
        self._client._call(_calls.remove_alias(self._name, alias, owner), timeout)

    def alias(self, alias: str, *, timeout: Optional[float] = None) -> Alias:
        """An alias with its owner and when it was added. Needs the right ``read``."""
        return self._client._call(_calls.alias(self._name, alias), timeout)

    def aliases(self) -> Iterator[Alias]:
        """All aliases, ordered by name, a page at a time. Needs the right ``read``."""
        return self._client._pages(lambda after: _calls.aliases(self._name, after))

    def explain(self, key: str, *, timeout: Optional[float] = None) -> Explanation:
        """Explains where a key came from. Needs the right ``read``."""
        return self._client._call(_calls.explain(self._name, key), timeout)

    def retire(self, key: str, *, timeout: Optional[float] = None) -> UsedKey:
        """Retires a key that was handed out. Needs the right ``name``."""
        return self._client._call(_calls.retire(self._name, key), timeout)

    def ensure(self, definition: Optional[Definition] = None, *, timeout: Optional[float] = None) -> KeyspaceInfo:
        """Creates the keyspace, unless it exists; then its changeable settings are set to these. Needs ``admin``."""
        return self._client._call(_calls.ensure(self._name, definition or Definition()), timeout)

    def show(self, *, timeout: Optional[float] = None) -> KeyspaceInfo:
        """Its settings and usage. Needs the right ``read``."""
        return self._client._call(_calls.show(self._name), timeout)

    def __repr__(self) -> str:
        return f"Keyspace({self._name!r})"

    def _fetch(self, count: int, timeout: Optional[float]) -> Batch:
        return self._client._call(_calls.take(self._name, count, self._caller), timeout)
