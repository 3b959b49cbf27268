/** Every class of error, from real servers as far as they give it. */

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { inspect } from "node:util";

import * as keymillErrors from "../src/index.js";
import {
  BadAnswer,
  BadSettings,
  Closed,
  DifferentDefinition,
  Exhausted,
  Forbidden,
  Invalid,
  Keymill,
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
} from "../src/index.js";
import { problem, Scripted } from "./scripted.js";
import { Deployment, until } from "./servers.js";

type ErrorClass<E> = abstract new (...args: never[]) => E;

/** The error that a call must fail with. */
async function failure<E extends KeymillError>(kind: ErrorClass<E>, call: Promise<unknown>): Promise<E> {
  const error = await call.then(
    () => assert.fail(`it did not fail with ${kind.name}`),
    (reason: unknown) => reason,
  );
  if (!(error instanceof kind && error instanceof KeymillError)) {
    throw new assert.AssertionError({ message: `not ${kind.name}, but ${inspect(error)}` });
  }
  assert.equal(error.name, kind.name);
  assert.ok(error.message.startsWith(error.detail) && error.message.includes(error.code));
  return error;
}

describe("errors", { timeout: 60_000 }, () => {
  const open = new Deployment();
  let keymill: Keymill;

  before(async () => {
    await open.start();
    keymill = open.client();
  });
  after(async () => {
    await keymill.close();
    await open.stop();
  });

  it("tells what happened, where, and under which ID", async () => {
    const error = await failure(UnknownKeyspace, keymill.keyspace("nope").take());
    assert.deepEqual([error.code, error.status, error.server], ["unknown_space", 404, open.urls[0]]);
    assert.ok(error.requestId && error.detail.includes("nope") && !error.isRetryable);
    assert.match(error.stack ?? "", /^UnknownKeyspace: there is no keyspace `nope`/);
  });

  it("has no keys left", async () => {
    const digits = keymill.keyspace("digits");
    await digits.ensure({ kind: "sequential", alphabet: "decimal", length: 1, leaseSizeMin: 1, blocklist: false });
    const keys = new Set<string>();
    let error: Exhausted | undefined;
    while (error === undefined) {
      const taken = digits.takeMany(4);
      await taken.then(
        (some) => some.map((key) => keys.add(key)),
        async () => {
          error = await failure(Exhausted, taken);
        },
      );
    }
    assert.equal(keys.size, 10);
    assert.equal(error.heldElsewhere, 0n);
  });

  it("is sealed", async () => {
    const old = keymill.keyspace("old");
    await old.ensure();
    await open.run("space", "seal", "old", "--yes");
    await until(async () => (await old.show()).sealed);
    await until(() =>
      old.take().then(
        () => false,
        () => true,
      ),
    );
    assert.equal((await failure(Sealed, old.take())).code, "sealed");
  });

  it("has no worker number for a second instance", async () => {
    const second = await open.start();
    const [first] = open.urls;
    const ids = { first: new Keymill({ servers: first }), second: new Keymill({ servers: second.url }) };
    await ids.first.keyspace("ids").ensure({ kind: "snowflake", layout: "41/0/22" });
    await ids.first.keyspace("ids").take();
    const error = await failure(NoKeysReady, ids.second.keyspace("ids").take({ timeout: 1_500 }));
    assert.ok(error.isRetryable && error.code === "no_worker", inspect(error));
    // A client of both gets one from the first.
    const both = new Keymill({ servers: open.urls });
    assert.match(await both.keyspace("ids").take(), /^\d+$/);
    await second.kill();
    open.instances.pop();
  });

  it("refuses aliases of others, unknown ones, wrong kinds and wrong values", async () => {
    const links = keymill.keyspace("links");
    await links.ensure({ length: 8 });
    await links.addAlias("sale", { owner: "shop" });
    assert.equal((await failure(Taken, links.addAlias("sale", { owner: "bob" }))).status, 409);
    await failure(UnknownAlias, links.removeAlias("sales"));
    await failure(WrongKind, links.digest("https://a.example"));
    for (const count of [0, -1, 1.5, Number.NaN, 100_001]) {
      assert.equal((await failure(Invalid, links.takeMany(count))).code, "bad_count");
    }
    assert.equal((await failure(Invalid, links.addAlias("a b"))).code, "bad_alias");
    assert.equal((await failure(Invalid, keymill.keyspace("bad").ensure({ length: 99 }))).code, "bad_definition");
    const { differences } = await failure(DifferentDefinition, links.ensure({ length: 9 }));
    assert.deepEqual(differences, [{ setting: "length", stored: "8", asked: "9" }]);
  });

  it("reaches no server", async () => {
    const gone = await Scripted.start(() => ({}));
    const { url } = gone;
    await gone.stop();
    const nobody = new Keymill({ servers: url, timeout: 200 });
    const error = await failure(Unreachable, nobody.keyspace("links").take());
    assert.ok(error.isRetryable && error.status === undefined && error.server === url);
    assert.match(error.detail, /ECONNREFUSED/);
    const blocked = new Keymill({ servers: "http://127.0.0.1:9", timeout: 200 });
    assert.match((await failure(Unreachable, blocked.keyspace("links").take())).detail, /on this port/);
    const nameless = new Keymill({ servers: ["http://no.such.host.invalid"], timeout: 200 });
    await failure(Unreachable, nameless.keyspace("links").take());
  });

  it("is closed", async () => {
    const closed = open.client();
    const hanging = await Scripted.start(() => ({ hang: true }));
    const waiting = new Keymill({ servers: hanging.url });
    const call = failure(Closed, waiting.keyspace("links").take());
    await until(() => hanging.seen.length === 1);
    await waiting.close();
    await call;
    await closed.close();
    await failure(Closed, closed.keyspace("links").take());
    await hanging.stop();
  });

  it("does not take for a server what is none", async () => {
    const page = `<html>\u001b${"x".repeat(500)}`;
    const answers = [
      { status: 418, text: page },
      { status: 200, text: page },
      { status: 200, json: { keys: "abc" } },
      { status: 200, json: { keys: [] } },
      { status: 200, json: { keys: ["a", "b"] } },
      { status: 302, headers: { location: "http://127.0.0.1:9/" } },
    ];
    const scripted = await Scripted.start((_, count) => answers[count - 1] ?? {});
    const foreign = new Keymill({ servers: scripted.url });
    for (const { status } of answers) {
      const error = await failure(BadAnswer, foreign.keyspace("links").take());
      assert.ok(error.detail.length < 200 && !error.detail.includes("\u001b"), error.detail);
      assert.deepEqual([error.status, error.server], [status, scripted.url]);
    }
    await scripted.stop();
  });

  it("has the class of its status where the code is unknown", async () => {
    const cases = [
      [503, "new_trouble", Unavailable, true],
      [503, "store_rolled_back", Unavailable, false],
      [429, "too_fast", RateLimited, true],
      [403, "foreign_host", Forbidden, false],
      [413, "body_too_large", Invalid, false],
      [500, "store_broken", KeymillError, false],
      [409, "something", KeymillError, false],
    ] as const;
    for (const [status, code, kind, isRetryable] of cases) {
      const scripted = await Scripted.start(() => ({ ...problem(status, code), headers: { "retry-after": "3" } }));
      const client = new Keymill({ servers: scripted.url, timeout: 2_500 });
      const error = await failure(kind as ErrorClass<KeymillError>, client.keyspace("links").take());
      assert.deepEqual([error.code, error.isRetryable, error.requestId], [code, isRetryable, "r-1"]);
      if (error instanceof RateLimited || error instanceof Unavailable) {
        assert.equal(error.retryAfter, 3_000);
      }
      await scripted.stop();
    }
    const proxy = await Scripted.start(() => ({ status: 502, text: "<html>bad gateway" }));
    await failure(Unavailable, new Keymill({ servers: proxy.url, timeout: 1_000 }).keyspace("links").take());
    await proxy.stop();
  });

  it("names every class that it exports", () => {
    const classes = Object.entries(keymillErrors).filter(([, it]) => typeof it === "function" && it !== Keymill);
    assert.equal(classes.length, 18);
    for (const [name, kind] of classes) {
      assert.equal((kind as typeof KeymillError).prototype.name, name);
    }
    assert.ok(new BadSettings("no") instanceof Error);
  });
});

