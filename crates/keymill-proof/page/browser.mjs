// Chromium, and what every view of the page is held to.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

// A wide window and a phone, in light and dark.
export const LOOKS = [1280, 390].flatMap(width => ["light", "dark"].map(colorScheme => ({ width, colorScheme })));

export const launch = () => chromium.launch({ executablePath: process.env.PAGE_CHROMIUM, args: FLAGS });

// Opens a page. What its console says must be nothing, but for refusals with one of the statuses in `refusals`, which Chromium
// reports by itself. With `session`, somebody has signed in before.
export async function open(browser, url, { width = 1280, colorScheme = "light", refusals = [], isOffline = false, session } = {}) {
  const context = await browser.newContext({ viewport: { width, height: width < 500 ? 844 : 900 }, colorScheme, reducedMotion: "reduce", ignoreHTTPSErrors: url.startsWith("https:"), storageState: session, permissions: ["clipboard-read", "clipboard-write"] });
  const page = await context.newPage();
  page.setDefaultTimeout(15000);
  const said = [], asked = [];
  page.on("console", message => ["error", "warning"].includes(message.type()) && said.push(message.text()));
  page.on("pageerror", error => said.push(error.message));
  page.on("request", request => asked.push(request));
  await page.goto(url);
  const look = `${width}-${colorScheme}`;
  return Object.assign(page, {
    asked, look,
    expectRefusals: (...statuses) => refusals.push(...statuses),
    // Nothing serious by axe, nothing beyond the edge of the window; and a picture to look at.
    async inspect(name) {
      // A pointer that rests on a chart would show its cursor.
      await page.mouse.move(0, 0);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
      const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
      assert.deepEqual(serious.map(({ id, nodes }) => [id, nodes.map(node => `${node.target} ${node.any[0]?.message || ""}`)]), [], `${name} ${look}`);
      const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(beyond <= 0, `${name} ${look}: ${beyond} pixels beyond the edge`);
      await page.screenshot({ path: join(process.env.PAGE_SCREENSHOTS, `${name}-${look}.png`), fullPage: true });
    },
    async end() {
      await context.close();
      const allowed = text => refusals.some(status => text.includes(`the server responded with a status of ${status}`)) || (isOffline && /net::ERR_/.test(text));
      assert.deepEqual(said.filter(text => !allowed(text)), [], `the console, ${look}`);
      const foreign = asked.map(request => new URL(request.url())).filter(it => it.protocol !== "data:" && it.host !== new URL(url).host);
      assert.deepEqual(foreign.map(String), [], "requests to other hosts");
    },
  });
}

export async function signIn(page, token) {
  await page.locator("#sign-in-token").fill(token);
  await page.locator("#sign-in-token").press("Enter");
}

// Waits until an element says something.
export async function says(page, selector, pattern) {
  await page.waitForFunction(([selector, source, flags]) => [...document.querySelectorAll(selector)].some(it => it.checkVisibility() && new RegExp(source, flags).test(it.textContent)),
    [selector, pattern.source, pattern.flags]).catch(async () => {
    const found = await page.locator(selector).allTextContents();
    assert.match(found.join("\n"), pattern, selector);
    assert.fail(`${selector} says it, and is not visible`);
  });
}

// Waits until something is so; `what` says what is not.
export async function until(isSo, what, { seconds = 30 } = {}) {
  for (const end = Date.now() + seconds * 1000; !(await isSo()); ) {
    if (Date.now() > end) assert.fail(await what());
    await new Promise(resolve => setTimeout(resolve, 50));
  }
}
