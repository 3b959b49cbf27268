/** The local cache: how much it holds and for how long, and what callers see of its failures. */

import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { type CacheOptions, Closed, Keymill, type KeymillOptions, NoKeysReady } from "../src/index.js";
import { keysFor, problem, type Reply, Scripted, type Seen, spaceInfo } from "./scripted.js";
import { until } from "./servers.js";

/** A scripted server, a cache of it, and what it was asked for. */
class Fixture {
  static readonly all = new Set<Fixture>();
  /** What is answered instead of keys, first come, first served. */
  readonly failures: Reply[] = [];
  /** What all takes are answered with instead of keys. */
  failure: Reply | undefined;
  info: Reply = spaceInfo();
  more: object = {};
  /** The keys of each answer. */
  readonly given: string[][] = [];
  readonly keymill: Keymill;
  readonly cache;
  readonly #server: Scripted;

  private constructor(server: Scripted, options: CacheOptions, settings: KeymillOptions) {
    this.#server = server;
    this.keymill = new Keymill({ servers: server.url, ...settings });
    this.cache = this.keymill.keyspace("links").cached(options);
  }

  static async start(options: CacheOptions = {}, settings: KeymillOptions = {}): Promise<Fixture> {
    const answer = (seen: Seen) => {
      if (seen.method === "GET") {
        return fixture.info;
      }
      const failure = fixture.failures.shift() ?? fixture.failure;
      if (failure !== undefined) {
        return failure;
      }
      const reply = keysFor(seen, 0, fixture.more);
      fixture.given.push((reply.json as { keys: string[] }).keys);
      return reply;
    };
    const fixture = new Fixture(await Scripted.start(answer), options, settings);
    Fixture.all.add(fixture);
    return fixture;
  }

  /** How many keys each take has asked for. */
  get asked(): number[] {
    const takes = this.#server.seen.filter(({ method }) => method === "POST");
    return takes.map(({ path }) => Number(new URL(path, "http://host").searchParams.get("count") ?? 1));
  }

  /** How often the settings of the keyspace were read. */
  get looks(): number {
    return this.#server.seen.length - this.asked.length;
  }

  async take(count: number): Promise<string[]> {
    const keys: string[] = [];
    while (keys.length < count) {
      keys.push(await this.cache.take());
    }
    return keys;
  }

  async stop(): Promise<void> {
    await this.keymill.close();
    await this.#server.stop();
  }
}