describe("errors of tokens", { timeout: 60_000 }, () => {
  const guarded = new Deployment();
  let admin: string;
  let taker: string;
  let slow: string;

  before(async () => {
    await guarded.run("space", "create", "links");
    admin = await guarded.run("token", "create", "admin", "--allow", "admin:*");
    taker = await guarded.run("token", "create", "taker", "--allow", "take:links");
    slow = await guarded.run("token", "create", "slow", "--allow", "take:links", "--rate", "5/s");
    await guarded.start();
  });
  after(() => guarded.stop());

  const using = (token?: string) => guarded.client({ token }).keyspace("links");

  it("lets nobody in without a valid token, and shows none", async () => {
    for (const token of [undefined, `${admin.slice(0, -2)}xx`]) {
      const error = await failure(Unauthorized, using(token).take());
      assert.equal(error.status, 401);
      assert.ok(!inspect(error).includes(admin.slice(5, 20)));
    }
    assert.equal((await using(taker).takeMany(3)).length, 3);
  });

  it("allows what the token allows", async () => {
    await failure(Forbidden, using(taker).show());
    await failure(Forbidden, using(taker).addAlias("sale"));
    await failure(Forbidden, guarded.client({ token: taker }).keyspace("other").take());
    assert.equal((await using(admin).show()).name, "links");
  });

  it("is told when to come back, and waits where there is time", async () => {
    const links = using(slow);
    await links.takeMany(5);
    const error = await failure(RateLimited, links.takeMany(5, { timeout: 900 }));
    assert.ok(error.retryAfter >= 1_000 && error.isRetryable, inspect(error));
    const started = performance.now();
    assert.equal((await links.takeMany(5)).length, 5);
    assert.ok(performance.now() - started >= 900, "it has waited as it was told");
    assert.equal((await failure(Invalid, links.takeMany(1_000))).code, "above_burst");
  });
});
