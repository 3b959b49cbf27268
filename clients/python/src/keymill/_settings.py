"""The settings of a client, checked. Both faces take the same ones."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional, Union

from ._address import Address
from ._token import Token
from .errors import BadSettings

_DAY = 24 * 3600.0


@dataclass(frozen=True)
class Settings:
    """What a client is made with. It cannot hold anything invalid."""

    addresses: tuple[Address, ...]
    token: Token
    tls: Optional[ssl.SSLContext] = field(repr=False)
    timeout: float
    attempt_timeout: float
    connect_timeout: float

    @classmethod
    def check(
        cls,
        servers: Union[str, Sequence[str], None],
        *,
        token: Optional[str],
        token_file: Optional[str],
        ca_file: Optional[str],
        client_certificate: Optional[tuple[str, str]],
        ssl_context: Optional[ssl.SSLContext],
        timeout: float,
        attempt_timeout: float,
        connect_timeout: float,
    ) -> Settings:
        for name, seconds in (
            ("timeout", timeout),
            ("attempt_timeout", attempt_timeout),
            ("connect_timeout", connect_timeout),
        ):
            check_seconds(name, seconds)
        addresses = tuple(Address.parse(server) for server in _names(servers))
        tls = None
        if any(address.is_tls for address in addresses):
            tls = ssl_context or _context(ca_file, client_certificate)
        return cls(
            addresses=addresses,
            token=Token.find(token, token_file),
            tls=tls,
            timeout=timeout,
            attempt_timeout=attempt_timeout,
            connect_timeout=connect_timeout,
        )


def check_seconds(name: str, seconds: float) -> None:
    """Refuses what cannot be waited for."""
    # Written so that NaN is refused, too.
    if not 0 < seconds <= _DAY:
        raise BadSettings(f"`{name}` must be more than zero and at most a day, not {seconds!r} s")


def _names(servers: Union[str, Sequence[str], None]) -> list[str]:
    if servers is None:
        servers = os.environ.get("KEYMILL_SERVER", "")
    if isinstance(servers, str):
        servers = servers.split(",")
    names = [server.strip() for server in servers if server.strip()]
    if not names:
        raise BadSettings("there is no server to ask; name at least one, or set KEYMILL_SERVER")
    return names


def _context(ca_file: Optional[str], client_certificate: Optional[tuple[str, str]]) -> ssl.SSLContext:
    try:
        # With a file of authorities, only those are trusted; without, those of the system.
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise _unusable(ca_file, error) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if client_certificate is not None:
        certificate, key = client_certificate
        try:
            # A password would be asked for on the terminal.
            context.load_cert_chain(certificate, key, password=_no_password)
        except (OSError, ValueError) as error:
            raise _unusable(f"{certificate} or {key}", error) from None
    return context


def _no_password() -> str:
    raise ValueError("the private key must not have a password")


def _unusable(path: Optional[str], error: Exception) -> BadSettings:
    why = getattr(error, "strerror", None) or str(error)
    return BadSettings(f"the file {path} cannot be used for TLS: {why}")
