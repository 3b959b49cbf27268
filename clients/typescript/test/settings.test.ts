/** Settings, tokens, and what is shown of them. */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { inspect } from "node:util";

import { BadSettings, Keymill, type KeymillOptions, Unauthorized, VERSION } from "../src/index.js";
import { keysFor, problem, Scripted } from "./scripted.js";
import { makeFolder } from "./servers.js";

const SECRET = "km_secret0123456789";

/** Makes a client with variables of the environment, and puts them back. */
function withEnvironment<T>(variables: Record<string, string>, make: () => T): T {
  const before = { ...process.env };
  Object.assign(process.env, variables);
  try {
    return make();
  } finally {
    process.env = before;
  }
}

describe("settings", { timeout: 30_000 }, () => {
  const folder = makeFolder();
  const running: Scripted[] = [];
  after(async () => {
    await Promise.all(running.map((server) => server.stop()));
  });

  it("reads addresses, in a list or separated by commas, and from the environment", () => {
    const both = ["http://a:8080", "https://keys.example/keymill/"];
    assert.deepEqual(new Keymill({ servers: both }).servers, both);
    assert.deepEqual(new Keymill({ servers: `${both.join(", ")},` }).servers, both);
    const found = withEnvironment({ KEYMILL_SERVER: both.join() }, () => new Keymill().servers);
    assert.deepEqual(found, both);
  });

  it("refuses what cannot work, with what would, and shows no secret", async () => {
    const server = { servers: "http://a:1" };
    const cases: [KeymillOptions, RegExp][] = [
      [{}, /KEYMILL_SERVER/],
      [{ servers: [] }, /no server/],
      [{ servers: "a:8080" }, /http:\/\/host:port/],
      [{ servers: "ftp://a" }, /scheme/],
      [{ servers: "http:a" }, /scheme/],
      [{ servers: "http://" }, /not a URL/],
      [{ servers: "http://a b" }, /not a URL/],
      [{ servers: "http://a?b" }, /query/],
      [{ servers: "unix:/run/keymill.sock" }, /Unix socket/],
      [{ servers: `http://me:${SECRET}@a` }, /user name/],
      [{ ...server, token: "km_ü-secret" }, /km_…/],
      [{ ...server, token: " " }, /km_…/],
      [{ ...server, token: SECRET, tokenFile: "x" }, /not both/],
      [{ ...server, tokenFile: "/no/such/file" }, /\/no\/such\/file/],
      [{ ...server, timeout: 0 }, /`timeout`/],
      [{ ...server, attemptTimeout: Number.NaN }, /`attemptTimeout`/],
      [{ ...server, timeout: 86_400_001 }, /at most a day/],
    ];
    for (const [options, about] of cases) {
      assert.throws(
        () => new Keymill(options),
        (error) => {
          assert.ok(error instanceof BadSettings && error.code === "bad_settings", inspect(error));
          assert.match(error.detail, about);
          assert.ok(!inspect(error).includes("secret"), inspect(error));
          return true;
        },
      );
    }
    const links = new Keymill(server).keyspace("links");
    for (const options of [
      { keysMin: 0 },
      { keysMin: 10, keysMax: 9 },
      { keysMax: 1.5 },
      { maxAge: 0 },
      { horizon: -1 },
    ]) {
      assert.throws(() => links.cached(options), BadSettings);
    }
    await assert.rejects(links.take({ timeout: -1 }), BadSettings);
  });

  it("sends the token that is given, or found in the environment, or in a file", async () => {
    const server = await Scripted.start(keysFor);
    running.push(server);
    const file = join(folder, "token");
    writeFileSync(file, `${SECRET}-file\n`);
    const servers = server.url;
    const clients = [
      new Keymill({ servers }),
      new Keymill({ servers, token: SECRET }),
      new Keymill({ servers, tokenFile: file }),
      withEnvironment({ KEYMILL_TOKEN: `${SECRET}-env` }, () => new Keymill({ servers })),
      withEnvironment({ KEYMILL_TOKEN_FILE: file }, () => new Keymill({ servers })),
      withEnvironment({ KEYMILL_TOKEN: `${SECRET}-env` }, () => new Keymill({ servers, token: SECRET })),
    ];
    for (const client of clients) {
      await client.keyspace("links").take();
    }
    const expected = ["", SECRET, `${SECRET}-file`, `${SECRET}-env`, `${SECRET}-file`, SECRET];
    const sent = server.seen.map(({ authorization }) => authorization?.replace("Bearer ", "") ?? "");
    assert.deepEqual(sent, expected);
  });

  it("reads the token file again when the token is not accepted any more", async () => {
    const file = join(folder, "rotated");
    writeFileSync(file, "km_old");
    const server = await Scripted.start((seen) =>
      seen.authorization === "Bearer km_new" ? keysFor(seen) : problem(401, "unauthorized"),
    );
    running.push(server);
    const links = new Keymill({ servers: server.url, tokenFile: file }).keyspace("links");
    await assert.rejects(links.take(), Unauthorized);
    writeFileSync(file, "km_new");
    await links.take();
    await links.take();
    assert.equal(server.seen.length, 4);
  });

  it("shows the token nowhere, not even where others repeat it", async () => {
    const echoing = await Scripted.start((seen) => ({ status: 400, text: `you sent ${seen.authorization}` }));
    running.push(echoing);
    const repeating = async () => {
      throw new Error(`cannot send Authorization: Bearer ${SECRET}`);
    };
    const clients = [
      new Keymill({ servers: echoing.url, token: SECRET }),
      new Keymill({ servers: "http://host", token: SECRET, timeout: 50, fetch: repeating }),
    ];
    for (const client of clients) {
      const links = client.keyspace("links");
      const error = await links.take().catch((reason: unknown) => reason);
      const shown = [client, links, links.cached(), error];
      const texts = shown.map((it) => inspect(it, { depth: 9, showHidden: true }) + JSON.stringify(it) + String(it));
      assert.ok(
        texts.every((text) => !text.includes(SECRET)),
        texts.join(),
      );
    }
  });

  it("sends its version", async () => {
    const { version } = JSON.parse(readFileSync("package.json", "utf8"));
    assert.equal(VERSION, version);
    let agent = "";
    const fetch: typeof globalThis.fetch = async (_, init) => {
      agent = new Headers(init?.headers).get("user-agent") ?? "";
      return new Response('{"keys":["k"]}');
    };
    await new Keymill({ servers: "http://host", fetch }).keyspace("links").take();
    assert.equal(agent, `keymill-typescript/${version}`);
  });

  it("keeps the path of a proxy", async () => {
    const server = await Scripted.start(keysFor);
    running.push(server);
    await new Keymill({ servers: `${server.url}/keymill/` }).keyspace("ü/b").take();
    assert.equal(server.seen[0]?.path, "/keymill/v1/spaces/%C3%BC%2Fb/keys");
  });
});
