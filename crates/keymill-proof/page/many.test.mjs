// Two hundred keyspaces: the page shows some, finds all, and asks for little.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { LOOKS, launch, open, says } from "./browser.mjs";
import { load, serve } from "./server.mjs";

let server, browser, rest;
before(async () => {
  server = await serve();
  browser = await launch();
  const names = Array.from({ length: 199 }, (_, number) => `space-${String(number).padStart(3, "0")}`);
  for (const name of names) await server.ask("PUT", `/v1/spaces/${name}`, {});
  rest = load(server, ["space-150", "space-042"]);
});
after(async () => {
  await rest?.();
  await browser?.close();
  await server?.stop();
});

for (const look of LOOKS) test(`the busiest come first, more can be shown, and any is found, ${look.width} pixels, ${look.colorScheme}`, async () => {
  const page = await open(browser, `${server.url}/`, look);
  await says(page, "#spaces-count", /^200$/);
  const rows = page.locator("#spaces-rows tr");
  const few = look.width < 500 ? 6 : 12;
  assert.equal(await rows.count(), few);
  await page.waitForFunction(() => ["space-150", "space-042"].every(name => [...document.querySelectorAll("#spaces-rows th a")].slice(0, 2).some(it => it.textContent === name)), null, { timeout: 30000 });
  await page.inspect("many");
  await page.locator("#spaces-more").click();
  assert.equal(await rows.count(), 3 * few);
  await page.locator("#filter").fill("199");
  await says(page, "#spaces-state", /No keyspace/);
  await page.locator("#filter").fill("198");
  await says(page, "#spaces-count", /^1 of 200$/);
  await page.locator("#spaces-rows a").click();
  await says(page, "#space-name", /^space-198$/);
  await page.end();
});

test("of many leases, the newest are shown", async () => {
  await server.ask("PUT", "/v1/spaces/leased", { lease_size_min: 1, lease_size_max: 5 });
  for (let taken = 0; taken < 900; taken += 5) await server.ask("POST", "/v1/spaces/leased/keys?count=5");
  const read = async () => {
    const all = [];
    for (let after = ""; after !== undefined;) {
      const page = await server.ask("GET", `/v1/leases?space=leased&limit=100${after && `&after=${after}`}`);
      all.push(...page.leases);
      after = page.next ?? undefined;
    }
    return all;
  };
  // The last refill may still be on its way.
  let all = [], before = -1;
  while (all.length !== before) {
    before = all.length;
    await new Promise(resolve => setTimeout(resolve, 500));
    all = await read();
  }
  assert.ok(all.length > 150, `${all.length} leases are not many`);
  const page = await open(browser, `${server.url}/#/keyspace/leased`);
  const numbers = all.slice(-12).reverse().map(({ lease }) => lease.toLocaleString("en"));
  await page.waitForFunction(first => document.querySelector("#space-leases-rows th")?.textContent === first, numbers[0]);
  assert.deepEqual(await page.locator("#space-leases-rows th").allTextContents(), numbers);
  const asked = page.asked.filter(request => request.url().includes("/v1/leases"));
  assert.ok(asked.length < 20, `${asked.length} requests`);
  await page.end();
});

test("what is polled is little: activity every two seconds, the rest every ten, nothing while nobody looks", async () => {
  const page = await open(browser, `${server.url}/`);
  await says(page, "#spaces-count", /^20\d$/);
  await says(page, "#leases-rows", /open/);
  await page.evaluate(() => new Promise(resolve => setTimeout(resolve, 1000)));
  const count = async (milliseconds, path) => {
    const before = page.asked.length;
    await page.evaluate(milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds)), milliseconds);
    return page.asked.slice(before).filter(request => new URL(request.url()).pathname.startsWith(path)).length;
  };
  const [all, before] = [await count(10500, "/"), page.asked.slice()];
  const lately = path => before.slice(-all).filter(request => new URL(request.url()).pathname === path).length;
  assert.ok(lately("/v1/activity") >= 4 && lately("/v1/activity") <= 6, `${lately("/v1/activity")} of activity`);
  for (const path of ["/v1/spaces", "/v1/instances", "/readyz"]) assert.ok(lately(path) >= 1 && lately(path) <= 2, `${lately(path)} of ${path}`);
  assert.ok(lately("/v1/leases") <= 8, `${lately("/v1/leases")} of leases`);
  assert.ok(all <= 20, `${all} requests in ten seconds`);
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { get: () => true, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await count(1000, "/");
  assert.equal(await count(6000, "/"), 0, "nobody looks");
  const asked = page.waitForRequest(() => true);
  await page.evaluate(() => {
    delete document.hidden;
    document.dispatchEvent(new Event("visibilitychange"));
  });
  // Somebody looks again.
  await asked;
  await page.end();
});
