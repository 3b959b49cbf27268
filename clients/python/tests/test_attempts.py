"""Which server is asked, and whether it is asked again, over both faces."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from scripted import Asked, Mill, ScriptedServer, answer, keys, problem
from servers import Deployment

from keymill import Exhausted, NoKeysReady, RateLimited, UnknownAlias, Unreachable, _fork
from keymill._address import Address
from keymill._servers import Backoff, Budget, Server, Servers

Connect = Callable[..., Any]
Script = Callable[..., ScriptedServer]


def test_a_connection_is_used_again(connect: Connect, scripted: Script) -> None:
    server = scripted(otherwise=Mill())
    links = connect(server.url).keyspace("links")
    for _ in range(10):
        links.take()
    assert len(server._connections) == 1
    server.drop()
    assert links.take() == "k10", "and one that the server has closed is replaced"


def test_a_server_that_is_gone_is_passed_over(connect: Connect, scripted: Script) -> None:
    gone, server = scripted(), scripted(otherwise=Mill())
    gone.close()
    links = connect(gone.url, server.url, timeout=2).keyspace("links")
    started = time.monotonic()
    assert len({links.take() for _ in range(50)}) == 50
    assert time.monotonic() - started < 1


def test_a_take_whose_answer_was_lost_is_repeated(connect: Connect, scripted: Script) -> None:
    cut = keys("lost")[:-3]
    server = scripted(None, lambda asked: cut, otherwise=Mill())
    # The answer that is cut short ends when the attempt does.
    links = connect(server.url, attempt_timeout=0.3).keyspace("links")
    assert links.take() == "k0"
    assert len(server.asked) == 3


def test_servers_share_the_load(connect: Connect, scripted: Script) -> None:
    servers = [scripted(otherwise=keys("a")) for _ in range(3)]
    links = connect(*(server.url for server in servers)).keyspace("links")
    for _ in range(30):
        links.take()
    assert [len(server.asked) for server in servers] == [10, 10, 10]


def test_retry_after_is_respected(connect: Connect, scripted: Script) -> None:
    server = scripted(problem(503, "no_keys_ready", header_retry_after="1"), otherwise=keys("a"))
    links = connect(server.url).keyspace("links")
    started = time.monotonic()
    assert links.take() == "a"
    assert 1 <= time.monotonic() - started < 2
    server = scripted(otherwise=problem(503, "no_keys_ready", header_retry_after="30"))
    started = time.monotonic()
    with pytest.raises(NoKeysReady) as caught:
        connect(server.url, timeout=5).keyspace("links").take()
    assert caught.value.retry_after == 30
    assert time.monotonic() - started < 1 and len(server.asked) == 1


def test_a_date_in_retry_after_is_read_by_the_clock_of_the_server(connect: Connect, scripted: Script) -> None:
    at = {"header_date": "Sun, 06 Nov 1994 08:49:37 GMT", "header_retry_after": "Sun, 06 Nov 1994 08:50:07 GMT"}
    links = connect(scripted(otherwise=problem(429, "rate_limited", **at)).url).keyspace("links")
    with pytest.raises(RateLimited) as caught:
        links.take()
    assert caught.value.retry_after == 30


def test_a_server_without_keys_is_passed_over_and_a_limit_is_not_evaded(connect: Connect, scripted: Script) -> None:
    dry, other = scripted(otherwise=problem(503, "no_keys_ready")), scripted(otherwise=Mill())
    links = connect(dry.url, other.url).keyspace("links")
    assert len({links.take() for _ in range(4)}) == 4
    limited = scripted(otherwise=problem(429, "rate_limited", header_retry_after="9"))
    limiteds = [limited, scripted(otherwise=problem(429, "rate_limited", header_retry_after="9"))]
    links = connect(*(server.url for server in limiteds), timeout=2).keyspace("links")
    with pytest.raises(RateLimited) as caught:
        links.take()
    assert caught.value.retry_after == 9
    assert sum(len(server.asked) for server in limiteds) == 1


def test_a_keyspace_is_exhausted_when_all_servers_say_so(connect: Connect, scripted: Script) -> None:
    end = problem(409, "exhausted", held_elsewhere=1)
    empty, last = scripted(otherwise=end), scripted(keys("last"), otherwise=end)
    links = connect(empty.url, last.url).keyspace("links")
    assert links.take() == "last"
    with pytest.raises(Exhausted) as caught:
        links.take()
    assert caught.value.held_elsewhere == 1


def test_an_alias_that_a_lost_attempt_has_removed_is_removed(connect: Connect, scripted: Script) -> None:
    unknown = problem(404, "unknown_alias")
    server = scripted(None, unknown, unknown, answer(204, b""))
    links = connect(server.url).keyspace("links")
    links.remove_alias("sale", owner="a b")
    assert server.asked[1].target == "/v1/spaces/links/aliases/sale?owner=a%20b"
    with pytest.raises(UnknownAlias):
        links.remove_alias("sale")
    links.remove_alias("sale")


def test_a_server_that_says_nothing_ends_with_the_timeout(connect: Connect, scripted: Script) -> None:
    def silent(asked: Asked) -> bytes:
        time.sleep(1.2)
        return keys("late")

    client = connect(scripted(otherwise=silent).url, attempt_timeout=0.2)
    started = time.monotonic()
    with pytest.raises(Unreachable, match="did not answer within") as caught:
        client.keyspace("links").take(timeout=0.5)
    assert 0.4 < time.monotonic() - started < 0.9
    assert caught.value.is_retryable
    # One that works is asked instead.
    links = connect(scripted(otherwise=silent).url, scripted(otherwise=Mill()).url, attempt_timeout=0.2)
    assert len({links.keyspace("links").take() for _ in range(4)}) == 4


def test_an_answer_that_two_processes_have_is_not_used(connect: Connect, scripted: Script) -> None:
    def forked_meanwhile(asked: Asked) -> bytes:
        # What happens in a child.
        _fork._forget()
        return keys("shared")

    links = connect(scripted(forked_meanwhile, keys("own")).url).keyspace("links")
    assert links.take() == "own"


def test_retries_have_a_budget(connect: Connect, scripted: Script) -> None:
    server = scripted(otherwise=problem(503, "store_unavailable"))
    links = connect(server.url, timeout=0.2).keyspace("links")
    calls = 12
    for _ in range(calls):
        with pytest.raises(Exception, match="store_unavailable"):
            links.take()
    assert len(server.asked) <= calls + 10 + calls // 5


def test_a_real_server_is_killed_and_another_one_answers(connect: Connect, own_deployment: Deployment) -> None:
    servers = [own_deployment.start(), own_deployment.start()]
    links = connect(*(server.url for server in servers)).keyspace("default")
    taken = [links.take() for _ in range(20)]
    servers[0].kill()
    taken += [links.take() for _ in range(20)]
    servers[0].start()
    servers[1].kill()
    taken += [links.take() for _ in range(20)]
    assert len(set(taken)) == 60


def test_waits_double_up_to_the_longest_and_start_over_after_a_success() -> None:
    backoff, bound = Backoff(), 0.05
    for _ in range(100):
        assert 0 <= backoff.next() <= bound
        bound = min(2.0, bound * 2)
    assert backoff.next_half() >= 1
    backoff.reset()
    assert backoff.next() <= 0.05


def test_retries_are_a_fifth_of_the_calls_and_a_few() -> None:
    budget = Budget()

    def left() -> int:
        return next(count for count in range(1000) if not budget.take_retry())

    assert left() == 10
    for _ in range(100):
        budget.add_call()
    assert left() == 20
    for _ in range(100_000):
        budget.add_call()
    assert left() == 500, "no more is saved up"


def test_a_server_that_failed_is_left_alone_then_tried_by_one_call() -> None:
    servers = Servers([Server(Address.parse(f"http://127.0.0.1:{port}"), None) for port in (1, 2)])

    def tried(now: float) -> int:
        seen: set[Server[None]] = set()
        while servers.pick(seen, now):
            pass
        return len(seen)

    assert tried(0) == 2
    servers.all[0].failed("refused", 100)
    assert tried(100) == 1 and servers.ready_in(100) == 0
    assert tried(101) == 2, "it may be tried again"
    assert tried(101) == 1, "but not by everybody"
    servers.all[1].failed("refused too", 101)
    assert 0 < servers.ready_in(101) <= 0.1
    assert servers.problems() == "http://127.0.0.1:1 refused; http://127.0.0.1:2 refused too"
    servers.all[0].answered()
    assert tried(101) == 1
