/** Three servers on one store are killed and started again in turn, then all are down for ten seconds. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { Deployment, watch } from "./servers.js";

const CALLER = fileURLToPath(new URL("caller.js", import.meta.url));
/** Two processes of this take what is 1,700 keys a second in all. */
const RATE = 850;
const SECONDS = 26;
const DOWN = 10_000;

interface Met {
  readonly taken: number;
  readonly errors: string[];
  readonly errorCount: number;
  readonly longestMs: number;
}

async function said(caller: ChildProcess): Promise<Met> {
  let text = "";
  caller.stdout?.on("data", (some: Buffer) => {
    text += some;
  });
  await once(caller, "exit");
  return JSON.parse(text) as Met;
}

describe("outages", { timeout: 80_000 }, () => {
  const deployment = new Deployment();
  before(async () => {
    for (let count = 0; count < 3; count++) {
      await deployment.start();
    }
  });
  after(() => deployment.stop());

  it("has no caller see an error, and no key come twice", async () => {
    const files = ["first", "second"].map((name) => join(deployment.folder, name));
    const callers = files.map((file) => {
      const options = [CALLER, String(RATE), String(SECONDS), file, deployment.urls.join()];
      return watch(spawn(process.execPath, options, { stdio: ["ignore", "pipe", "inherit"] }));
    });
    const results = callers.map(said);
    const areRunning = () => callers.every((caller) => caller.exitCode === null && caller.signalCode === null);
    await sleep(1_500);
    for (const server of deployment.instances) {
      await server.kill();
      await sleep(900);
      await server.start();
      await sleep(900);
    }
    assert.ok(areRunning(), "they are to take keys through all of it");
    await Promise.all(deployment.instances.map((server) => server.kill()));
    await sleep(DOWN);
    assert.ok(areRunning(), "they are to take keys through all of it");
    await Promise.all(deployment.instances.map((server) => server.start()));
    const met = await Promise.all(results);
    const keys = files.flatMap((file) => readFileSync(file, "utf8").trimEnd().split("\n"));
    console.log(`${keys.length} keys; ${JSON.stringify(met)}`);
    for (const { taken, errorCount, errors } of met) {
      assert.equal(errorCount, 0, errors.join("\n"));
      assert.ok(taken >= RATE * SECONDS * 0.9, `they were held up: ${taken}`);
    }
    assert.equal(new Set(keys).size, keys.length, "no key twice");
  });
});
