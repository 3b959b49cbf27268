/** Which server is asked, and whether to ask again. */

import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Backoff, Budget } from "../src/backoff.js";
import { Exhausted, Keymill, type KeymillOptions, NoKeysReady, RateLimited, Unreachable } from "../src/index.js";
import { keysFor, problem, type Reply, Scripted, type Seen } from "./scripted.js";
import { Deployment, until } from "./servers.js";

const running = new Set<Scripted>();

/** A server that answers as a test says. */
async function scripted(answer: (seen: Seen, count: number) => Reply): Promise<Scripted> {
  const server = await Scripted.start(answer);
  running.add(server);
  return server;
}

/** A keyspace of several servers. */
function links(servers: readonly Scripted[], options: KeymillOptions = {}) {
  return new Keymill({ servers: servers.map((server) => server.url), ...options }).keyspace("links");
}

describe("attempts", { timeout: 60_000 }, () => {
  after(async () => {
    await Promise.all([...running].map((server) => server.stop()));
  });

  it("shares the load among servers", async () => {
    const servers = [await scripted(keysFor), await scripted(keysFor), await scripted(keysFor)];
    const keyspace = links(servers);
    for (let taken = 0; taken < 30; taken++) {
      await keyspace.take();
    }
    assert.deepEqual(
      servers.map((server) => server.seen.length),
      [10, 10, 10],
    );
  });

  it("goes past servers that break off, hang or are not ready, and leaves the failing ones alone", async () => {
    const dropping = await scripted(() => ({ drop: true }));
    const hanging = await scripted(() => ({ hang: true }));
    const unready = await scripted(() => problem(503, "no_keys_ready"));
    const good = await scripted(keysFor);
    const keyspace = links([dropping, hanging, unready, good], { attemptTimeout: 100 });
    const started = performance.now();
    for (let taken = 0; taken < 200; taken++) {
      await keyspace.take();
    }
    const seconds = (performance.now() - started) / 1_000;
    for (const failing of [dropping, hanging]) {
      assert.ok(failing.seen.length <= 7 + seconds, "they are left alone for a while that doubles");
    }
    assert.ok(unready.seen.length <= 2 + seconds, "it is asked after the others");
  });

  it("repeats what servers may have seen within a budget only", async () => {
    const dropping = await scripted(() => ({ drop: true }));
    const keyspace = links([dropping], { timeout: 3_000 });
    const calls = Array.from({ length: 100 }, () => keyspace.take().catch((error: unknown) => error));
    const outcomes = await Promise.all(calls);
    assert.ok(outcomes.every((outcome) => outcome instanceof Unreachable));
    // A hundred calls, a retry for five of them, and ten more.
    assert.ok(dropping.seen.length <= 130, String(dropping.seen.length));
  });

  it("waits for a server that is started again, which costs nothing of the budget", async () => {
    const first = await scripted(keysFor);
    const { url } = first;
    const keyspace = links([first], { timeout: 5_000 });
    await first.stop();
    const calls = Array.from({ length: 50 }, () => keyspace.take());
    await sleep(300);
    const { createServer } = await import("node:http");
    const second = createServer((request, response) => {
      const reply = keysFor({ method: "", path: request.url ?? "", authorization: undefined, body: "", at: 0 });
      response.end(JSON.stringify(reply.json));
    });
    await new Promise<void>((resolve) => second.listen(Number(new URL(url).port), "127.0.0.1", resolve));
    assert.equal(new Set(await Promise.all(calls)).size, 50);
    second.closeAllConnections();
    second.close();
  });

  it("ends by its deadline, the client's or its own", async () => {
    const hanging = await scripted(() => ({ hang: true }));
    const keyspace = links([hanging], { timeout: 300, attemptTimeout: 5_000 });
    for (const [options, expected] of [
      [{}, 300],
      [{ timeout: 100 }, 100],
    ] as const) {
      const started = performance.now();
      await assert.rejects(keyspace.take(options), Unreachable);
      const elapsed = performance.now() - started;
      assert.ok(elapsed >= expected - 5 && elapsed < expected + 1_000, `${elapsed} ms`);
    }
  });

  it("respects Retry-After, in seconds and as a date", async () => {
    const dates = { date: "Tue, 17 Nov 2026 00:00:00 GMT", "retry-after": "Tue, 17 Nov 2026 00:00:01 GMT" };
    for (const headers of [{ "retry-after": "1" }, dates]) {
      const server = await scripted((seen, count) =>
        count === 1 ? { ...problem(503, "no_keys_ready"), headers } : keysFor(seen),
      );
      await links([server]).take();
      const [first, second] = server.seen;
      const waited = (second?.at ?? 0) - (first?.at ?? 0);
      assert.ok(waited >= 990 && waited < 4_000, `${waited} ms`);
    }
    const server = await scripted(() => ({ ...problem(503, "no_keys_ready"), headers: { "retry-after": "60" } }));
    const started = performance.now();
    await assert.rejects(links([server]).take(), NoKeysReady);
    assert.ok(performance.now() - started < 5_000, "it does not wait in vain");
  });

  it("does not evade a rate limit by asking another server", async () => {
    const limiting = await scripted(() => ({ ...problem(429, "rate_limited"), headers: { "retry-after": "5" } }));
    const servers = [limiting, await scripted(keysFor)];
    const keyspace = links(servers, { timeout: 500 });
    const outcomes = await Promise.all([1, 2].map(() => keyspace.take().catch((error: unknown) => error)));
    assert.equal(outcomes.filter((outcome) => outcome instanceof RateLimited).length, 1);
    assert.equal(servers[1]?.seen.length, 1);
  });

  it("asks all servers before it says that there are no keys left", async () => {
    const exhausted = await scripted(() => problem(409, "exhausted", { held_elsewhere: "9007199254740993" }));
    const holding = await scripted(keysFor);
    const keyspace = links([exhausted, holding]);
    for (let taken = 0; taken < 4; taken++) {
      await keyspace.take();
    }
    const error = await links([exhausted])
      .take()
      .catch((reason: unknown) => reason);
    assert.ok(error instanceof Exhausted && error.heldElsewhere === 9_007_199_254_740_993n);
  });

  it("counts an alias as removed whose removal was answered in vain", async () => {
    const server = await scripted((_, count) => (count === 1 ? { drop: true } : problem(404, "unknown_alias")));
    await links([server]).removeAlias("sale");
    assert.equal(server.seen.length, 2);
    await assert.rejects(links([server]).removeAlias("sale"), { code: "unknown_alias" });
  });

  it("is ended by a signal: before it begins, during a request, and while it waits", async () => {
    const hanging = await scripted(() => ({ hang: true }));
    const waiting = await scripted(() => ({ ...problem(503, "no_keys_ready"), headers: { "retry-after": "5" } }));
    const reason = new Error("no longer wanted");
    await assert.rejects(links([hanging]).take({ signal: AbortSignal.abort(reason) }), reason);
    assert.equal(hanging.seen.length, 0);
    for (const server of [hanging, waiting]) {
      const controller = new AbortController();
      const call = links([server]).take({ signal: controller.signal });
      const failed = assert.rejects(call, reason);
      await until(() => server.seen.length === 1);
      controller.abort(reason);
      await failed;
    }
    await assert.rejects(links([hanging]).take({ signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
  });

  it("has a bounded number of requests under way", async () => {
    let underWay = 0;
    let most = 0;
    const fetch = async () => {
      underWay += 1;
      most = Math.max(most, underWay);
      await sleep(5);
      underWay -= 1;
      return new Response('{"keys":["k"]}');
    };
    const keyspace = new Keymill({ servers: "http://host", fetch }).keyspace("links");
    const keys = await Promise.all(Array.from({ length: 1_000 }, () => keyspace.take()));
    assert.deepEqual([keys.length, most, underWay], [1_000, 256, 0]);
  });

  it("takes keys from the other servers while one is killed", async () => {
    const deployment = new Deployment();
    const servers = [await deployment.start(), await deployment.start()];
    const keyspace = deployment.client().keyspace("default");
    const keys = new Set<string>();
    let taken = 0;
    let isOver = false;
    const callers = Array.from({ length: 8 }, async () => {
      while (!isOver) {
        keys.add(await keyspace.take());
        taken += 1;
      }
    });
    for (const server of servers) {
      await sleep(300);
      await server.kill();
      await sleep(300);
      await server.start();
    }
    isOver = true;
    await Promise.all(callers);
    assert.equal(keys.size, taken);
    assert.ok(taken > 100, String(taken));
    await deployment.stop();
  });
});

describe("back-off and budget", () => {
  it("doubles its waits up to the longest, and starts over after a success", () => {
    const backoff = new Backoff();
    let bound = 50;
    for (let failures = 0; failures < 100; failures++) {
      assert.ok(backoff.next() <= bound);
      bound = Math.min(bound * 2, 2_000);
    }
    assert.ok(backoff.nextHalf() >= 1_000);
    backoff.reset();
    assert.ok(backoff.next() <= 50);
  });

  it("spreads its waits over the whole range", () => {
    const waits = Array.from({ length: 200 }, () => new Backoff().next());
    assert.ok(waits.some((wait) => wait < 12) && waits.some((wait) => wait > 38));
  });

  it("allows a retry for five calls, and a few more", () => {
    const budget = new Budget();
    const retries = () => {
      let count = 0;
      while (budget.takeRetry()) {
        count += 1;
      }
      return count;
    };
    assert.equal(retries(), 10);
    for (const [calls, expected] of [
      [100, 20],
      [100_000, 500],
    ] as const) {
      for (let call = 0; call < calls; call++) {
        budget.addCall();
      }
      assert.equal(retries(), expected);
    }
  });
});
