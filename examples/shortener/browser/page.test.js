// The page in a real browser, Debian's Chromium: wide and narrow, light and dark.
//
// `check` starts the servers and names them here; screenshots go to SCREENSHOTS.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const { SHORTENER, CHROMIUM, SCREENSHOTS } = process.env;

let browser;
let target;
before(async () => {
  // Where links lead to: nothing outside of this machine is asked.
  target = createServer((request, response) => response.end(`you have reached ${request.url}`));
  await new Promise((resolve) => target.listen(0, "127.0.0.1", resolve));
  browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update"],
  });
});
after(async () => {
  await browser?.close();
  target?.close();
});

const targetUrl = (path) => `http://127.0.0.1:${target.address().port}${path}`;

// A new user. Whatever the page complains of to its developer fails the test.
async function visitor(t, { width = 1280, colorScheme = "light" } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme, baseURL: SHORTENER });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  t.after(() => context.close());
  const page = await context.newPage();
  page.complaints = [];
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("console", (message) => message.type() === "error" && page.complaints.push(message.text()));
  return page;
}

async function shorten(page, url, { alias = "", expiry = "" } = {}) {
  await page.goto("/");
  await page.getByLabel("URL").fill(url);
  await page.getByLabel("Alias").fill(alias);
  await page.getByLabel("Expires").selectOption(expiry);
  await page.getByRole("button", { name: "Shorten" }).click();
}

// The short URL that the page shows.
async function made(page) {
  const link = page.getByRole("status").getByRole("link");
  await link.waitFor();
  return link.getAttribute("href");
}

const isWithin = async (page) => {
  const [width, needed] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
  assert.ok(needed <= width, `the page is ${needed} wide in a window of ${width}`);
};

test("a link is made, copied, followed and listed", async (t) => {
  const page = await visitor(t);
  await shorten(page, targetUrl("/a?b=c"));
  const short = await made(page);
  assert.match(short, new RegExp(`^${SHORTENER}/[0-9A-Za-z]{7}$`));
  await page.keyboard.press("Enter");
  await page.getByRole("status").getByText("Copied").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), short);
  const listed = page.getByRole("listitem");
  assert.equal(await listed.count(), 1);
  assert.equal(await listed.getByRole("link").first().getAttribute("href"), short);
  const answer = await page.goto(short);
  assert.equal(page.url(), targetUrl("/a?b=c"));
  assert.equal(await answer.text(), "you have reached /a?b=c");
  assert.equal((await answer.request().redirectedFrom().response()).status(), 302);
  // Again: the same user has the same link.
  await shorten(page, targetUrl("/a?b=c"));
  assert.equal(await made(page), short);
  assert.equal(await page.getByRole("listitem").count(), 1);
  assert.deepEqual(page.complaints, []);
});

test("the keyboard is enough", async (t) => {
  const page = await visitor(t);
  await page.goto("/");
  await page.keyboard.type(targetUrl("/keys"));
  await page.keyboard.press("Tab");
  await page.keyboard.type("by-hand");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  assert.equal(await made(page), `${SHORTENER}/by-hand`);
});

test("an alias that another user has is refused beside its field", async (t) => {
  const [ann, bob] = [await visitor(t), await visitor(t)];
  await shorten(ann, targetUrl("/sale"), { alias: "sale", expiry: "86400" });
  assert.equal(await made(ann), `${SHORTENER}/sale`);
  assert.match(await ann.getByRole("listitem").textContent(), /expires/);
  await shorten(bob, targetUrl("/other"), { alias: "sale" });
  await bob.getByText("The alias “sale” is taken; choose another one.").waitFor();
  assert.equal(await bob.getByLabel("Alias").getAttribute("aria-invalid"), "true");
  assert.equal(await bob.evaluate(() => document.activeElement.id), "alias");
  await bob.getByLabel("Alias").fill("sale-2");
  await bob.keyboard.press("Enter");
  assert.equal(await made(bob), `${SHORTENER}/sale-2`);
});

test("what is not a URL is refused, and a missing scheme is added", async (t) => {
  const page = await visitor(t);
  for (const [typed, expected] of [["", /Enter a URL/], ["javascript:alert(1)", /must begin with http/], [SHORTENER, /could lead to itself/]]) {
    await shorten(page, typed);
    await page.getByText(expected).waitFor();
    assert.equal(await page.getByRole("status").count(), 0);
  }
  await shorten(page, `127.0.0.1:${target.address().port}/bare`);
  await made(page);
  assert.match(await page.getByRole("status").textContent(), /\/bare/);
  const [link] = (await (await page.request.get("/api/links")).json()).links;
  assert.equal(link.url, `https://127.0.0.1:${target.address().port}/bare`);
});

test("a link that is removed leads to a page that says so", async (t) => {
  const page = await visitor(t);
  await shorten(page, targetUrl("/gone"));
  const short = await made(page);
  page.once("dialog", (dialog) => dialog.accept());
  await page.getByRole("button", { name: "Remove" }).click();
  await page.getByRole("listitem").waitFor({ state: "detached" });
  const answer = await page.goto(short);
  assert.equal(answer.status(), 410);
  assert.equal(await page.getByRole("heading").textContent(), "This link has ended");
});

test("an unknown link is a page with a way home", async (t) => {
  const page = await visitor(t);
  const answer = await page.goto("/Unknown");
  assert.equal(answer.status(), 404);
  assert.equal(await page.getByRole("heading").textContent(), "There is no such link");
  await page.getByRole("link", { name: "Make a short link" }).click();
  await page.getByRole("heading", { name: "Make a long URL short" }).waitFor();
});

test("what is written into a URL is shown and not run", async (t) => {
  const page = await visitor(t);
  await shorten(page, targetUrl(`/<img src=x onerror="document.title='run'">`));
  await made(page);
  assert.equal(await page.title(), "Short links");
  assert.equal(await page.locator("main img").count(), 0);
  assert.deepEqual(page.complaints, []);
});

for (const width of [1280, 390]) {
  for (const colorScheme of ["light", "dark"]) {
    test(`the page fits into ${width} pixels, ${colorScheme}`, async (t) => {
      const page = await visitor(t, { width, colorScheme });
      const shot = async (name) => {
        await isWithin(page);
        await page.screenshot({ path: `${SCREENSHOTS}/${name}-${width}-${colorScheme}.png`, fullPage: true });
      };
      await page.goto("/");
      await shot("empty");
      await shorten(page, targetUrl(`/${"long-".repeat(40)}`), { expiry: "604800" });
      await made(page);
      await shorten(page, targetUrl("/docs"), { alias: `a-${width}-${colorScheme}` });
      await made(page);
      await page.getByRole("listitem").nth(1).waitFor();
      await shot("made");
      await shorten(page, targetUrl("/x"), { alias: "api" });
      await page.getByLabel("Alias").and(page.locator("[aria-invalid]")).waitFor();
      await shot("refused");
      await page.goto("/Unknown");
      await shot("unknown");
    });
  }
}
