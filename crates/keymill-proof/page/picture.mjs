// The picture of the page in the README: a real server under a small load, as Chromium shows it.
//
//   PAGE_BINARY=target/release/keymill PAGE_CHROMIUM=/usr/bin/chromium PAGE_WORK=$(mktemp -d) node picture.mjs FILE
//
// Needs what `check` has installed (target/page/package/node_modules). Takes a minute and a half.

import { launch } from "./browser.mjs";
import { serve } from "./server.mjs";

const SECONDS = 80;
// Takes at once, keys in each, and milliseconds between them.
const LOAD = { links: [3, 4, 24], orders: [2, 2, 40], events: [2, 6, 60], tickets: [1, 3, 50], coupons: [1, 2, 90], invites: [1, 1, 70], vouchers: [1, 1, 130] };
const SETTINGS = {
  links: {}, orders: { alphabet: "base32", length: 8, prefix: "ord_", group: 4, check: true }, invites: { alphabet: "safe", length: 6 },
  coupons: { kind: "pooled", alphabet: "safe", length: 8, low_water: 20000 }, tickets: { kind: "sequential" }, events: { kind: "snowflake" },
  vouchers: { alphabet: "base36", length: 4 },
};

const server = await serve();
const browser = await launch();
try {
  for (const [name, settings] of Object.entries(SETTINGS)) await server.ask("PUT", `/v1/spaces/${name}`, settings);
  await server.ask("POST", "/v1/spaces/coupons/pool/fill", { count: 60000 });
  for (const alias of ["summer-sale", "black-friday", "welcome"]) await server.ask("PUT", `/v1/spaces/links/aliases/${alias}`, { owner: "marketing" });
  const end = Date.now() + SECONDS * 1000;
  const loads = Object.entries(LOAD).map(async ([name, [takes, count, pause]], at) => {
    while (Date.now() < end) {
      await Promise.all(Array.from({ length: takes }, () => server.ask("POST", `/v1/spaces/${name}/keys?count=${count}`)));
      // Demand comes and goes.
      await new Promise(resolve => setTimeout(resolve, pause * (1 + 0.55 * Math.sin(Date.now() / 6500 + at) + 0.25 * Math.random())));
    }
  });
  const page = await browser.newPage({ viewport: { width: 1280, height: 1180 }, colorScheme: "light", reducedMotion: "reduce" });
  await page.goto(`${server.url}/`);
  const { keys: [key] } = await server.ask("POST", "/v1/spaces/orders/keys", {});
  await page.waitForTimeout((SECONDS - 12) * 1000);
  await page.locator("#view-overview .explain-form [name=key]").fill(key);
  await page.locator("#view-overview .explain-form [name=key]").press("Enter");
  await page.locator(".explanation").waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await page.waitForTimeout(2500);
  await page.screenshot({ path: process.argv[2] });
  await Promise.all(loads);
} finally {
  await browser.close();
  await server.stop();
}
