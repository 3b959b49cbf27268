// What the page says when something is wrong or missing, and what can be done about it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { LOOKS, launch, open, says, until } from "./browser.mjs";
import { load, serve } from "./server.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

for (const look of LOOKS) {
  const name = `${look.width} pixels, ${look.colorScheme}`;

  test(`problems come first, each with the command that mends it, ${name}`, async () => {
    const server = await serve();
    await server.ask("PUT", "/v1/spaces/tiny", { kind: "sequential", alphabet: "decimal", length: 1, blocklist: false });
    await server.ask("PUT", "/v1/spaces/coupons", { kind: "pooled", low_water: 10 });
    await server.ask("POST", "/v1/spaces/tiny/keys?count=10");
    await fetch(`${server.url}/v1/spaces/tiny/keys`, { method: "POST" });
    const page = await open(browser, `${server.url}/`, look);
    await says(page, "#problems", /tiny: all keys are leased/);
    await says(page, "#problems .mend", /keymill space grow tiny --length 2/);
    await says(page, "#problems .mend", /keymill pool fill coupons/);
    await says(page, "#pulse-text", /2 problems/);
    await page.locator("#problems .mend .copy").first().click();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^keymill /);
    await page.inspect("problems");
    await page.end();
    await server.stop();
  });

  test(`a server that does not answer is said so, and the figures stay, ${name}`, async () => {
    const server = await serve(), rest = load(server, ["default"]);
    const page = await open(browser, `${server.url}/`, { ...look, isOffline: true });
    await says(page, "#total-rate", /^[1-9]/);
    await rest();
    await server.stop();
    await says(page, "#unreachable", /does not answer.*figures below are from/);
    await says(page, "#spaces-rows", /default/);
    await says(page, "#pulse-text", /No answer/);
    await page.inspect("unreachable");
    const again = await serve({ data: server.data, listen: new URL(server.url).host });
    await page.waitForFunction(() => document.querySelector("#unreachable").hidden);
    await says(page, "#pulse-text", /Live|problem/);
    await page.end();
    await again.stop();
  });

  test(`what is missing or empty says what to do, ${name}`, async () => {
    const server = await serve();
    const page = await open(browser, `${server.url}/#/keyspace/nowhere`, { ...look, refusals: [404] });
    await says(page, "#space-state", /no keyspace `?nowhere`?/i);
    await page.inspect("unknown");
    await page.getByRole("link", { name: "Create it" }).click();
    assert.equal(await page.locator("#new-form [name=name]").inputValue(), "nowhere");
    await page.goto(`${server.url}/#/keyspace/default`);
    await says(page, "#aliases-state", /No alias yet/);
    await says(page, "#space-leases-state", /No lease yet/);
    await says(page, "#left-picture svg", /nothing leased yet/);
    await page.goto(`${server.url}/#/tokens`);
    await says(page, "#tokens-state", /No tokens: everybody/);
    await page.inspect("tokens-empty");
    // Every server has a keyspace, so an empty list cannot be had from one.
    await page.route("**/v1/spaces?*", route => route.fulfill({ json: { spaces: [] } }));
    await page.goto(`${server.url}/#/`);
    await page.reload();
    await says(page, "#spaces-state", /no keyspace yet.*keymill space create/);
    await page.inspect("empty");
    await page.end();
    await server.stop();
  });
}

test("the command of each card, copied as it is, mends what the card is about", async () => {
  const server = await serve();
  await server.ask("PUT", "/v1/spaces/tiny", { kind: "sequential", alphabet: "decimal", length: 1, blocklist: false });
  await server.ask("POST", "/v1/spaces/tiny/keys?count=10");
  await server.ask("PUT", "/v1/spaces/coupons", { kind: "pooled", low_water: 10 });
  await server.ask("PUT", "/v1/spaces/vouchers", { kind: "pooled" });
  for (const name of ["tiny", "vouchers"]) await fetch(`${server.url}/v1/spaces/${name}/keys`, { method: "POST" });
  const page = await open(browser, `${server.url}/`);
  await says(page, "#pulse-text", /^3 problems$/);
  await says(page, "#problems", /vouchers: the pool is empty/);
  const buttons = await page.locator("#problems .mend .copy").all();
  const commands = [];
  for (const button of buttons) {
    await button.click();
    commands.push(await page.evaluate(() => navigator.clipboard.readText()));
  }
  assert.deepEqual([...commands].sort(), ["keymill pool fill coupons --count 100000", "keymill pool fill vouchers --count 100000", "keymill space grow tiny --length 2"]);
  for (const text of commands) server.command(...text.split(" ").slice(1));
  await page.reload();
  // At its rate, even the longer keys of `tiny` will not last: that is another card, with another command.
  const left = () => page.locator("#problems .mend code").allTextContents();
  await says(page, "#pulse-text", /Live|problem/);
  await until(async () => !(await left()).some(text => commands.includes(text)), left);
  await page.end();
  await server.stop();
});

test("a store that is not safe has one card, which names the setting", async () => {
  const server = await serve();
  const page = await open(browser, "about:blank");
  await page.route("**/readyz", route => route.fulfill({ json: { ready: true, problems: [{ code: "unsafe_store", detail: "the store is not safe to lease from" }] } }));
  await page.route("**/v1/store", route => route.fulfill({ json: { kind: "sqlite", findings: [{ verdict: "unsafe", setting: "synchronous", found: "off", wanted: "full" }] } }));
  await page.goto(`${server.url}/`);
  await says(page, "#problems", /synchronous is off, and should be full/);
  // As it is asked every ten seconds.
  await page.evaluate("pollProblems()");
  assert.equal(await page.locator("#problems .problem").count(), 1);
  await says(page, "#pulse-text", /^1 problem$/);
  await page.context().close();
  await server.stop();
});

test("without its script, the page says what to do", async () => {
  const server = await serve();
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(`${server.url}/`);
  assert.match(await page.locator("noscript").textContent(), /keymill --help/);
  await context.close();
  await server.stop();
});
