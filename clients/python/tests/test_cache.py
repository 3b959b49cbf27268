"""The cache, over both faces: when it holds keys, how many, for how long, and what callers find who wait."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from scripted import Asked, Mill, ScriptedServer, answer, info, keys, problem
from servers import Deployment

from keymill import (
    AsyncKeymill,
    BadSettings,
    Definition,
    Exhausted,
    Forbidden,
    Keymill,
    KeymillError,
    RateLimited,
    Sealed,
    Unauthorized,
    UnknownKeyspace,
    Unreachable,
    _stock,
)

Connect = Callable[..., Any]
Script = Callable[..., ScriptedServer]


def test_keys_are_fetched_ahead_and_never_handed_out_twice(connect: Connect, deployment: Deployment) -> None:
    links = connect(deployment.url).keyspace("default").cached()
    assert len(links) == 0, "nothing is fetched before the first take"
    taken = [links.take() for _ in range(5_000)]
    taken += links.take_many(2_000)
    assert len(set(taken)) == 7_000
    status = links.status()
    assert status.state == "on" and status.at_hand > 0 and status.target > 32


def test_threads_never_get_the_same_key(deployment: Deployment) -> None:
    with Keymill(deployment.url) as client:
        links = client.keyspace("default").cached()
        taken: list[list[str]] = [[] for _ in range(8)]

        def take(mine: list[str]) -> None:
            for number in range(3_000):
                if number % 100 == 0:
                    mine += links.take_many(7)
                mine.append(links.take())

        threads = [threading.Thread(target=take, args=(mine,)) for mine in taken]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    together = [key for mine in taken for key in mine]
    assert len(set(together)) == len(together) == 8 * (3_000 + 30 * 7)


def test_tasks_never_get_the_same_key(deployment: Deployment) -> None:
    async def run() -> list[str]:
        async with AsyncKeymill(deployment.url) as client:
            links = client.keyspace("default").cached()

            async def take() -> list[str]:
                mine = []
                async for key in links:
                    mine.append(key)
                    if len(mine) == 300:
                        return mine
                    if len(mine) % 50 == 0:
                        mine += await links.take_many(10)
                        await asyncio.sleep(0)
                raise AssertionError("it has no end")

            return [key for mine in await asyncio.gather(*(take() for _ in range(20))) for key in mine]

    taken = asyncio.run(run())
    assert len(set(taken)) == len(taken) >= 20 * 300


def test_a_cancelled_caller_loses_no_key(scripted: Script) -> None:
    async def run() -> None:
        gate = threading.Event()
        mill = Mill()

        def late(asked: Asked) -> bytes:
            gate.wait(5)
            return mill(asked)

        async with AsyncKeymill(scripted(info(), late, otherwise=mill).url) as client:
            links = client.keyspace("links").cached()
            waiting = [asyncio.ensure_future(links.take()) for _ in range(10)]
            await asyncio.sleep(0.1)
            for task in waiting[:5]:
                task.cancel()
            gate.set()
            got = await asyncio.gather(*waiting[5:])
            assert sorted(got) == [f"k{number}" for number in range(5)]

    asyncio.run(run())


def test_it_is_off_where_a_fetch_is_not_a_use(connect: Connect, deployment: Deployment) -> None:
    client = connect(deployment.url)
    for name, definition, why in [
        ("audited", Definition(audit="key"), "recorded"),
        ("pool", Definition(kind="pooled", low_water=100), "pool"),
        ("flakes", Definition(kind="snowflake"), "order"),
    ]:
        space = client.keyspace(name)
        space.ensure(definition)
        cache = space.cached()
        taken = {cache.take() for _ in range(5)} | set(cache.take_many(5))
        assert len(taken) == 10
        status = cache.status()
        assert status.state == "off" and why in (status.reason or "") and status.at_hand == 0
        assert cache.try_take() is None
        forced = space.cached(any_keyspace=True)
        assert forced.take() not in taken and forced.status().state == "on" and len(forced) > 0


def test_it_turns_off_when_the_settings_of_the_keyspace_change(connect: Connect, scripted: Script) -> None:
    mill, audit = Mill(), ["batch"]

    def changing(asked: Asked) -> bytes:
        return info(audit=audit[0]) if asked.method == "GET" else mill(asked)

    links = connect(scripted(otherwise=changing).url).keyspace("links").cached(max_age=0.3)
    links.take()
    assert links.status().state == "on"
    audit[0] = "key"
    # It looks again when keys would be too old anyway.
    wait_until(lambda: bool(links.take()) and links.status().state == "off")
    assert len(links) == 0
    audit[0] = "batch"
    wait_until(lambda: bool(links.take()) and links.status().state == "on")


def test_takes_at_the_end_of_a_program_are_answered(deployment: Deployment) -> None:
    program = "import atexit, sys, keymill; links = keymill.Keymill(sys.argv[1]).keyspace('default').cached()"
    program += "; atexit.register(lambda: print(links.take() != links.take()))"
    done = subprocess.run([sys.executable, "-c", program, deployment.url], capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_it_is_off_where_the_token_may_not_look(connect: Connect, own_deployment: Deployment) -> None:
    own_deployment.start()
    token = own_deployment.run("token", "create", "shop", "--allow", "take:*")
    space = connect(own_deployment.url, token=token).keyspace("default")
    cache = space.cached()
    assert cache.take() != cache.take()
    assert cache.status().state == "off" and "`read`" in cache.status().reason
    forced = space.cached(any_keyspace=True)
    forced.take()
    assert forced.status().state == "on"


def test_takes_go_on_without_servers_and_then_wait(connect: Connect, own_deployment: Deployment) -> None:
    server = own_deployment.start()
    links = connect(server.url).keyspace("default").cached(keys_min=500)
    taken = [links.take()]
    wait_until(lambda: len(links) >= 450)
    server.kill()
    taken += [links.take() for _ in range(450)]
    while links.try_take() is not None:
        pass
    with pytest.raises(Unreachable):
        links.take(timeout=0.3)
    assert links.status().state == "failing" or links.status().state == "on"
    # Whoever waits has a key as soon as there is a server.
    starter = threading.Timer(1, server.start)
    starter.start()
    taken.append(links.take(timeout=20))
    starter.join()
    assert len(set(taken)) == 452


def test_keys_are_dropped_when_the_keyspace_is_sealed_or_the_token_revoked(connect: Connect, scripted: Script) -> None:
    for code, status, kind in [
        ("sealed", 409, Sealed),
        ("unauthorized", 401, Unauthorized),
        ("forbidden", 403, Forbidden),
    ]:
        mill = Mill()
        server = scripted(info(), mill, otherwise=problem(status, code))
        links = connect(server.url).keyspace("links").cached()
        taken = [links.take()]
        # When half of them are used, more are fetched, and the refusal is seen.
        with pytest.raises(kind):
            for _ in range(40):
                taken.append(links.take())
                time.sleep(0.02)
        assert len(taken) < 32 and len(links) == 0
        assert links.status().state == "refused" and links.status().error.code == code


def test_keys_that_are_there_are_handed_out_to_the_last_one(connect: Connect, scripted: Script) -> None:
    server = scripted(info(), Mill(), otherwise=problem(409, "exhausted"))
    links = connect(server.url).keyspace("links").cached()
    taken = []
    with pytest.raises(Exhausted):
        while True:
            taken.append(links.take())
    assert taken == [f"k{number}" for number in range(33)], "32, and the one that the first caller waited for"
    started = time.monotonic()
    for _ in range(20):
        with pytest.raises(Exhausted):
            links.take()
    assert time.monotonic() - started < 1
    asked = len(server.asked)
    assert asked < 10, "a refusal is repeated for a while, without asking each time"
    wait_until(lambda: links.try_take() is None and len(server.asked) > asked)


def test_an_unknown_keyspace_is_reported_to_every_caller(connect: Connect, deployment: Deployment) -> None:
    cache = connect(deployment.url).keyspace("nowhere").cached()
    for _ in range(3):
        with pytest.raises(UnknownKeyspace):
            cache.take()


def test_a_key_is_not_handed_out_past_its_age(connect: Connect, scripted: Script) -> None:
    server = scripted(otherwise=Mill())
    links = connect(server.url).keyspace("links").cached(max_age=0.3)
    assert links.take() == "k0"
    time.sleep(0.35)
    first = int(links.take()[1:])
    assert first >= 32, "all that were fetched before are gone"


def test_a_key_is_not_handed_out_past_its_expiry(connect: Connect, scripted: Script) -> None:
    mill = Mill()

    # The clocks of server and client differ by years.
    def expiring(asked: Asked) -> bytes:
        if asked.method == "GET":
            return info()
        body = mill(asked).partition(b"\r\n\r\n")[2][:-1] + b', "expires_at": "2030-01-01T00:00:02.25Z"}'
        return answer(200, body, date="Tue, 01 Jan 2030 00:00:00 GMT")

    links = connect(scripted(otherwise=expiring).url).keyspace("links").cached()
    assert links.take() == "k0"
    assert links.take() == "k1"
    time.sleep(1.3)
    assert int(links.take()[1:]) >= 32
    # And keys that are already over when they come are never used.
    late = keys("a", expires_at="1999-01-01T00:00:00Z")
    links = connect(scripted(info(), otherwise=late).url).keyspace("links").cached(keys_min=1)
    with pytest.raises(KeymillError, match="expire before they arrive"):
        links.take(timeout=0.3)


def test_it_asks_for_less_where_a_server_allows_less(connect: Connect, scripted: Script) -> None:
    mill = Mill()

    def strict(asked: Asked) -> bytes:
        count = int(asked.target.partition("count=")[2] or 1)
        return problem(400, "bad_count") if count > 10 else mill(asked)

    links = connect(scripted(otherwise=strict).url).keyspace("links").cached(keys_min=100)
    assert len(set(links.take_many(50))) == 50


def test_a_rate_limit_is_waited_for_only_if_there_is_time(connect: Connect, scripted: Script) -> None:
    limited = problem(429, "rate_limited", header_retry_after="3600")
    links = connect(scripted(info(), otherwise=limited).url).keyspace("links").cached()
    started = time.monotonic()
    with pytest.raises(RateLimited) as caught:
        links.take()
    assert caught.value.retry_after == 3600 and time.monotonic() - started < 2
    brief = problem(429, "rate_limited", header_retry_after="1")
    links = connect(scripted(info(), brief, otherwise=Mill()).url).keyspace("links").cached()
    assert links.take() == "k0"


def test_more_than_it_ever_holds_is_taken_from_a_server(connect: Connect, deployment: Deployment) -> None:
    links = connect(deployment.url).keyspace("default").cached(keys_max=100)
    assert len(set(links.take_many(1_000))) == 1_000
    with pytest.raises(KeymillError, match="bad_count"):
        links.take_many(0)


def test_bounds_that_make_no_sense_are_refused() -> None:
    links = Keymill("http://a").keyspace("links")
    wrongs: list[dict[str, Any]] = [{"keys_min": 0}, {"keys_max": 3}, {"horizon": 0}, {"max_age": float("nan")}]
    for wrong in wrongs:
        with pytest.raises(BadSettings):
            links.cached(**wrong)


def test_the_thread_ends_without_takes_and_starts_again(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_stock, "_IDLE", 0.3)
    with Keymill(deployment.url) as client:
        client.keyspace("idle").ensure()
        links = client.keyspace("idle").cached()
        links.take()
        assert refills("idle") == 1
        wait_until(lambda: refills("idle") == 0)
        left = len(links)
        assert left > 0
        links.take()
        assert len(links) == left - 1 and refills("idle") == 1, "what is left is handed out, and the refill runs again"


def test_a_cache_that_is_dropped_ends_its_thread_or_task(deployment: Deployment) -> None:
    with Keymill(deployment.url) as client:
        client.keyspace("dropped").ensure()
        links = client.keyspace("dropped").cached()
        links.take()
        assert refills("dropped") == 1
        del links
        gc.collect()
        wait_until(lambda: refills("dropped") == 0)

    async def run() -> None:
        async with AsyncKeymill(deployment.url) as client:
            links = client.keyspace("default").cached()
            await links.take()
            assert len(asyncio.all_tasks()) == 2
            del links
            gc.collect()
            end = time.monotonic() + 5
            while len(asyncio.all_tasks()) > 1:
                assert time.monotonic() < end
                await asyncio.sleep(0.02)

    asyncio.run(run())


# What a loop leaves open when it ends is closed by Python, which says so.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_asyncio_cache_serves_one_loop_after_the_other(deployment: Deployment) -> None:
    client = AsyncKeymill(deployment.url)
    links = client.keyspace("default").cached()

    async def take() -> list[str]:
        return [await links.take() for _ in range(100)]

    taken = asyncio.run(take()) + asyncio.run(take()) + asyncio.run(take())
    assert len(set(taken)) == 300
    asyncio.run(client.aclose())
    client._servers = None
    gc.collect()


def refills(space: str) -> int:
    return sum(thread.name == f"keymill-{space}" for thread in threading.enumerate())


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
