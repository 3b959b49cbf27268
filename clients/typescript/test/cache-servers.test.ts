/** The local cache with real servers: where it is off, and when it ends. */

import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Exhausted, Sealed, Unauthorized } from "../src/index.js";
import { Deployment } from "./servers.js";

describe("cache of a real server", { timeout: 60_000 }, () => {
  const deployment = new Deployment();
  after(() => deployment.stop());

  it("is off where keys are recorded, come from a pool or are in order, unless it is turned on", async () => {
    await deployment.start();
    const keymill = deployment.client();
    for (const [name, definition, why] of [
      ["audited", { audit: "key" }, /records every key/],
      ["pooled", { kind: "pooled", lowWater: 500 }, /pool/],
      ["ids", { kind: "snowflake" }, /ordered by time/],
    ] as const) {
      const keyspace = keymill.keyspace(name);
      await keyspace.ensure(definition);
      if (name === "pooled") {
        await deployment.run("pool", "fill", name, "--count", "500");
      }
      const off = keyspace.cached();
      const on = keyspace.cached({ anyKeyspace: true });
      const keys = [await off.take(), await off.take(), await on.take(), await on.take()];
      assert.equal(new Set(keys).size, 4);
      assert.deepEqual([off.status().state, off.size, on.status().state], ["off", 0, "on"]);
      assert.match(off.status().reason ?? "", why);
      assert.ok(on.size > 0);
      on.close();
    }
    await keymill.close();
  });

  it("ends when the keyspace is exhausted or sealed, and not before its last key", async () => {
    const keymill = deployment.client();
    const small = keymill.keyspace("small");
    await small.ensure({ kind: "sequential", alphabet: "decimal", length: 2, blocklist: false });
    const keys = new Set<string>();
    await assert.rejects(async () => {
      for await (const key of small.cached().keys()) {
        keys.add(key);
      }
    }, Exhausted);
    assert.equal(keys.size, 100);
    const old = keymill.keyspace("old");
    await old.ensure();
    const cache = old.cached({ maxAge: 600 });
    await cache.take();
    await deployment.run("space", "seal", "old", "--yes");
    await assert.rejects(async () => {
      for (;;) {
        await cache.take();
        await sleep(20);
      }
    }, Sealed);
    assert.equal(cache.size, 0);
    await keymill.close();
  });

  it("is off for a token that may not read, and ends with its token", async () => {
    const guarded = new Deployment();
    await guarded.run("space", "create", "links");
    const taker = await guarded.run("token", "create", "taker", "--allow", "take:links");
    const reader = await guarded.run("token", "create", "reader", "--allow", "take:links", "--allow", "read:links");
    await guarded.start();
    const off = guarded.client({ token: taker }).keyspace("links").cached();
    await off.take();
    assert.match(off.status().reason ?? "", /the right `read`/);
    const any = guarded.client({ token: taker }).keyspace("links").cached({ anyKeyspace: true });
    await any.take();
    assert.equal(any.size, 31);
    const cache = guarded.client({ token: reader }).keyspace("links").cached();
    await cache.take();
    assert.equal(cache.size, 31);
    await guarded.run("token", "revoke", "reader");
    await assert.rejects(async () => {
      for (;;) {
        await cache.take();
        await sleep(5);
      }
    }, Unauthorized);
    assert.equal(cache.size, 0);
    await guarded.stop();
  });
});
