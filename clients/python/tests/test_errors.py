"""Every class of errors, over both faces: from real servers where they can be brought to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from scripted import ScriptedServer, answer, problem
from servers import Deployment

from keymill import (
    BadAnswer,
    Definition,
    Difference,
    DifferentDefinition,
    Exhausted,
    Forbidden,
    Invalid,
    KeymillError,
    NoKeysReady,
    RateLimited,
    Sealed,
    Taken,
    Unauthorized,
    Unavailable,
    UnknownAlias,
    UnknownKeyspace,
    Unreachable,
    WrongKind,
)

Connect = Callable[..., Any]
Script = Callable[..., ScriptedServer]


def test_what_a_server_refuses(connect: Connect, own_deployment: Deployment) -> None:
    own_deployment.start()
    client = connect(own_deployment.url)
    few = client.keyspace("few")
    few.ensure(Definition(kind="sequential", alphabet="decimal", length=1, blocklist=False))
    assert few.take_many(100) == [str(number) for number in range(10)], "fewer only at the end"
    error = raised(Exhausted, few.take)
    assert (error.code, error.status, error.held_elsewhere) == ("exhausted", 409, 0)
    assert error.request_id and error.server == own_deployment.url and not error.is_retryable

    links = client.keyspace("links")
    links.ensure(Definition(length=7))
    differences = raised(DifferentDefinition, lambda: links.ensure(Definition(length=8))).differences
    assert differences == (Difference("length", "7", "8"),)
    links.add_alias("sale", owner="one")
    assert raised(Taken, lambda: links.add_alias("sale", owner="two")).code == "taken"
    raised(UnknownAlias, lambda: links.remove_alias("none"))
    raised(WrongKind, lambda: links.digest("x"))
    assert raised(Invalid, lambda: links.take_many(0)).code == "bad_count"
    assert raised(Invalid, lambda: links.add_alias("admin")).code == "bad_alias"
    assert raised(Invalid, lambda: links.digest("\ud800")).status == 400
    assert raised(UnknownKeyspace, client.keyspace("none").take).code == "unknown_space"
    assert raised(UnknownKeyspace, client.keyspace("a/b?c").take).status == 404
    raised(KeymillError, lambda: links.retire("0000000"))

    own_deployment.run("space", "seal", "links", "--yes")
    wait_until(lambda: is_raised(Sealed, links.take))


def test_rights_and_limits_of_a_token(connect: Connect, own_deployment: Deployment) -> None:
    own_deployment.start()
    connect(own_deployment.url).keyspace("links").ensure()
    token = own_deployment.run("token", "create", "shop", "--allow", "take:links", "--quota", "5/d")
    wait_until(lambda: is_raised(Unauthorized, connect(own_deployment.url).keyspace("links").take))
    raised(Unauthorized, connect(own_deployment.url, token="km_wrong").keyspace("links").take)
    links = connect(own_deployment.url, token=token).keyspace("links")
    assert raised(Forbidden, links.show).code == "forbidden"
    assert len(links.take_many(4)) == 4
    started = time.monotonic()
    error = raised(RateLimited, lambda: links.take_many(4))
    assert error.retry_after > 60 and error.is_retryable
    assert time.monotonic() - started < 5, "it does not wait for what comes too late"


def test_a_snowflake_keyspace_without_a_free_worker_has_no_keys_ready(
    connect: Connect, own_deployment: Deployment
) -> None:
    first, second = own_deployment.start(), own_deployment.start()
    ids = connect(first.url).keyspace("ids")
    ids.ensure(Definition(kind="snowflake", layout="41/0/22"))
    ids.take()
    other = connect(second.url, timeout=1).keyspace("ids")
    error = raised(NoKeysReady, other.take)
    assert error.code == "no_worker" and error.is_retryable
    # With both servers, the one that has a worker answers.
    both = connect(first.url, second.url).keyspace("ids")
    assert len({both.take() for _ in range(10)}) == 10


def test_a_server_that_is_not_there(connect: Connect, scripted: Script) -> None:
    gone = scripted()
    gone.close()
    started = time.monotonic()
    error = raised(Unreachable, connect(gone.url, timeout=0.5).keyspace("links").take)
    assert 0.2 < time.monotonic() - started < 1.5
    assert error.code == "unreachable" and error.status is None and error.is_retryable
    assert error.server == gone.url and "cannot be reached" in error.detail


@pytest.mark.parametrize(
    ("said", "kind", "code", "is_retryable"),
    [
        (problem(503, "new_trouble"), Unavailable, "new_trouble", True),
        (problem(503, "store_rolled_back"), Unavailable, "store_rolled_back", False),
        (problem(503, "pool_filling"), NoKeysReady, "pool_filling", True),
        (problem(403, "foreign_host"), Forbidden, "foreign_host", False),
        (problem(500, "store_broken"), KeymillError, "store_broken", False),
        (problem(409, "something"), KeymillError, "something", False),
        (problem(413, "body_too_large"), Invalid, "body_too_large", False),
        (problem(409, "exhausted", held_elsewhere="9007199254740993"), Exhausted, "exhausted", False),
        (answer(502, b"<html>\x1b[1m" * 99), Unavailable, "bad_answer", True),
        (answer(404, b"<html>\x1b[1m" * 99), BadAnswer, "bad_answer", False),
        (answer(200, b"<html>"), BadAnswer, "bad_answer", False),
        (answer(200, {"keys": []}), BadAnswer, "bad_answer", False),
        (answer(200, {"keys": ["a", "b"]}), BadAnswer, "bad_answer", False),
        (answer(200, {"keys": [1]}), BadAnswer, "bad_answer", False),
        (answer(200, {"keys": "a"}), BadAnswer, "bad_answer", False),
    ],
)
def test_answers_of_later_versions_and_of_something_else(
    connect: Connect, scripted: Script, said: bytes, kind: type[KeymillError], code: str, is_retryable: bool
) -> None:
    links = connect(scripted(otherwise=said).url, timeout=0.1).keyspace("links")
    error = raised(kind, links.take)
    assert type(error) is kind
    assert (error.code, error.is_retryable) == (code, is_retryable)
    assert len(str(error)) < 250 and "\x1b" not in str(error)


def test_closed_clients_say_so(connect: Connect) -> None:
    client = connect("http://127.0.0.1:1")
    cache = client.keyspace("links").cached()
    client.close()
    for call in (client.keyspace("links").take, cache.take, cache.try_take):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def raised(kind: type[Any], call: Callable[[], Any]) -> Any:
    with pytest.raises(kind) as caught:
        call()
    return caught.value


def is_raised(kind: type[BaseException], call: Callable[[], Any]) -> bool:
    try:
        call()
    except kind:
        return True
    return False


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 15
    while not is_so():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)
