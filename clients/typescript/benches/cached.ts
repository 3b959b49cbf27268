/**
 * How fast keys are taken: from a cache, one after the other and by a promise each, and from a server.
 *
 *     KEYMILL_SERVER=http://127.0.0.1:8080 node build/benches/cached.js
 *
 * Fetches are waited for outside of the time that is measured.
 */

import { setTimeout as sleep } from "node:timers/promises";

import type { CachedKeyspace } from "../src/index.js";
import { Keymill } from "../src/index.js";

const ROUNDS = 7;
const COUNT = 80_000;

const keymill = new Keymill();
const keyspace = keymill.keyspace("default");

/** The median of several rounds, each with a new cache that is full. */
async function measure(name: string, takeAll: (cache: CachedKeyspace) => Promise<void>): Promise<void> {
  const rates: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const cache = keyspace.cached({ keysMin: 100_000 });
    while (cache.size <= COUNT) {
      cache.tryTake();
      await sleep(5);
    }
    const started = performance.now();
    await takeAll(cache);
    rates.push(COUNT / (performance.now() - started));
    cache.close();
  }
  rates.sort((a, b) => a - b);
  const median = (rates[Math.floor(ROUNDS / 2)] ?? 0) / 1_000;
  console.log(`${name.padEnd(34)} ${median.toFixed(2)} million keys a second`);
}

await measure("cached, tryTake()", async (cache) => {
  for (let taken = 0; taken < COUNT; taken++) {
    cache.tryTake();
  }
});
await measure("cached, await take()", async (cache) => {
  for (let taken = 0; taken < COUNT; taken++) {
    await cache.take();
  }
});

for (const tasks of [1, 64]) {
  const count = 3_000;
  const started = performance.now();
  const take = async () => {
    for (let taken = 0; taken < count / tasks; taken++) {
      await keyspace.take();
    }
  };
  await Promise.all(Array.from({ length: tasks }, take));
  const rate = Math.round((count / (performance.now() - started)) * 1_000);
  console.log(`${`one request each, ${tasks} at a time`.padEnd(34)} ${rate} keys a second`);
}
await keymill.close();
