"""One table of cases over every protocol, each with clients that others have written.

`check` runs it with the binary and with a folder that has the npm package ioredis, and it starts a server of its own. A
case is a take: by whom, of what, how many, and how many keys or which code come of it. The codes are those of HTTP; where
Redis has words of its own, the table below translates them.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import grpc
import redis
from google.protobuf import descriptor_pool

import grpc_client

# Who asks: the arguments that make their tokens.
CALLERS = {
    "shop": ["--allow", "take:*"],
    "reader": ["--allow", "read:*"],
    "other": ["--allow", "take:other-*"],
    "slow": ["--allow", "take:*", "--rate", "5/s"],
    "daily": ["--allow", "take:*", "--quota", "3/d"],
    "revoked": ["--allow", "take:*"],
    "expired": ["--allow", "take:*", "--expires", "1s"],
}

SPACES = {
    "links": [],
    "tickets": ["--kind", "sequential", "--length", "0"],
    "ids": ["--kind", "snowflake"],
    "uuids": ["--kind", "uuid"],
    "coupons": ["--kind", "pooled"],
    "urls": ["--kind", "digest"],
    "closed": [],
}
# Each client empties one of its own.
FEW = ["--kind", "sequential", "--alphabet", "decimal", "--length", "1", "--blocklist", "false"]

CASES = [
    ("shop", "links", 1, 1),
    ("shop", "links", 1_000, 1_000),
    ("shop", "tickets", 5, 5),
    ("shop", "ids", 5, 5),
    ("shop", "uuids", 5, 5),
    ("shop", "coupons", 5, 5),
    ("shop", "few", 20, 10),
    ("shop", "few", 1, "exhausted"),
    ("shop", "few", 2, "exhausted"),
    ("shop", "urls", 1, "wrong_kind"),
    ("shop", "closed", 1, "sealed"),
    ("shop", "nowhere", 1, "unknown_space"),
    ("shop", "links", 100_001, "bad_count"),
    ("nobody", "links", 1, "unauthorized"),
    ("mistyped", "links", 1, "unauthorized"),
    ("unknown", "links", 1, "unauthorized"),
    ("revoked", "links", 1, "unauthorized"),
    ("expired", "links", 1, "unauthorized"),
    ("reader", "links", 1, "forbidden"),
    ("other", "links", 1, "forbidden"),
    ("other", "nowhere", 1, "forbidden"),
    ("slow", "links", 6, "above_burst"),
    ("daily", "links", 4, "rate_limited"),
]

# What Redis calls it, and what everybody else does.
WORDS = {
    "NOAUTH": "unauthorized",
    "WRONGPASS": "unauthorized",
    "NOPERM": "forbidden",
    "WRONGTYPE": "wrong_kind",
}


# One attempt: what is refused is to be seen.
NEVER = redis.retry.Retry(redis.backoff.NoBackoff(), 0)


class Refused(Exception):
    """A take that came to nothing, by its code."""


def redis_refusal(text):
    word, _, rest = text.partition(" ")
    return Refused(WORDS.get(word) or rest.partition(":")[0])


class Curl:
    """HTTP."""

    def __init__(self, server):
        self.url = server.http

    def take(self, token, space, count):
        command = ["curl", "-s", "-X", "POST", "-w", "\n%{http_code}", f"{self.url}/v1/spaces/{space}/keys?count={count}"]
        if token:
            command += ["-H", "@-"]
        header = f"Authorization: Bearer {token}" if token else None
        shown = subprocess.run(command, input=header, capture_output=True, text=True, check=True, timeout=30).stdout
        body, _, status = shown.rpartition("\n")
        answer = json.loads(body)
        if status != "200":
            raise Refused(answer["code"])
        return answer["keys"]


class Grpcio:
    """gRPC by reflection."""

    def __init__(self, server):
        channel, reflection = grpc_client.connect(server.http.removeprefix("http://"))
        pool = descriptor_pool.DescriptorPool(reflection)
        self.service = grpc_client.Service(channel, pool, grpc_client.SERVICE)

    def take(self, token, space, count):
        metadata = [("authorization", f"Bearer {token}")] if token else []
        try:
            return list(self.service.call("Take", metadata, space=space, count=count).keys)
        except grpc.RpcError as error:
            raise Refused(grpc_client.details_of(error)[0]) from error


class RedisPy:
    """The Redis protocol, version 3."""

    protocol = 3

    def __init__(self, server):
        self.port = server.redis_port

    def take(self, token, space, count):
        client = redis.Redis(port=self.port, password=token, protocol=self.protocol, decode_responses=True, retry=NEVER)
        try:
            keys = client.spop(space, count) if count > 1 else client.spop(space)
        except redis.RedisError as error:
            # The library takes the first word of some errors away and makes a class of it.
            kinds = {redis.AuthenticationError: "NOAUTH", redis.exceptions.NoPermissionError: "NOPERM"}
            has_word = str(error).split(" ")[0] in [*WORDS, "TRYAGAIN"]
            raise redis_refusal(str(error) if has_word else f"{kinds.get(type(error), 'ERR')} {error}") from error
        finally:
            client.close()
        if not keys:
            raise Refused("exhausted")
        return [keys] if isinstance(keys, str) else list(keys)


class RedisPy2(RedisPy):
    """The same, version 2."""

    protocol = 2


class RedisCli:
    """The Redis protocol by hand."""

    def __init__(self, server):
        self.port = server.redis_port

    def take(self, token, space, count):
        command = ["redis-cli", "-p", str(self.port), "--json", "SPOP", space] + ([str(count)] if count > 1 else [])
        environment = os.environ | ({"REDISCLI_AUTH": token} if token else {})
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)
        text = done.stdout.strip()
        if "AUTH failed" in done.stderr:
            raise Refused("unauthorized")
        text = text.removeprefix("error:").strip('"').strip() if text.startswith("error:") else text
        if text.split(" ")[0] in [*WORDS, "ERR", "TRYAGAIN"]:
            raise redis_refusal(text)
        keys = json.loads(text)
        if not keys:
            raise Refused("exhausted")
        return [keys] if isinstance(keys, str) else keys


class Ioredis:
    """The Redis protocol from Node."""

    def __init__(self, server):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ioredis.mjs")
        environment = os.environ | {"IOREDIS": server.node_modules}
        self.node = subprocess.Popen(
            ["node", script, str(server.redis_port)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def take(self, token, space, count):
        ask = {"token": token, "space": space, "count": count}
        print(json.dumps(ask), file=self.node.stdin, flush=True)
        answer = json.loads(self.node.stdout.readline())
        if "error" in answer:
            raise redis_refusal(answer["error"])
        if not answer["keys"]:
            raise Refused("exhausted")
        return answer["keys"]

    def close(self):
        self.node.stdin.close()
        self.node.wait(timeout=20)


CLIENTS = [Curl, Grpcio, RedisPy, RedisPy2, RedisCli, Ioredis]


class Server:
    """A server of its own, with all keyspaces and tokens."""

    def __init__(self, binary, node_modules):
        self.binary, self.node_modules = binary, node_modules
        self.folder = tempfile.TemporaryDirectory()
        for space, settings in SPACES.items():
            self.run("space", "create", space, *settings)
        self.run("pool", "fill", "coupons", "--up-to", "500")
        self.run("space", "seal", "closed", "--yes")
        for client in CLIENTS:
            self.run("space", "create", few_of(client), *FEW)
        self.tokens = {name: self.run("token", "create", name, *limits).strip() for name, limits in CALLERS.items()}
        self.run("token", "revoke", "revoked")
        shop = self.tokens["shop"]
        # The check character of one is wrong, and the other is nobody's.
        self.tokens["mistyped"] = shop[:-1] + ("x" if shop[-1] != "x" else "y")
        self.tokens["unknown"] = self.run("token", "generate").split("km_", 1)[1].split()[0]
        self.tokens["unknown"] = "km_" + self.tokens["unknown"]
        self.tokens["nobody"] = None
        # One of them expires.
        time.sleep(1.1)
        self.start()

    def run(self, *arguments):
        command = [self.binary, "--data-dir", self.folder.name, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def start(self):
        log = os.path.join(self.folder.name, "log")
        command = [self.binary, "--data-dir", self.folder.name, "serve", "--listen", "127.0.0.1:0", "--redis-listen", "127.0.0.1:0"]
        with open(log, "w", encoding="utf-8") as output:
            self.process = subprocess.Popen(command, stderr=output, stdout=output)
        for _ in range(300):
            with open(log, encoding="utf-8") as lines:
                found = dict(line.split()[:2] for line in lines if line.startswith("  listening") or "redis" in line.split()[:1])
            if "listening" in found and len(found) > 1:
                break
            assert self.process.poll() is None, open(log, encoding="utf-8").read()
            time.sleep(0.1)
        self.http = found.pop("listening")
        self.redis_port = int(found.popitem()[1].rsplit(":", 1)[1])

    def stop(self):
        self.process.terminate()
        assert self.process.wait(timeout=30) == 0
        self.folder.cleanup()


def few_of(client):
    return f"few-{client.__name__.lower()}"


def take(client, token, space, count):
    """The keys or the code of a take; one that has to wait for the first keys is repeated."""
    for _ in range(200):
        try:
            return client.take(token, space, count)
        except Refused as refused:
            code = str(refused)
            if code not in ("no_keys_ready", "no_worker", "pool_filling"):
                return code
            time.sleep(0.1)
    raise AssertionError(f"{space} has no keys")


def increment(server):
    """redis-py sends `INCRBY space 1` for its `incr`."""
    client = redis.Redis(port=server.redis_port, password=server.tokens["shop"], retry=NEVER)
    try:
        first, second = client.incr("tickets"), client.incr("tickets")
        assert isinstance(first, int) and first < second, (first, second)
        try:
            client.incr("tickets", 2)
            raise AssertionError("two numbers in a row cannot be promised")
        except redis.ResponseError as error:
            assert "must be 1" in str(error), error
    finally:
        client.close()


def main():
    server = Server(sys.argv[1], sys.argv[2])
    seen, failed = set(), 0
    try:
        for kind in CLIENTS:
            client = kind(server)
            for caller, space, count, expected in CASES:
                name = few_of(kind) if space == "few" else space
                found = take(client, server.tokens[caller], name, count)
                if isinstance(found, list):
                    for key in found:
                        assert (name, key) not in seen, f"{kind.__name__}: {key} of {name} came before"
                        seen.add((name, key))
                    found = len(found)
                if found != expected:
                    failed += 1
                    print(f"{kind.__name__}: {caller} takes {count} of {space}: {found}, not {expected}", file=sys.stderr)
            getattr(client, "close", lambda: None)()
        increment(server)
    finally:
        server.stop()
    assert not failed, f"{failed} cases failed"
    print(f"{len(CASES)} cases by {len(CLIENTS)} clients, {len(seen)} keys, none of them twice")


main()
