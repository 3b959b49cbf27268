"""Settings that cannot work are refused, and a token is never shown."""

from __future__ import annotations

import copy
import logging
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted import ScriptedServer, keys, problem

from keymill import AsyncKeymill, BadSettings, Keymill, KeymillError, Unauthorized, Unreachable
from keymill._address import Address

SECRET = "km_verysecrettext"


@pytest.mark.parametrize(
    ("text", "host", "port", "is_tls", "header", "prefix"),
    [
        ("http://a:8080", "a", 8080, False, "a:8080", ""),
        ("https://keys.example/", "keys.example", 443, True, "keys.example", ""),
        ("http://[::1]:81", "::1", 81, False, "[::1]:81", ""),
        ("https://proxy/keymill/", "proxy", 443, True, "proxy", "/keymill"),
    ],
)
def test_addresses_are_read_with_their_defaults(
    text: str, host: str, port: int, is_tls: bool, header: str, prefix: str
) -> None:
    found = Address.parse(text)
    assert (found.host, found.port, found.is_tls, found.header, found.prefix) == (host, port, is_tls, header, prefix)


@pytest.mark.parametrize(
    ("servers", "about"),
    [
        ([], "no server"),
        ("", "no server"),
        ("a:8080", "https://host:port"),
        ("ftp://a", "unknown scheme"),
        ("http://", "no host"),
        ("http://a?b", "query"),
        ("http://a b", "not a URL"),
        ("http://a\r\nX: y", "not a URL"),
        ("http://a:port", "not a URL"),
        ("http://a..b", "not a URL"),
        ("unix:run", "absolute path"),
        (["http://a", f"http://{SECRET}@b"], "token"),
        (["http://a", f"http://me:{SECRET}@b"], "token"),
    ],
)
def test_what_is_no_address_is_refused(servers: Any, about: str) -> None:
    for face in (Keymill, AsyncKeymill):
        with pytest.raises(BadSettings, match=about) as caught:
            face(servers)
        assert SECRET not in str(caught.value)
        assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("settings", "about"),
    [
        ({"timeout": 0}, "`timeout`"),
        ({"attempt_timeout": float("nan")}, "`attempt_timeout`"),
        ({"connect_timeout": -1}, "`connect_timeout`"),
        ({"token": SECRET + "ü"}, "km_…"),
        ({"token": SECRET + "\r\nX: y"}, "km_…"),
        ({"token": " "}, "km_…"),
        ({"token": SECRET, "token_file": "x"}, "not both"),
        ({"token_file": "/no/such/file"}, "/no/such/file"),
        ({"ca_file": "/no/such/file"}, "/no/such/file"),
        ({"client_certificate": ("/no/such/file", "/no/key")}, "/no/such/file"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], about: str) -> None:
    with pytest.raises(BadSettings, match=about) as caught:
        Keymill("https://a", **settings)
    assert SECRET not in str(caught.value)


def test_the_environment_names_servers_and_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scripted: Callable[..., ScriptedServer]
) -> None:
    server = scripted(otherwise=keys("a"))
    monkeypatch.setenv("KEYMILL_SERVER", f"{server.url}, http://127.0.0.1:1")
    monkeypatch.setenv("KEYMILL_TOKEN", SECRET)
    with Keymill() as client:
        assert client.keyspace("links").take() == "a"
    monkeypatch.delenv("KEYMILL_TOKEN")
    (tmp_path / "token").write_text("km_file\n")
    monkeypatch.setenv("KEYMILL_TOKEN_FILE", str(tmp_path / "token"))
    with Keymill() as client:
        client.keyspace("links").take()
    with Keymill(token="km_given") as client:
        client.keyspace("links").take()
    sent = [asked.headers.get("authorization") for asked in server.asked]
    assert sent == [f"Bearer {SECRET}", "Bearer km_file", "Bearer km_given"]


def test_a_token_file_is_read_again_when_its_token_is_refused(
    connect: Callable[..., Any], tmp_path: Path, scripted: Callable[..., ScriptedServer]
) -> None:
    file = tmp_path / "token"
    file.write_text("km_old")
    server = scripted(keys("a"), problem(401, "unauthorized"), keys("b"), otherwise=problem(401, "unauthorized"))
    links = connect(server.url, token_file=str(file)).keyspace("links")
    assert links.take() == "a"
    file.write_text("km_new")
    assert links.take() == "b"
    sent = [asked.headers["authorization"] for asked in server.asked]
    assert sent == ["Bearer km_old", "Bearer km_old", "Bearer km_new"]
    with pytest.raises(Unauthorized):
        links.take()
    assert len(server.asked) == 4, "it has not changed, so there is nothing to try"


def test_a_token_is_never_shown(
    connect: Callable[..., Any], scripted: Callable[..., ScriptedServer], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    closed = scripted()
    closed.close()
    for server in (scripted(otherwise=None), closed, scripted(otherwise=problem(403, "forbidden"))):
        client = connect(server.url, token=SECRET, timeout=0.3)
        links = client.keyspace("links")
        with pytest.raises(KeymillError) as caught:
            links.take()
        # As services that collect errors show them: with the variables of each frame.
        error = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        shown = "".join(error.format()) + caplog.text
        shown += repr(client) + repr(links) + repr(vars(getattr(client, "_of", client)))
        assert SECRET not in shown


def test_clients_and_caches_cannot_be_copied() -> None:
    for client in (Keymill("http://a"), AsyncKeymill("http://a")):
        for it in (client, client.keyspace("links").cached()):
            for copied in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="cannot be copied"):
                    copied(it)
        # What holds on to one cannot be copied as a whole, either.
        with pytest.raises(TypeError):
            pickle.dumps(client.keyspace("links"))


def test_errors_can_be_pickled_with_all_they_say() -> None:
    error = Unreachable("it broke", code="unreachable", server="http://a")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is Unreachable and str(again) == str(error) == "it broke (unreachable, http://a)"
    assert vars(again) == vars(error)
