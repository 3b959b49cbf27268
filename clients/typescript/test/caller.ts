/**
 * A program that takes keys from a cache at a fixed rate, and prints what it met.
 *
 *     caller.js RATE SECONDS FILE SERVERS    the keys go to FILE, one per line
 */

import { createWriteStream } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { Keymill } from "../src/index.js";

const [rate, seconds, file = "", servers] = process.argv.slice(2);
const TASKS = 4;
/** How often each task takes keys, in milliseconds. */
const EVERY = 20;

const errors: string[] = [];
let longest = 0;
let taken = 0;
const out = createWriteStream(file);
const keymill = new Keymill({ servers });
const links = keymill.keyspace("default").cached();

async function take(): Promise<void> {
  const began = performance.now();
  const perMillisecond = Number(rate) / TASKS / 1_000;
  const all = Math.round(Number(seconds) * 1_000 * perMillisecond);
  // What is late is made up for.
  for (let done = 0; done < all; ) {
    const due = Math.min(all, (performance.now() - began) * perMillisecond);
    for (; done < due; done++) {
      const started = performance.now();
      try {
        out.write(`${await links.take()}\n`);
        taken += 1;
      } catch (error) {
        errors.push(String(error));
      }
      longest = Math.max(longest, performance.now() - started);
    }
    await sleep(EVERY);
  }
}

await Promise.all(Array.from({ length: TASKS }, take));
await keymill.close();
await new Promise((resolve) => out.end(resolve));
console.log(
  JSON.stringify({ taken, errors: errors.slice(0, 10), errorCount: errors.length, longestMs: Math.round(longest) }),
);
