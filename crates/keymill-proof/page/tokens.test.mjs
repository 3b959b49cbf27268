// The page of a server with tokens: signing in, creating, rotating and revoking them, and what a small token may not.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { LOOKS, launch, open, says, signIn } from "./browser.mjs";
import { command, folder, furnish, load, needsToken, serve } from "./server.mjs";

let server, browser, admin, small, rest;
before(async () => {
  server = await serve();
  browser = await launch();
  admin = server.command("token", "create", "admin", "--allow", "admin:*");
  small = server.command("token", "create", "small", "--allow", "take:links", "--allow", "read:links");
  await needsToken(server);
  await furnish(server, admin);
  rest = load(server, ["links"], admin);
});
after(async () => {
  await rest?.();
  await browser?.close();
  await server?.stop();
});

for (const look of LOOKS) {
  test(`a token signs in, shows live figures, and signs out, ${look.width} pixels, ${look.colorScheme}`, async () => {
    const page = await open(browser, `${server.url}/`, look);
    await says(page, "#view-sign-in h1", /Sign in/);
    await says(page, "#pulse-text", /Not signed in/);
    assert.equal(await page.locator("#view-overview").isVisible(), false);
    await page.inspect("sign-in");
    page.expectRefusals(401);
    await signIn(page, "km_wrong");
    await says(page, "#sign-in-result", /token/i);
    await signIn(page, admin);
    await says(page, "#session-name", /admin/);
    await says(page, "#total-rate", /^[1-9]/);
    await says(page, "#pulse-text", /Live|problem/);
    await says(page, "#instances-rows", /seen/);
    assert.equal(await page.locator("#instances-rows tr").count(), 1, "the commands that made tokens are no instances");
    assert.equal(await page.evaluate(() => document.cookie), "", "no script sees the session");
    await page.inspect("signed-in");
    await page.reload();
    await says(page, "#session-name", /admin/);
    await page.getByRole("button", { name: "Sign out" }).click();
    await says(page, "#view-sign-in h1", /Sign in/);
    await page.end();
  });

  test(`tokens are created, shown once, rotated and revoked, ${look.width} pixels, ${look.colorScheme}`, async () => {
    const page = await open(browser, `${server.url}/#/tokens`, look), name = `shop-${look.width}-${look.colorScheme}`;
    await signIn(page, admin);
    await says(page, "#tokens-rows", /admin:\*/);
    await page.locator("#token-form [name=name]").fill(name);
    await page.getByRole("button", { name: "Create token" }).click();
    await says(page, "#token-result", /at least one right/);
    await page.locator("#token-form [value=take]").check();
    await page.locator("#token-form [name=spaces]").fill("links, coupons");
    await page.locator("#token-form [name=rate]").fill("500");
    await page.getByRole("button", { name: "Create token" }).click();
    await says(page, "#token-result .secret", /^km_/);
    const text = await page.locator("#token-result .secret").textContent();
    await page.getByRole("button", { name: "Copy the token" }).click();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), text);
    await server.ask("POST", "/v1/spaces/links/keys", {}, text);
    await says(page, "#tokens-rows", new RegExp(name));
    await says(page, "#tokens-rows", /take:coupons/);
    await page.inspect("tokens");
    await page.reload();
    await says(page, "#tokens-rows", new RegExp(name));
    assert.ok(!(await page.content()).includes(text), "its text is shown once");
    await page.getByRole("button", { name: `Rotate ${name}` }).click();
    await page.locator("#ask-yes").click();
    await says(page, "#tokens-result .secret", /^km_/);
    assert.notEqual(await page.locator("#tokens-result .secret").textContent(), text);
    await page.getByRole("button", { name: `Revoke ${name}` }).click();
    await page.locator("#ask-no").click();
    await server.ask("POST", "/v1/spaces/links/keys", {}, text);
    await page.getByRole("button", { name: `Revoke ${name}` }).click();
    await page.locator("#ask-yes").click();
    await says(page, "#tokens-result", /is revoked/);
    await assert.rejects(server.ask("POST", "/v1/spaces/links/keys", {}, text), /401/);
    await says(page, "#acts-rows", /tokens/);
    await page.end();
  });

  test(`a small token is told which right it lacks, and can do what it may, ${look.width} pixels, ${look.colorScheme}`, async () => {
    const page = await open(browser, `${server.url}/`, { ...look, refusals: [403] });
    await signIn(page, small);
    await says(page, "#spaces-state", /lacks the right read:\*/);
    await page.inspect("lacking");
    const link = page.locator("#spaces-state a", { hasText: "links" });
    await link.focus();
    // What is asked for again, as it is every few seconds, and says the same.
    await page.evaluate("pollKeyspaces().catch(() => {})");
    assert.ok(await link.evaluate(it => it === document.activeElement), "the link keeps the focus");
    await link.click();
    await says(page, "#space-leases-rows", /open/);
    assert.equal(await page.locator("#space-state").isVisible(), false, "nothing is wrong with a keyspace that it may read");
    await page.locator("#space-take").getByRole("button", { name: "Take" }).click();
    await says(page, "#space-take .keys", /[0-9A-Za-z]{7}/);
    await page.locator("#alias-form [name=alias]").fill("mine");
    await page.getByRole("button", { name: "Add" }).click();
    await says(page, "#alias-result", /lacks the right name:links/);
    await page.goto(`${server.url}/#/tokens`);
    await says(page, "#tokens-state", /lacks the right admin:\*/);
    await page.end();
  });
}

