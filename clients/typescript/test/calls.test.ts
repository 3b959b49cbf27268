/** Every call, against a real server. */

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { type Keymill, type Keyspace, Taken, UnknownAlias } from "../src/index.js";
import { Deployment } from "./servers.js";

describe("calls", { timeout: 60_000 }, () => {
  const deployment = new Deployment();
  let keymill: Keymill;
  let links: Keyspace;

  before(async () => {
    await deployment.start();
    keymill = deployment.client();
    links = keymill.keyspace("links");
    await links.ensure();
  });
  after(async () => {
    await keymill.close();
    await deployment.stop();
  });

  it("takes keys, one and many, each once", async () => {
    const one = await links.take();
    const many = await links.takeMany(1_000);
    assert.match(one, /^[0-9A-Za-z]{7}$/);
    assert.equal(new Set([one, ...many]).size, 1_001);
  });

  it("takes the 100,000 keys that servers allow at once", async () => {
    const keys = await links.takeMany(100_000);
    assert.equal(new Set(keys).size, 100_000);
  });

  it("iterates over keys without end", async () => {
    const keys = new Set<string>();
    for await (const key of links.keys()) {
      keys.add(key);
      if (keys.size === 20) {
        break;
      }
    }
    assert.equal(keys.size, 20);
  });

  it("has the same key for the same input, and another in another scope", async () => {
    const urls = keymill.keyspace("urls");
    await urls.ensure({ kind: "digest", normalize: "url" });
    const first = await urls.digest("HTTPS://example.com:443/a/../b");
    assert.equal(first.made, true);
    assert.deepEqual(await urls.digest("https://example.com/b"), { key: first.key, made: false });
    assert.notEqual((await urls.digest("https://example.com/b", { scope: "bob" })).key, first.key);
    const many = await urls.digestMany(new Set(["https://a.example", "https://example.com/b", "https://ü.example/"]));
    assert.equal(many.length, 3);
    assert.equal(many[1], first.key);
  });

  it("adds, shows, lists and removes aliases, a page at a time", async () => {
    const names = Array.from({ length: 105 }, (_, number) => `alias-${String(number).padStart(3, "0")}`);
    for (const name of names) {
      assert.equal(await links.addAlias(name, { owner: "shop" }), true);
    }
    assert.equal(await links.addAlias("alias-000", { owner: "shop" }), false);
    await assert.rejects(links.addAlias("alias-000", { owner: "bob" }), Taken);
    const alias = await links.alias("alias-007");
    assert.deepEqual([alias.space, alias.alias, alias.owner], ["links", "alias-007", "shop"]);
    assert.ok(Math.abs(alias.createdAt.getTime() - Date.now()) < 60_000);
    const listed: string[] = [];
    for await (const each of links.aliases()) {
      listed.push(each.alias);
    }
    assert.deepEqual(listed, names);
    await links.removeAlias("alias-007", { owner: "shop" });
    await assert.rejects(links.alias("alias-007"), UnknownAlias);
    assert.equal((await links.explain("alias-007")).state, "skipped");
  });

  it("explains where a key came from", async () => {
    const found = await links.explain(await links.take());
    assert.deepEqual([found.space, found.state], ["links", "leased"]);
    assert.equal(typeof found.ordinal, "bigint");
    assert.ok(found.lease && found.lease.start <= (found.ordinal ?? -1n) && found.lease.holder.pid > 0);
    assert.equal((await links.explain("not/a key")).state, "invalid");
  });

  it("records the caller, and retires a key, where single keys are recorded", async () => {
    const vouchers = keymill.keyspace("vouchers", { caller: "shop & bob" });
    await vouchers.ensure({ audit: "key" });
    const key = await vouchers.take();
    const { used, state } = await vouchers.explain(key);
    assert.deepEqual([state, used?.caller], ["issued", "shop & bob"]);
    const retired = await vouchers.retire(key);
    assert.equal(retired.key, key);
    assert.ok(retired.retiredAt instanceof Date);
    assert.equal((await vouchers.explain(key)).state, "retired");
  });

  it("creates keyspaces with their settings, shows and lists them", async () => {
    const orders = keymill.keyspace("orders");
    const epoch = new Date("2026-01-01T00:00:00Z");
    const shape = { alphabet: "base32", length: 8, prefix: "ord_", group: 4, check: true, leaseSizeMin: 10 };
    const info = await orders.ensure({ ...shape, start: 2n ** 33n });
    assert.equal(info.next, 2n ** 33n);
    for (const [setting, value] of Object.entries(shape)) {
      assert.equal(info.definition[setting as keyof typeof shape], value, setting);
    }
    assert.match(await orders.take(), /^ord_[0-9A-Z]{4}-[0-9A-Z]{4}-[0-9A-Z]$/);
    const shown = await orders.show();
    assert.deepEqual([shown.name, shown.sealed, shown.capacity], ["orders", false, 32n ** 8n]);
    const ids = await keymill.keyspace("ids").ensure({ kind: "snowflake", epoch });
    assert.deepEqual([ids.definition.kind, ids.definition.epoch], ["snowflake", epoch]);
    const time = (await keymill.keyspace("ids").explain(await keymill.keyspace("ids").take())).time;
    assert.ok(time && Math.abs(time.getTime() - Date.now()) < 60_000);
    const names: string[] = [];
    for await (const each of keymill.keyspaces()) {
      names.push(each.name);
    }
    assert.ok(
      ["default", "ids", "links", "orders"].every((name) => names.includes(name)),
      names.join(),
    );
  });

  it("reads numbers that JavaScript would round", async () => {
    const info = await keymill.keyspace("long").ensure({ length: 10 });
    assert.equal(info.capacity, 62n ** 10n);
    assert.ok(info.capacity > BigInt(Number.MAX_SAFE_INTEGER));
  });

  it("sends names as they are, and refuses those that would change the path", async () => {
    const codes = await Promise.all(
      ["", ".", "..", "\ud800"].map((name) => links.explain(name).catch((error) => error.code)),
    );
    assert.deepEqual(codes, ["bad_path", "bad_path", "bad_path", "bad_path"]);
    assert.equal((await links.explain("a/../../b?c#d%2e")).key, "a/../../b?c#d%2e");
    assert.equal(await links.addAlias("a.b~c-d_e"), true);
  });
});
