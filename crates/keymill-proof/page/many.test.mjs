// Two hundred keyspaces: the page shows some, finds all, and asks for little.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { LOOKS, launch, open, says, until } from "./browser.mjs";
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

test("among many keyspaces with keys of the same form, it is said which were not asked about a key", async () => {
  const { keys: [key] } = await server.ask("POST", "/v1/spaces/space-180/keys", {});
  const page = await open(browser, `${server.url}/`);
  await says(page, "#spaces-count", /^200$/);
  const explain = page.locator("#view-overview .explain-form");
  await explain.locator("[name=key]").fill(key);
  await explain.getByRole("button", { name: "Explain" }).click();
  await says(page, "#view-overview .explain-form .note", /^180 keyspaces with keys of this form were not asked\. The key may belong to one of them/);
  // One that does not answer is not the end of it.
  page.expectRefusals(503);
  await page.route("**/v1/spaces/space-000/keys/*", route => route.fulfill({ status: 503, json: { code: "store_unavailable", detail: "the store is unreachable" } }));
  await explain.getByRole("button", { name: "Explain" }).click();
  await says(page, "#view-overview .explain-form .note", /were not asked, and 1 did not answer/);
  await explain.locator("[name=space]").fill("space-180");
  await explain.getByRole("button", { name: "Explain" }).click();
  // What the others have said goes first.
  await explain.locator(".note").waitFor({ state: "detached" });
  await says(page, "#view-overview .explanation", /leased/);
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
  const page = await open(browser, `${server.url}/#/keyspace/leased`);
  // The last refill may still be on its way, so the page is compared with the server until both have it.
  const newest = async () => (await read()).slice(-12).reverse().map(({ lease }) => lease.toLocaleString("en"));
  const shown = () => page.locator("#space-leases-rows th").allTextContents();
  await until(async () => isDeepStrictEqual(await shown(), await newest()), async () => `${await shown()}, not ${await newest()}`);
  const count = (await read()).length;
  assert.ok(count > 150, `${count} leases are not many`);
  const asked = page.asked.filter(request => request.url().includes("/v1/leases"));
  assert.ok(asked.length < 20, `${asked.length} requests`);
  await page.end();
});

test("the page stays responsive while figures of many keyspaces come in", async () => {
  for (const { name } of (await server.ask("GET", "/v1/spaces?limit=500")).spaces) await server.ask("POST", `/v1/spaces/${name}/keys`);
  const page = await open(browser, `${server.url}/`);
  await says(page, "#spaces-count", /^20\d$/);
  await page.locator("#spaces-more").click();
  // What keeps Chromium from drawing and from answering, beyond 50 ms at a time.
  await page.evaluate(() => {
    globalThis.delays = [];
    new PerformanceObserver(list => delays.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: "longtask" });
  });
  for (let polls = 0; polls < 6; polls++) await page.waitForResponse(answer => answer.url().includes("/v1/activity") && answer.ok());
  const delays = await page.evaluate(() => delays);
  // Some tens of milliseconds are usual. A machine with other work may take ten times as long; a page that hangs, longer.
  assert.ok(delays.every(duration => duration < 1500), `delays of ${delays.map(Math.round)} ms`);
  // A delay is noticed.
  await page.evaluate(() => setTimeout(() => {
    const end = Date.now() + 200;
    while (Date.now() < end);
  }));
  await page.waitForFunction(() => delays.some(duration => duration > 150));
  await page.end();
});

test("what is polled is little: activity every two seconds, the rest every ten, nothing while nobody looks", async () => {
  const page = await open(browser, "about:blank");
  // The clock of the page is the test's, so that it is exact how often it asks.
  await page.clock.install();
  await page.goto(`${server.url}/`);
  await says(page, "#spaces-count", /^20\d$/);
  await says(page, "#leases-rows", /open/);
  await page.clock.pauseAt(Date.now() + 1000);
  // Half a second goes by, and what was asked is answered.
  const pass = async seconds => {
    const before = page.asked.length;
    for (let halves = 0; halves < 2 * seconds; halves++) {
      await page.clock.runFor(500);
      await until(() => page.evaluate("TASKS.every(task => !task.isRunning)"), () => "a poll does not end");
    }
    return page.asked.slice(before).map(request => new URL(request.url()).pathname);
  };
  await pass(10);
  const asked = await pass(120), times = path => asked.filter(it => it === path).length;
  assert.deepEqual(["/v1/activity", "/v1/spaces", "/v1/instances", "/readyz", "/v1/store"].map(times), [60, 12, 12, 12, 1]);
  assert.ok(times("/v1/leases") <= 8 * 12, `${times("/v1/leases")} of leases`);
  assert.deepEqual([...new Set(asked)].sort(), ["/readyz", "/v1/activity", "/v1/instances", "/v1/leases", "/v1/spaces", "/v1/store"]);
  const look = isHidden => page.evaluate(isHidden => {
    Object.defineProperty(document, "hidden", { get: () => isHidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
  await look(true);
  assert.deepEqual(await pass(60), [], "nobody looks");
  await look(false);
  assert.ok((await pass(1)).length > 0, "somebody looks again");
  await page.context().close();
});