test("leases that are refused are said so in their place, and the keyspace is shown", async () => {
  const page = await open(browser, `${server.url}/`, { refusals: [403] });
  await signIn(page, small);
  await says(page, "#spaces-state", /lacks the right/);
  await page.route("**/v1/leases?*", route => route.fulfill({ status: 403, json: { code: "forbidden", detail: "the token may not" } }));
  await page.goto(`${server.url}/#/keyspace/links`);
  await says(page, "#space-leases-state", /lacks the right read:links/);
  await says(page, "#settings", /base62/);
  assert.equal(await page.locator("#space-state").isVisible(), false);
  await page.end();
});

test("a refused sign-out says so, and one that is done ends the session", async () => {
  const page = await open(browser, `${server.url}/`, { refusals: [503] });
  await signIn(page, admin);
  await says(page, "#session-name", /admin/);
  const isSignOut = request => request.method() === "DELETE";
  await page.route("**/v1/session", route => (isSignOut(route.request()) ? route.fulfill({ status: 503, json: { code: "overloaded", detail: "too many requests at once" } }) : route.continue()));
  await page.getByRole("button", { name: "Sign out" }).click();
  await says(page, "#session-result", /You are still signed in.*too many requests at once/i);
  await says(page, "#session-name", /admin/);
  await page.unroute("**/v1/session");
  await page.getByRole("button", { name: "Sign out" }).click();
  await says(page, "#view-sign-in h1", /Sign in/);
  assert.deepEqual(await page.context().cookies(), []);
  await page.end();
});

test("over TLS, the session is a cookie that browsers hold to this very host", async () => {
  const data = folder(), token = command(data, "token", "create", "admin", "--allow", "admin:*");
  const secure = await serve({ data, isSecure: true });
  const page = await open(browser, `${secure.url}/`);
  await signIn(page, token);
  await says(page, "#session-name", /admin/);
  const [cookie, ...others] = await page.context().cookies();
  assert.deepEqual({ ...cookie, value: "", expires: 0, domain: "" }, { name: "__Host-keymill-session", value: "", domain: "", path: "/", expires: 0, httpOnly: true, secure: true, sameSite: "Strict" });
  assert.deepEqual(others, []);
  await page.locator("#view-overview .take-form").getByRole("button", { name: "Take" }).click();
  await says(page, "#view-overview .take-form .keys", /[0-9A-Za-z]{7}/);
  await page.reload();
  await says(page, "#session-name", /admin/);
  await page.getByRole("button", { name: "Sign out" }).click();
  await says(page, "#view-sign-in h1", /Sign in/);
  assert.deepEqual(await page.context().cookies(), []);
  await page.end();
  await secure.stop();
});

test("a session whose token is revoked ends with the form", async () => {
  const text = server.command("token", "create", "brief", "--allow", "admin:*");
  const page = await open(browser, `${server.url}/`, { refusals: [401] });
  await signIn(page, text);
  await says(page, "#session-name", /brief/);
  await server.ask("DELETE", "/v1/tokens/brief", undefined, admin);
  await says(page, "#view-sign-in h1", /Sign in/);
  await says(page, "#sign-in-result", /session of brief has ended/);
  await page.end();
});

test("the first token signs in whoever creates it, and its text stays", async () => {
  const fresh = await serve();
  const page = await open(browser, `${fresh.url}/#/tokens`);
  await says(page, "#tokens-state", /No tokens/);
  await says(page, "#token-first", /This is the first token\. Within seconds, every caller will need one\./);
  await page.locator("#token-form [name=name]").fill("boss");
  await page.locator("#token-form [value=take]").check();
  await page.getByRole("button", { name: "Create token" }).click();
  // Nobody could create another one, and its text would be gone with the view.
  await says(page, "#token-result", /first token needs the right admin/);
  await page.locator("#token-form [value=admin]").check();
  await page.getByRole("button", { name: "Create token" }).click();
  await says(page, "#token-result .secret", /^km_/);
  await says(page, "#session-name", /boss/);
  await says(page, "#tokens-rows", /admin:\*/);
  // As it is asked every ten seconds.
  await page.evaluate("pollTokens()");
  await says(page, "#token-result .secret", /^km_/);
  await page.end();
  await fresh.stop();
});
