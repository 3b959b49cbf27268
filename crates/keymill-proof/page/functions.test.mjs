// Every function of the page, at two widths and in both colours: by whoever needs no token, and by an administrator who has
// signed in.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { LOOKS, launch, open, says, signIn } from "./browser.mjs";
import { furnish, load, needsToken, serve } from "./server.mjs";

// The ways in. What a session changes has nothing to do with looks, so that it is tried in two of them.
const WAYS = [
  { name: "without tokens", looks: LOOKS },
  { name: "signed in", looks: LOOKS.filter(({ width, colorScheme }) => (width === 1280) === (colorScheme === "light")), isSignedIn: true },
];

let browser;
before(async () => {
  browser = await launch();
  for (const way of WAYS) await prepare(way);
});
after(async () => {
  for (const way of WAYS) await way.rest?.();
  await browser?.close();
  for (const way of WAYS) await way.server?.stop();
});

async function prepare(way) {
  const server = await serve();
  way.server = server;
  if (way.isSignedIn) {
    way.token = server.command("token", "create", "admin", "--allow", "admin:*");
    await needsToken(server);
    const page = await open(browser, `${server.url}/`);
    await signIn(page, way.token);
    await says(page, "#session-name", /admin/);
    way.session = await page.context().storageState();
    await page.end();
  }
  way.ask = (method, path, body) => server.ask(method, path, body, way.token);
  await furnish(server, way.token);
  way.rest = load(server, ["links", "orders", "events"], way.token);
}

const each = (name, run) => {
  for (const way of WAYS) for (const look of way.looks) test(`${name}, ${way.name}, ${look.width} pixels, ${look.colorScheme}`, async () => {
    const page = await open(browser, `${way.server.url}/`, { ...look, session: way.session });
    // Those views look the same to both.
    if (way.isSignedIn) page.inspect = async () => {};
    await run(page, { url: way.server.url, ask: way.ask });
    if (way.isSignedIn) await says(page, "#session-name", /admin/);
    await page.end();
  });
};

each("the overview shows live rates and latencies, what is left, instances and leases", async (page, server) => {
  await says(page, "#total-rate", /^[1-9]/);
  await says(page, "#tile-p99", /\d.*s$/);
  await says(page, "#tile-ready", /\d/);
  await says(page, "#pulse-text", /Live|problem/);
  const row = page.locator("#spaces-rows tr", { hasText: "links" });
  await row.locator(".parts .leased").waitFor({ state: "attached" });
  assert.ok(Number(await row.locator(".parts .leased").getAttribute("width")) > 0, "leased keys are seen, few as they are");
  await page.waitForFunction(() => document.querySelector("#total-chart .area").getAttribute("d")?.length > 30);
  await page.waitForFunction(() => document.querySelector("#spaces-rows .spark .line").getAttribute("d")?.length > 10);
  await says(page, "#instances-rows", /seen/);
  await page.waitForFunction(() => document.querySelector("#instances-rows .beats .line").getAttribute("d"));
  await says(page, "#instances-rows td", /^\d.*a second/);
  await says(page, "#leases-rows", /open/);
  assert.match(await page.locator("#total-chart title").textContent(), /keys per second; highest/);
  await page.inspect("overview");
});

each("a key is explained without naming its keyspace, and keys that were taken are explained", async (page, server) => {
  const { keys: [key] } = await server.ask("POST", "/v1/spaces/orders/keys", {});
  await says(page, "#spaces-rows", /orders/);
  const explain = page.locator("#view-overview .explain-form");
  await explain.locator("[name=key]").fill(key.toLowerCase());
  await explain.getByRole("button", { name: "Explain" }).click();
  await says(page, "#view-overview .explanation", /leased/);
  await says(page, "#view-overview .explanation", /held by/);
  assert.equal(await explain.locator(".explanation .key").first().textContent(), key, "in its canonical form");
  const take = page.locator("#view-overview .take-form");
  await take.locator("[name=space]").fill("tickets");
  await take.locator("[name=count]").fill("3");
  await take.getByRole("button", { name: "Take" }).click();
  await take.locator(".keys li").nth(2).waitFor();
  const taken = await take.locator(".keys code").allTextContents();
  assert.equal(new Set(taken).size, 3, `${taken}`);
  await take.getByRole("button", { name: `Explain ${taken[1]}` }).click();
  await page.waitForFunction(key => document.querySelector("#view-overview .explanation .key").textContent === key, taken[1]);
  await take.getByRole("button", { name: `Copy ${taken[0]}` }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), taken[0]);
  await page.inspect("keys");
  page.expectRefusals(404);
  await take.locator("[name=space]").fill("nowhere");
  await take.getByRole("button", { name: "Take" }).click();
  await says(page, "#view-overview .take-form .note", /no keyspace `?nowhere`?/i);
});

