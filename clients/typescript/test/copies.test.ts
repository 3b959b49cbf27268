/** A cache is never copied: by a message, a clone, a worker or another process. And it keeps no process running. */

import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { after, before, describe, it } from "node:test";
import { inspect } from "node:util";
import { deserialize, serialize } from "node:v8";
import { MessageChannel, receiveMessageOnPort } from "node:worker_threads";

import { Scripted } from "./scripted.js";
import { Deployment, watch } from "./servers.js";

const PROGRAM = new URL("copies.js", import.meta.url).pathname;

describe("copies", { timeout: 60_000 }, () => {
  const deployment = new Deployment();
  before(() => deployment.start());
  after(() => deployment.stop());

  it("is nothing that can be cloned, sent, written or printed with its keys", async () => {
    const keymill = deployment.client({ token: "km_secret" });
    const cache = keymill.keyspace("default").cached();
    const keys = [await cache.take()];
    const { port1, port2 } = new MessageChannel();
    port1.postMessage(cache);
    const copies = [
      structuredClone(cache),
      receiveMessageOnPort(port2)?.message,
      deserialize(serialize(cache)),
      { ...cache },
      Object.assign({}, cache),
    ];
    port1.close();
    for (const copy of copies) {
      assert.deepEqual(copy, {});
    }
    const texts = [inspect(cache, { showHidden: true, depth: 9 }), JSON.stringify(cache), String(cache)];
    assert.equal(texts[0], "CachedKeyspace(default, on, 31 keys)");
    assert.equal(texts[1], '{"keyspace":"default","atHand":31}');
    while (cache.size > 0) {
      keys.push(cache.tryTake() ?? "");
    }
    assert.ok(keys.every((key) => key !== "" && !texts.some((text) => text.includes(key))));
    await keymill.close();
  });

  for (const kind of ["cluster", "worker_threads", "fork"]) {
    it(`starts afresh with ${kind}, and no key comes twice`, async () => {
      const child = watch(fork(PROGRAM, [kind, ...deployment.urls], { silent: true }));
      let complaint = "";
      child.stderr?.on("data", (text: Buffer) => {
        complaint += text;
      });
      const [result] = (await Promise.race([once(child, "message"), once(child, "exit").then(() => [])])) as [
        { counts: number[]; distinct: number }?,
      ];
      assert.ok(result, complaint);
      assert.deepEqual(result.counts, [2_000, 500, 500, 500], complaint);
      assert.equal(result.distinct, 3_500);
    });
  }

  it("keeps no process running: with keys, while it fetches, and while no server can be reached", async () => {
    const hanging = await Scripted.start(() => ({ hang: true }));
    const gone = await Scripted.start(() => ({}));
    const goneUrl = gone.url;
    await gone.stop();
    for (const [what, url] of [
      ["filled", deployment.urls[0]],
      ["failing", goneUrl],
      ["fetching", hanging.url],
    ] as const) {
      const child = watch(fork(PROGRAM, [what, url ?? ""], { silent: true }));
      await once(child, "message");
      const started = performance.now();
      child.disconnect();
      const [code] = await once(child, "exit");
      assert.equal(code, 0, what);
      assert.ok(performance.now() - started < 5_000, `${what}: ${performance.now() - started} ms`);
    }
    await hanging.stop();
  });
});
