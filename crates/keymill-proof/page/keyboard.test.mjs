// The page by keyboard alone.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open, says } from "./browser.mjs";
import { furnish, serve } from "./server.mjs";

let server, browser;
before(async () => {
  server = await serve();
  browser = await launch();
  await furnish(server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const focused = page => page.evaluate(() => {
  const it = document.activeElement;
  return it.getAttribute("aria-label") || it.labels?.[0]?.textContent.trim() || it.textContent.trim();
});

test("tab goes through the page in its order, and what has the focus is seen", async () => {
  const page = await open(browser, `${server.url}/`);
  await says(page, "#spaces-rows", /links/);
  const order = [];
  for (let presses = 0; presses < 12; presses++) {
    await page.keyboard.press("Tab");
    order.push(await focused(page));
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.notEqual(outline, "none", `${order.at(-1)} has no ring`);
  }
  assert.deepEqual(order.slice(0, 7), ["Skip to the content", "keymill: overview", "Overview", "New keyspace", "Tokens", "API", "Colours: as the system"]);
  assert.ok(order.includes("Filter keyspaces by name or kind"), `${order}`);
  await page.end();
});

test("the first link skips to the content and keeps the view", async () => {
  const page = await open(browser, `${server.url}/#/keyspace/links`);
  await says(page, "#space-format", /base62/);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  assert.match(page.url(), /#\/keyspace\/links$/);
  await page.end();
});

test("enter opens a keyspace, whose title gets the focus, and sends forms", async () => {
  const page = await open(browser, `${server.url}/`);
  await page.locator("#spaces-rows a", { hasText: "links" }).focus();
  await page.keyboard.press("Enter");
  await says(page, "#space-name", /links/);
  assert.equal(await focused(page), "links");
  await page.locator("#space-take [name=count]").focus();
  await page.keyboard.press("Enter");
  await says(page, "#space-take .keys", /\w{7}/);
  const key = await page.locator("#space-take .keys code").textContent();
  await page.locator("#space-explain [name=key]").fill(key);
  await page.keyboard.press("Enter");
  await says(page, "#space-explain .explanation", /leased/);
  await page.goBack();
  await says(page, "#spaces-rows", /links/);
  await page.end();
});

test("a question begins with the focus on no, keeps it inside, and escape is no", async () => {
  const page = await open(browser, `${server.url}/#/keyspace/links`);
  const remove = page.getByRole("button", { name: "Remove summer-sale" });
  await remove.focus();
  await page.keyboard.press("Enter");
  assert.equal(await focused(page), "Cancel");
  await page.keyboard.press("Tab");
  assert.equal(await focused(page), "Remove it");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#ask").isVisible(), false);
  assert.equal(await focused(page), "Remove summer-sale");
  const { aliases } = await server.ask("GET", "/v1/spaces/links/aliases");
  assert.equal(aliases.length, 1);
  await page.end();
});

test("kinds are chosen with the arrows, and the preview follows", async () => {
  const page = await open(browser, `${server.url}/#/new`);
  await page.locator("#new-form [value=shuffled]").focus();
  await page.keyboard.press("ArrowDown");
  await says(page, "#preview-keys", /^0000000/);
  await says(page, "#preview-odds", /easy to guess/);
  await page.end();
});
