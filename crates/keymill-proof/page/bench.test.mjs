// The report of `keymill bench --html`: a file that is opened from disk, without any server.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import test, { after, before } from "node:test";
import { pathToFileURL } from "node:url";
import { LOOKS, launch, open, says } from "./browser.mjs";
import { serve } from "./server.mjs";

const { PAGE_BINARY: binary, PAGE_WORK: work } = process.env;
let browser;

before(async () => { browser = await launch(); });
after(() => browser.close());

// Takes keys, and returns the address of the report.
async function report(name, ...args) {
  const server = await serve(), file = join(work, `${name}.html`);
  execFileSync(binary, ["bench", server.url, "--html", file, ...args], { stdio: "ignore" });
  await server.stop();
  return pathToFileURL(file).href;
}

// How many lines each chart has, by its title. A line has at least two points.
const charts = page => page.evaluate(() => Object.fromEntries([...document.querySelectorAll("section:has(svg)")].map(card =>
  [card.querySelector("h2").textContent, [...card.querySelectorAll("path[fill=none]")].filter(line => line.getAttribute("d").includes(" L")).length])));

test("the report of a bench draws its charts without a server", async () => {
  const url = await report("single", "--stages", "3:2s,0:1s", "--p95", "10s");
  for (const look of LOOKS) {
    const page = await open(browser, url, look);
    await says(page, ".verdict", /^passed$/);
    assert.deepEqual(await charts(page), { "Requests, per second": 2, "Latency": 3, "Users": 1 });
    await page.getByRole("button", { name: "logarithmic" }).click();
    await page.locator("svg").first().hover();
    await says(page, ".legend", /requests \d/);
    await page.inspect("bench");
    await page.end();
  }
});

test("the report of batches shows keys beside requests", async () => {
  const page = await open(browser, await report("batch", "--protocol", "http-batch", "--duration", "3s", "--connections", "2"));
  assert.deepEqual(await charts(page), { "Requests, per second": 2, "Keys, per second": 1, "Latency": 3 });
  await says(page, ".tile", /keys\/s/);
  await page.end();
});