describe("cache", { timeout: 60_000 }, () => {
  after(async () => {
    await Promise.all([...Fixture.all].map((fixture) => fixture.stop()));
  });

  it("fetches at the first demand, and again when half is used", async () => {
    const fixture = await Fixture.start({ horizon: 1_000 });
    const { cache } = fixture;
    assert.deepEqual([cache.size, cache.status().state, fixture.asked], [0, "starting", []]);
    await cache.take();
    assert.deepEqual([fixture.asked, cache.size, cache.status().state], [[32], 31, "on"]);
    await fixture.take(14);
    await sleep(50);
    assert.deepEqual(fixture.asked, [32], "more than half is left");
    await fixture.take(1);
    await until(() => cache.size === 32);
    assert.deepEqual(fixture.asked, [32, 16]);
    assert.equal(fixture.looks, 1);
  });

  it("follows the rate, and hands out no key twice", async () => {
    const fixture = await Fixture.start();
    const keys: string[] = [];
    const started = performance.now();
    for (let turn = 0; turn < 150; turn++) {
      keys.push(...(await fixture.take(20)));
      await sleep(5);
    }
    const { target, rate, atHand } = fixture.cache.status();
    const seconds = (performance.now() - started) / 1_000;
    // What a moving average can show of the true rate by now. It was last looked at with the last fetch.
    const shown = (3_000 / seconds) * (1 - 0.5 ** (seconds / 5));
    assert.ok(rate > 0.3 * shown && rate < 1.5 * shown, `${rate} of ${shown}`);
    assert.ok(target >= 29 * rate && atHand >= target / 3, `${rate} ${target} ${atHand}`);
    assert.equal(new Set(keys).size, 3_000);
    assert.ok(fixture.asked.length < 100, String(fixture.asked.length));
  });

  it("fetches for a burst of callers, who are served in their order", async () => {
    const fixture = await Fixture.start();
    const order: number[] = [];
    const calls = Array.from({ length: 1_000 }, (_, place) =>
      fixture.cache.take().then((key) => {
        order.push(place);
        return key;
      }),
    );
    assert.equal(new Set(await Promise.all(calls)).size, 1_000);
    assert.deepEqual(fixture.asked[0], 1_000);
    assert.deepEqual(
      order,
      order.map((_, place) => place),
    );
  });

  it("takes without waiting, if there is a key", async () => {
    const fixture = await Fixture.start();
    assert.equal(fixture.cache.tryTake(), undefined);
    await until(() => fixture.cache.size === 32);
    assert.match(fixture.cache.tryTake() ?? "", /^k/);
    const keys: string[] = [];
    for await (const key of fixture.cache.keys()) {
      keys.push(key);
      if (keys.length === 50) {
        break;
      }
    }
    assert.equal(new Set(keys).size, 50);
  });

  it("drops keys that are too old, and replaces them before that if some were used", async () => {
    const fixture = await Fixture.start({ maxAge: 2_000 });
    await fixture.take(1);
    const started = performance.now();
    await until(() => fixture.asked.length === 2);
    assert.ok(performance.now() - started < 2_000, "replaced ahead of time");
    await until(() => fixture.cache.size === 32);
    assert.ok(performance.now() - started > 1_900, "the old ones are gone");
    await sleep(2_200);
    assert.deepEqual([fixture.asked.length, fixture.cache.size], [2, 0], "nobody took any");
    const [last = ""] = await fixture.take(1);
    assert.ok(fixture.given[2]?.includes(last));
  });

  it("hands out no key after it has expired", async () => {
    const fixture = await Fixture.start();
    fixture.more = { expires_at: new Date(Date.now() + 1_500).toISOString() };
    await fixture.take(1);
    assert.equal(fixture.cache.size, 31);
    fixture.more = {};
    await sleep(1_550);
    const [expired] = fixture.given;
    assert.ok((await fixture.take(32)).every((key) => !expired?.includes(key)));
    fixture.cache.close();
    const late = await Fixture.start({}, { timeout: 1_000 });
    late.more = { expires_at: "2026-01-01T00:00:00Z" };
    await assert.rejects(late.take(1), /expire before they arrive/);
  });

  it("goes on trying, and hands out what is left meanwhile", async () => {
    const fixture = await Fixture.start();
    const keys = await fixture.take(1);
    fixture.failure = problem(503, "no_keys_ready");
    keys.push(...(await fixture.take(31)));
    assert.equal(fixture.cache.tryTake(), undefined);
    const waiting = fixture.take(1);
    await sleep(300);
    fixture.failure = undefined;
    keys.push(...(await waiting));
    assert.equal(new Set(keys).size, 33);
    assert.equal(fixture.cache.status().state, "on");
  });

  it("has callers wait to their deadline, and then says why", async () => {
    const fixture = await Fixture.start({}, { timeout: 500 });
    fixture.failure = problem(503, "no_keys_ready");
    const started = performance.now();
    await assert.rejects(fixture.cache.take({ timeout: 1_500 }), NoKeysReady);
    const elapsed = performance.now() - started;
    assert.ok(elapsed >= 1_490 && elapsed < 4_000, `${elapsed} ms`);
    assert.equal(fixture.cache.status().state, "failing");
    fixture.failure = undefined;
    await fixture.cache.take({ timeout: 5_000 });
  });

  it("drops its keys at a seal and with a refused token, and keeps them in an exhausted keyspace", async () => {
    const cases = [
      [409, "sealed", 0],
      [401, "unauthorized", 0],
      [403, "forbidden", 0],
      [409, "exhausted", 16],
      [404, "unknown_space", 16],
    ] as const;
    const check = async ([status, code, left]: (typeof cases)[number]) => {
      const fixture = await Fixture.start();
      await fixture.take(1);
      fixture.failures.push(problem(status, code), problem(status, code));
      await fixture.take(15);
      await until(() => fixture.cache.status().state === "refused");
      assert.deepEqual([fixture.cache.size, fixture.cache.status().error?.code], [left, code]);
      await fixture.take(left);
      const calls = fixture.asked.length;
      await assert.rejects(fixture.cache.take(), { code });
      await assert.rejects(fixture.cache.take(), { code });
      assert.equal(fixture.asked.length, calls, "servers are not asked for every caller");
      await sleep(1_050);
      await assert.rejects(fixture.cache.take(), { code });
      assert.equal(fixture.asked.length, calls + 1);
      await sleep(1_050);
      await fixture.take(1);
    };
    await Promise.all(cases.map(check));
  });

  it("makes a fetch smaller that is too large", async () => {
    const fixture = await Fixture.start({ keysMin: 1_000 });
    fixture.failures.push(problem(400, "bad_count"), problem(400, "above_burst"));
    await fixture.take(1);
    await until(() => fixture.cache.size > 900);
    assert.deepEqual(fixture.asked.slice(0, 6), [1_000, 500, 250, 250, 250, 250]);
  });

  it("asks for fewer keys where servers are short of them, and for more again when they are not", async () => {
    const fixture = await Fixture.start({ keysMin: 1_000 });
    fixture.failures.push(...Array.from({ length: 4 }, () => problem(503, "no_keys_ready")));
    await fixture.take(1);
    await until(() => fixture.cache.size > 900);
    assert.deepEqual(fixture.asked.slice(0, 8), [1_000, 500, 250, 125, 62, 124, 248, 496]);
  });

  it("does not make endless batches for a token that may take few keys at once", async () => {
    const fixture = await Fixture.start({ keysMin: 10_000 });
    fixture.failures.push(...Array.from({ length: 10 }, () => problem(400, "above_burst")));
    const keys = await fixture.take(1);
    await until(() => fixture.cache.size >= 9 * 63);
    await sleep(50);
    assert.ok(fixture.asked.length <= 10 + 65, String(fixture.asked.length));
    keys.push(...(await fixture.take(2_000)));
    assert.equal(new Set(keys).size, 2_001);
  });

  it("gives no key to a caller who has given up", async () => {
    const fixture = await Fixture.start();
    fixture.failure = problem(503, "no_keys_ready");
    const controller = new AbortController();
    const reason = new Error("no longer wanted");
    const given = fixture.cache.take({ signal: controller.signal });
    const kept = fixture.cache.take();
    const failed = assert.rejects(given, reason);
    controller.abort(reason);
    await failed;
    await assert.rejects(fixture.cache.take({ signal: AbortSignal.abort(reason) }), reason);
    fixture.failure = undefined;
    await kept;
    assert.equal(fixture.cache.size, 31);
    await assert.rejects(fixture.cache.take({ signal: AbortSignal.abort(reason) }), reason);
    assert.equal(fixture.cache.size, 31, "not a key was lost");
  });

  it("looks at the settings again, and holds on to what it knew while they cannot be read", async () => {
    const fixture = await Fixture.start({ maxAge: 300 });
    await fixture.take(1);
    fixture.info = problem(503, "store_unavailable");
    await sleep(320);
    await fixture.take(20);
    assert.equal(fixture.cache.status().state, "on");
    fixture.info = spaceInfo({ audit: "key" });
    await sleep(320);
    await fixture.take(1);
    await until(async () => {
      await fixture.take(1);
      return fixture.cache.status().state === "off";
    });
    assert.match(fixture.cache.status().reason ?? "", /audit = "key"/);
    assert.equal(fixture.cache.size, 0);
    const before = fixture.asked.length;
    await fixture.take(3);
    assert.deepEqual(fixture.asked.slice(before), [1, 1, 1], "every take asks a server");
    fixture.info = spaceInfo();
    await sleep(1_100);
    await fixture.take(1);
    await until(() => fixture.cache.status().state === "on");
  });

  it("ends with its client, and sends those who wait away", async () => {
    const fixture = await Fixture.start();
    await fixture.take(1);
    await fixture.keymill.close();
    assert.deepEqual([fixture.cache.size, fixture.cache.tryTake()], [0, undefined]);
    await assert.rejects(fixture.cache.take(), Closed);
    const other = await Fixture.start();
    other.failure = problem(503, "no_keys_ready");
    const waiting = assert.rejects(other.cache.take(), Closed);
    await until(() => other.asked.length > 0);
    other.cache.close();
    await waiting;
    assert.equal((await other.keymill.keyspace("links").show()).name, "links", "the client goes on");
  });
});