each("keyspaces are filtered, and a filter that fits none says so", async (page, server) => {
  await says(page, "#spaces-count", /^8$/);
  await page.locator("#filter").fill("snow");
  await says(page, "#spaces-count", /^1 of 8$/);
  assert.deepEqual(await page.locator("#spaces-rows th a").allTextContents(), ["events"]);
  await page.locator("#filter").fill("zzz");
  await says(page, "#spaces-state", /No keyspace has “zzz”/);
  await page.inspect("filter-empty");
  await page.getByRole("button", { name: "Clear the filter" }).click();
  await says(page, "#spaces-count", /^8$/);
});

each("a keyspace shows its charts, what is left, its leases and settings, and stays after a reload", async (page, server) => {
  await page.locator("#spaces-rows a", { hasText: "links" }).click();
  await page.waitForURL(/#\/keyspace\/links$/);
  await page.reload();
  await says(page, "#space-name", /^links$/);
  await says(page, "#space-rate", /^[1-9]/);
  await says(page, "#space-latency", /\d.*s median.*\d.*s 99th percentile/);
  await page.waitForFunction(() => document.querySelectorAll("#latency-chart .line")[1].getAttribute("d")?.length > 10);
  await says(page, "#left-picture svg", /in use or leased/);
  await says(page, "#left-figures", /1 in /);
  await says(page, "#left-figures", /keys per second, as now/);
  await says(page, "#space-leases-rows", /open/);
  await says(page, "#settings", /base62/);
  await page.inspect("keyspace");
});

each("aliases are added, refused and removed", async (page, server) => {
  const alias = `sale-${page.look}`;
  await page.goto(`${server.url}/#/keyspace/links`);
  await says(page, "#aliases-rows", /summer-sale/);
  await page.locator("#alias-form [name=alias]").fill(alias);
  await page.locator("#alias-form [name=owner]").fill("ann");
  await page.locator("#alias-form [name=owner]").press("Enter");
  await says(page, "#alias-result", /is reserved/);
  await says(page, "#aliases-rows", new RegExp(alias));
  page.expectRefusals(409);
  await page.locator("#alias-form [name=alias]").fill("summer-sale");
  await page.getByRole("button", { name: "Add" }).click();
  await says(page, "#alias-result .bad", /summer-sale/);
  await page.getByRole("button", { name: `Remove ${alias}` }).click();
  await page.locator("#ask-no").click();
  await says(page, "#aliases-rows", new RegExp(alias));
  await page.getByRole("button", { name: `Remove ${alias}` }).click();
  await page.inspect("alias-dialog");
  await page.locator("#ask-yes").click();
  await says(page, "#alias-result", /is removed/);
  await page.waitForFunction(alias => !document.querySelector("#aliases-rows").textContent.includes(alias), alias);
});

each("a pool shows its level and is filled with progress", async (page, server) => {
  await page.goto(`${server.url}/#/keyspace/coupons`);
  await says(page, "#pool-level", /keys available; filled by itself below 100/);
  const { available } = await server.ask("GET", "/v1/spaces/coupons");
  await page.locator("#pool-form [name=count]").fill("30000");
  await page.locator("#pool-fill").click();
  await says(page, "#pool-progress", /of 30,000 keys/);
  await says(page, "#pool-result", /Added 30,000 keys/);
  assert.ok((await server.ask("GET", "/v1/spaces/coupons")).available >= available + 29000);
  await page.inspect("pool");
});

each("digests, snowflake IDs and UUIDs have views of their own", async (page, server) => {
  await page.goto(`${server.url}/#/keyspace/pages`);
  const input = `https://example.com/${page.look}`;
  await page.locator("#space-take [name=input]").fill(input);
  await page.getByRole("button", { name: "Get its key" }).click();
  await says(page, "#space-take .result", /yours alone/);
  const key = await page.locator("#space-take .keys code").textContent();
  await page.locator("#space-take [name=input]").fill(input.replace("https:", "HTTPS:"));
  await page.getByRole("button", { name: "Get its key" }).click();
  await says(page, "#space-take .result", /same key as before/);
  assert.equal(await page.locator("#space-take .keys code").textContent(), key);
  await page.goto(`${server.url}/#/keyspace/events`);
  await says(page, "#left-figures", /Timestamps end/);
  await page.inspect("snowflake");
  await page.goto(`${server.url}/#/keyspace/sessions`);
  await says(page, "#left-figures", /not counted/);
  assert.equal(await page.locator("#aliases-panel").isVisible(), false);
});

each("a keyspace is created with a preview that is true, and sealed", async (page, server) => {
  const name = `new-${page.look}`;
  await page.goto(`${server.url}/#/new`);
  await says(page, "#preview-keys", /[0-9A-Za-z]{7}/);
  await page.locator("#new-form [name=name]").fill(name);
  await page.locator("#new-form [name=alphabet]").selectOption("base32");
  await page.locator("#new-form [name=prefix]").fill("ord_");
  await page.locator("#new-form [name=group]").fill("4");
  await page.locator("#new-form [name=check]").check();
  await page.locator("#new-length").fill("8");
  await says(page, "#preview-keys", /ord_[0-9A-Z]{4}-[0-9A-Z]{4}-[0-9A-Z]/);
  await says(page, "#preview-capacity", /^1\.1T$/);
  const lasts = await page.locator("#preview-lasts").textContent();
  await page.locator("#preview-rate").fill("50");
  await page.waitForFunction(lasts => document.querySelector("#preview-lasts").textContent !== lasts, lasts);
  await says(page, "#preview-command", new RegExp(`space create ${name} --alphabet base32 --length 8 --prefix ord_ --group 4 --check`));
  await page.inspect("new");
  page.expectRefusals(400);
  await page.locator("#new-length").fill("1");
  await says(page, "#preview-problem", /allow only 32 keys/);
  await page.inspect("new-refused");
  await page.locator("#new-length").fill("8");
  await says(page, "#preview-keys", /ord_/);
  for (const kind of ["uuid", "snowflake", "digest", "pooled", "sequential", "shuffled"]) {
    await page.locator(`#new-form [value=${kind}]`).check();
    await page.waitForResponse(answer => answer.url().endsWith("/v1/preview") && answer.ok());
  }
  await page.getByRole("button", { name: "Create keyspace" }).click();
  await page.waitForURL(new RegExp(`#/keyspace/${name}$`));
  await page.locator("#space-take").getByRole("button", { name: "Take" }).click();
  await says(page, "#space-take .keys", /ord_[0-9A-Z]{4}-[0-9A-Z]{4}-[0-9A-Z]/);
  await page.getByRole("button", { name: "Seal this keyspace" }).click();
  assert.equal(await page.locator("#ask-yes").isDisabled(), true, "the name must be typed");
  await page.inspect("seal-dialog");
  await page.locator("#ask-text").fill(name);
  await page.locator("#ask-yes").click();
  await says(page, "#space-format", /sealed/);
  assert.equal((await server.ask("GET", `/v1/spaces/${name}`)).sealed, true);
  page.expectRefusals(409);
  await page.locator("#space-take").getByRole("button", { name: "Take" }).click();
  await says(page, "#space-take .note", /sealed/);
});

test("colours follow the system, and the button changes them for good", async () => {
  const page = await open(browser, `${WAYS[0].server.url}/`, { colorScheme: "light" });
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await page.locator("#theme").click();
  const dark = await paper();
  assert.notEqual(dark, light);
  await page.reload();
  assert.equal(await paper(), dark);
  await page.locator("#theme").click();
  assert.equal(await paper(), light);
  await page.end();
});
