// Several instances on one store: the page says of which its figures are.

import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { after, before, test } from "node:test";
import { LOOKS, launch, open, says, until } from "./browser.mjs";
import { load, serve } from "./server.mjs";

let browser, one, other, rest;
before(async () => {
  browser = await launch();
  one = await serve();
  other = await serve({ data: one.data });
  rest = load(other, ["default"]);
});
after(async () => {
  await rest?.();
  await browser?.close();
  await one?.stop();
  await other?.stop();
});

// Sends what is asked of each path to one instance and the other in turn, as a load balancer does.
async function balance(...servers) {
  const turns = new Map();
  const balancer = createServer((given, answer) => {
    const { pathname } = new URL(given.url, "http://localhost"), turn = turns.get(pathname) || 0;
    turns.set(pathname, turn + 1);
    const asked = request(new URL(given.url, servers[turn % servers.length].url), { method: given.method, headers: given.headers }, got => {
      answer.writeHead(got.statusCode, got.headers);
      got.pipe(answer);
    });
    asked.on("error", () => answer.destroy());
    given.pipe(asked);
  });
  await new Promise(resolve => balancer.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${balancer.address().port}`, close: () => (balancer.closeAllConnections(), balancer.close()) };
}

const scopes = page => page.locator(".view:visible .scope").allTextContents();
const instanceRows = page => page.locator("#instances-rows tr").allTextContents();

for (const look of LOOKS) test(`at the address of one instance, its figures are said to be its own, ${look.width} pixels, ${look.colorScheme}`, async () => {
  const page = await open(browser, `${one.url}/`, look);
  await says(page, "#instances-count", /^2 live$/);
  await says(page, "#view-overview .scope", /^this instance, 1 of 2$/);
  assert.deepEqual(new Set(await scopes(page)), new Set(["this instance, 1 of 2"]));
  // The other one hands out keys, and this one has not been asked for any.
  await says(page, "#total-rate", /^0$/);
  await page.inspect("one-of-two");
  await page.goto(`${one.url}/#/keyspace/default`);
  await says(page, "#view-keyspace .scope", /^this instance, 1 of 2$/);
  await page.end();
});

test("behind a load balancer, the figures are those of all instances", async () => {
  const balancer = await balance(one, other);
  const page = await open(browser, `${balancer.url}/`);
  await says(page, "#total-rate", /^[1-9]/);
  await until(async () => (await instanceRows(page)).filter(row => /a second/.test(row)).length === 2, () => instanceRows(page));
  await until(async () => (await scopes(page)).every(text => text === ""), () => scopes(page));
  await page.end();
  balancer.close();
});

test("an instance that has stopped is not counted any more", async () => {
  const third = await serve({ data: one.data });
  const page = await open(browser, `${one.url}/`);
  await says(page, "#view-overview .scope", /^this instance, 1 of 3$/);
  await third.stop();
  await until(async () => (await scopes(page)).every(text => text === "this instance, 1 of 2"), () => scopes(page));
  await page.end();
});
