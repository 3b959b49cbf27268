// Servers for the tests: real ones, each with a folder and a port of its own.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { after } from "node:test";

const { PAGE_BINARY: binary, PAGE_WORK: work } = process.env;

export const folder = () => mkdtempSync(join(work, "data-"));

// Runs a command on what is in a folder; what it prints.
export const command = (data, ...args) => execFileSync(binary, ["--data-dir", data, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();

// Servers that a failed test has left. They end with this process, which would otherwise wait for them.
const running = new Set();
after(() => running.forEach(child => child.kill("SIGKILL")));

// A certificate of its own, which browsers accept if they are told to.
function certificate() {
  const [tls_certificate, tls_key] = ["certificate.pem", "key.pem"].map(name => join(folder(), name));
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "90", "-keyout", tls_key, "-out", tls_certificate], { stdio: "ignore" });
  return { KEYMILL_TLS_CERTIFICATE: tls_certificate, KEYMILL_TLS_KEY: tls_key };
}

// Starts a server. With `data`, on what another one has left, or beside it; with `listen`, at its address.
export async function serve({ data = folder(), listen = "127.0.0.1:0", isSecure = false } = {}) {
  const env = { ...process.env, ...(isSecure ? certificate() : {}) };
  const child = spawn(binary, ["--data-dir", data, "serve", "--listen", listen], { stdio: ["ignore", "ignore", "pipe"], env });
  running.add(child);
  child.on("exit", () => running.delete(child));
  let greeting = "";
  const url = await new Promise((resolve, reject) => {
    child.stderr.on("data", text => {
      greeting += text;
      const found = greeting.match(/listening *(https?:\/\/\S+)/);
      if (found) resolve(found[1]);
    });
    child.on("exit", code => reject(new Error(`the server ended with ${code}:\n${greeting}`)));
  });
  const server = {
    url, data, child,
    // Asks it as a program does; fails where it refuses.
    async ask(method, path, body, token) {
      const headers = { ...(body === undefined ? {} : { "content-type": "application/json" }), ...(token ? { authorization: `Bearer ${token}` } : {}) };
      const answer = await fetch(url + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
      const text = await answer.text();
      if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
      return text.startsWith("{") ? JSON.parse(text) : text;
    },
    // Runs a command beside it.
    command: (...args) => command(data, ...args),
    stop: () => new Promise(resolve => {
      if (child.exitCode !== null || child.signalCode !== null) return resolve();
      child.on("exit", resolve);
      child.kill("SIGTERM");
    }),
  };
  return server;
}

// Waits until a server knows that tokens are needed: it learns of them with a heartbeat, or when one is used.
export async function needsToken(server) {
  for (let tries = 0; (await fetch(`${server.url}/v1/spaces`)).status !== 401; tries++) {
    if (tries >= 100) throw new Error("tokens are not asked for");
    await new Promise(resolve => setTimeout(resolve, 100));
  }
}

// One keyspace of every kind.
export async function furnish(server, token) {
  const spaces = {
    links: {}, tickets: { kind: "sequential" }, coupons: { kind: "pooled", alphabet: "safe", length: 8, low_water: 100 },
    pages: { kind: "digest", normalize: "url" }, events: { kind: "snowflake" }, sessions: { kind: "uuid" },
    orders: { alphabet: "base32", length: 8, prefix: "ord_", group: 4, check: true },
  };
  for (const [name, settings] of Object.entries(spaces)) await server.ask("PUT", `/v1/spaces/${name}`, settings, token);
  await server.ask("POST", "/v1/spaces/coupons/pool/fill", { count: 500 }, token);
  await server.ask("PUT", "/v1/spaces/links/aliases/summer-sale", { owner: "marketing" }, token);
}

// Takes keys until it is stopped, a few hundred a second at most.
export function load(server, names, token) {
  let isOn = true;
  const ended = Promise.all(names.map(async name => {
    while (isOn) {
      await server.ask("POST", `/v1/spaces/${name}/keys?count=3`, undefined, token).catch(() => {});
      await new Promise(resolve => setTimeout(resolve, 40));
    }
  }));
  return async () => {
    isOn = false;
    await ended;
  };
}
