"""The Redis protocol of keymill, beside what people do with Redis itself: a set from which keys are popped, and a counter.

A server that answers a constant shows what `redis-benchmark` can get out of any.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from kit.loads import CPU, RATE, redis_benchmark
from kit.plan import Plan
from kit.processes import Process, free_port
from kit.series import Row, alternate
from kit.servers import ConstantRedis, Keymill, Redis

NEEDS = {"redis-server": "redis-server", "redis-benchmark": "redis-tools", "cargo": "cargo"}
VERSIONS = [["redis-server", "--version"]]

#: How a pool is written in advance: so many keys of seven characters.
FILL = """
for number = redis.call('INCRBY', KEYS[2], ARGV[1]) - ARGV[1] + 1, redis.call('GET', KEYS[2]) do
  redis.call('SADD', KEYS[1], string.format('%07d', number))
end
return redis.call('SCARD', KEYS[1])
"""
FILL_STEP = 50_000
SINGLE, PIPELINED, DURABLE = 100_000, 1_000_000, 30_000
LOST = "Redis without files loses its set and its counter with the process, and would hand out keys again; with `appendfsync always` it keeps them, as keymill does."


def run(plan: Plan) -> list[Row]:
    port = free_port()
    with ExitStack() as stack:
        keymill = stack.enter_context(Keymill(plan.binary, plan.folder, KEYMILL_REDIS_LISTEN=f"127.0.0.1:{port}"))
        keymill.command("space", "create", "numbers", "--kind", "sequential", "--length", "0")
        cache, durable = (stack.enter_context(Redis(plan.folder, is_durable)) for is_durable in (False, True))
        for space in ("SPOP default", "INCR numbers"):
            redis_benchmark(port, plan.scaled(PIPELINED), *space.split(), pipeline=32)

        def ours(requests: int, command: str, **options: int) -> Callable[[], dict[str, float]]:
            return lambda: measure(keymill, port, requests, command, **options)

        def theirs(redis: Redis, requests: int, command: str, **options: int) -> Callable[[], dict[str, float]]:
            def once() -> dict[str, float]:
                while command.startswith("SPOP") and int(redis.command("SCARD", "pool")) < requests:
                    redis.command("EVAL", FILL, "2", "pool", "written", str(FILL_STEP))
                return measure(redis, redis.port, requests, command, **options)

            return once

        rows = []
        for command, other in (("SPOP default", "SPOP pool"), ("INCR numbers", "INCR counter")):
            for requests, how, redis, note in (
                (SINGLE, "one by one", cache, "without files"),
                (SINGLE, "one by one", durable, "with `appendfsync always`"),
                (PIPELINED, "32 in a pipeline", cache, "without files"),
            ):
                count, pipeline = plan.scaled(requests), 32 if requests == PIPELINED else 1
                their_count = min(count, plan.scaled(DURABLE)) if redis is durable else count
                found = alternate(
                    {
                        "keymill": ours(count, command, pipeline=pipeline),
                        f"Redis {note}": theirs(redis, their_count, other, pipeline=pipeline),
                    },
                    plan.repeats,
                )
                what, against = f"`{command}`, {how}", f"`{other}` of Redis {note}"
                for unit in (RATE, CPU):
                    rows.append(Row(what, against, unit, found["keymill"][unit], found[f"Redis {note}"][unit], LOST))

        constant = stack.enter_context(ConstantRedis(plan.folder))
        count = plan.scaled(PIPELINED)
        others = {
            "`INCR counter` of Redis without files": theirs(cache, count, "INCR counter", pipeline=32),
            "a server that answers a constant": lambda: measure(constant, constant.port, count, "SPOP default", pipeline=32),
        }
        found = alternate({"keymill": ours(count, "SPOP default", pipeline=32), **others}, plan.repeats)
        for against in others:
            for unit in (RATE, CPU):
                rows.append(Row("`SPOP default`, 32 in a pipeline", against, unit, found["keymill"][unit], found[against][unit], ""))
    return rows


def measure(server: Process, port: int, requests: int, command: str, **options: int) -> dict[str, float]:
    before = server.cpu()
    rate = redis_benchmark(port, requests, *command.split(), **options)
    return {RATE: rate, CPU: (server.cpu() - before) * 1e6 / requests}
