/** The arithmetic of a cache, without servers. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { checkCacheSettings } from "../src/cache-settings.js";
import { Demand } from "../src/demand.js";
import { Stock } from "../src/stock.js";

const settings = checkCacheSettings({});
const target = (demand: Demand, lifetime = settings.maxAge) => demand.target(settings, lifetime);

describe("demand", () => {
  it("is half a minute at the present rate, within its bounds", () => {
    const demand = new Demand(0);
    assert.equal(target(demand), 32, "at rest");
    for (let second = 1; second <= 60; second++) {
      demand.sample(second * 1_000, second * 1_000);
    }
    assert.ok(target(demand) >= 29_900 && target(demand) <= 30_000, String(target(demand)));
    assert.ok(target(demand, 2_000) <= 1_000, "what lives for two seconds is held for one");
    for (let second = 61; second <= 120; second++) {
      demand.sample(60_000 + (second - 60) * 50_000, second * 1_000);
    }
    assert.equal(target(demand), 100_000, "no more, however fast");
    demand.sample(3_060_000, 720_000);
    assert.equal(target(demand), 32, "at rest again");
  });

  it("fetches ahead in the first second of a flood", () => {
    const demand = new Demand(0);
    demand.sample(5_000, 1_000);
    assert.ok(target(demand) > 15_000, String(target(demand)));
  });

  it("doubles the fetch for a burst too short to measure, until it suffices", () => {
    const demand = new Demand(0);
    demand.sample(32, 1);
    let fetched = 32;
    for (const expected of [64, 128, 256]) {
      demand.ranDry(fetched);
      fetched = target(demand);
      assert.equal(fetched, expected);
    }
    for (const expected of [128, 64, 32, 32]) {
      demand.sufficed();
      assert.equal(target(demand), expected);
    }
  });
});

describe("stock", () => {
  it("hands out each key once, the oldest first, and calls when it is low", () => {
    let calls = 0;
    const stock = new Stock(() => {
      calls += 1;
    });
    const now = performance.now();
    stock.add(["a", "b"], now, 60_000);
    stock.add(["c", "d", "e"], now, 60_000);
    stock.setMark(2);
    const drawn = [stock.draw(), stock.draw()];
    assert.deepEqual([drawn, calls, stock.left(now), stock.batchCount], [["a", "b"], 0, 3, 1]);
    assert.deepEqual([stock.draw(), calls], ["c", 1]);
    assert.deepEqual([stock.draw(), stock.draw(), stock.draw(), calls], ["d", "e", undefined, 1]);
    assert.equal(stock.drawn, 5);
  });

  it("does not hand out keys that have ended, and calls because they are gone", async () => {
    let calls = 0;
    const stock = new Stock(() => {
      calls += 1;
    });
    stock.add(["a", "b"], performance.now(), 20);
    stock.add(["c"], performance.now(), 60_000);
    stock.setMark(1);
    await sleep(25);
    assert.equal(stock.left(performance.now()), 1);
    assert.deepEqual([stock.draw(), stock.draw(), calls, stock.drawn], ["c", undefined, 1, 1]);
    stock.add(["d"], performance.now(), 60_000);
    stock.clear();
    assert.equal(stock.draw(), undefined);
  });
});
