/**
 * The programs of `copies.test`. The first argument says which, the others are servers.
 *
 * - `cluster`, `worker_threads`, `fork`: fills a cache, starts three more of its kind that take 500 keys each from caches of
 *   their own, takes 2,000 keys itself meanwhile, and sends how many there were and how many of them are distinct.
 * - `filled`, `failing`, `fetching`: says that a cache is so, and does nothing more.
 */

import { type ChildProcess, fork } from "node:child_process";
import cluster from "node:cluster";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

import { Keymill } from "../src/index.js";

const FILE = fileURLToPath(import.meta.url);
const [kind = "", ...servers] = isMainThread ? process.argv.slice(2) : (workerData as string[]);
const isAlone = ["filled", "failing", "fetching"].includes(kind);
const keymill = new Keymill({ servers, ...(isAlone ? { timeout: 500 } : {}) });
const cache = keymill.keyspace("default").cached();

/** Keys one after the other, with pauses in which everybody else takes theirs. */
async function take(count: number): Promise<string[]> {
  const keys: string[] = [];
  while (keys.length < count) {
    keys.push(await cache.take());
    if (keys.length % 50 === 0) {
      await sleep(1);
    }
  }
  return keys;
}

/** Starts another one of its kind, and returns the keys that it sends. */
async function other(): Promise<string[]> {
  let from: Worker | ChildProcess;
  if (kind === "cluster") {
    from = cluster.fork().process;
  } else if (kind === "fork") {
    from = fork(FILE, ["child", ...servers]);
  } else {
    from = new Worker(FILE, { workerData: ["child", ...servers] });
  }
  // A cluster has messages of its own.
  for (;;) {
    const [message] = await once(from, "message");
    if (Array.isArray(message)) {
      return message;
    }
  }
}

if (kind === "child" || cluster.isWorker) {
  const keys = await take(500);
  if (parentPort === null) {
    process.send?.(keys);
    process.disconnect();
  } else {
    parentPort.postMessage(keys);
  }
} else if (!isAlone) {
  await cache.take();
  const all = await Promise.all([take(2_000), other(), other(), other()]);
  const counts = all.map((keys) => keys.length);
  process.send?.({ counts, distinct: new Set(all.flat()).size });
  process.disconnect();
} else {
  cache.tryTake();
  while (kind === "filled" ? cache.size === 0 : kind === "failing" && cache.status().state !== "failing") {
    await sleep(10);
  }
  await sleep(100);
  process.send?.("ready");
}
