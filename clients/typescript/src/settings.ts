/** The settings of a client: as given, then checked. */

import { BadSettings } from "./errors.js";
import { Token } from "./token.js";

/** What a client is made with. All times are in milliseconds. */
export interface KeymillOptions {
  /**
   * The servers, as `http://host:port` or `https://host:port`; several in a list, or separated by commas. All of them
   * must serve the same store: calls go to each in turn, and past those that do not answer. If left out, the environment
   * variable `KEYMILL_SERVER` names them.
   */
  readonly servers?: string | readonly string[] | undefined;
  /**
   * The token to send with every request. If left out, it is that in `KEYMILL_TOKEN`, or in the file that
   * `KEYMILL_TOKEN_FILE` names, if there is one. Without TLS, the network can read it.
   */
  readonly token?: string | undefined;
  /** A file that holds the token. It is read again when servers do not accept the token any more. */
  readonly tokenFile?: string | undefined;
  /** How long a call may take with all its attempts; 10,000 by default. */
  readonly timeout?: number | undefined;
  /** How long one attempt at one server may take; 4,000 by default. */
  readonly attemptTimeout?: number | undefined;
  /** What sends requests instead of the global `fetch`: for proxies, Unix sockets and certificates of your own. */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/** What a call can be given. */
export interface CallOptions {
  /** Ends the call when it is aborted, with the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
  /** How many milliseconds the call may take with all its attempts, instead of the client's `timeout`. */
  readonly timeout?: number | undefined;
}

/** Where a server is. */
export interface Address {
  /** As it was given, for people. */
  readonly name: string;
  /** What every path is appended to. */
  readonly base: string;
}

/** Settings that cannot hold anything invalid. */
export interface Settings {
  readonly addresses: readonly Address[];
  readonly token: Token;
  readonly timeout: number;
  readonly attemptTimeout: number;
  readonly fetch: typeof globalThis.fetch;
}

const DAY = 24 * 3_600_000;

export function checkSettings(options: KeymillOptions): Settings {
  const send = options.fetch ?? globalThis.fetch;
  if (typeof send !== "function") {
    throw new BadSettings("there is no `fetch` here: use Node 18 or later, or pass one as `fetch`");
  }
  return {
    addresses: serverNames(options.servers).map(parseAddress),
    token: Token.find(options.token, options.tokenFile),
    timeout: checkTime("timeout", options.timeout ?? 10_000),
    // A server waits two seconds for its store by default, before it says that it has no keys.
    attemptTimeout: checkTime("attemptTimeout", options.attemptTimeout ?? 4_000),
    fetch: send,
  };
}

/** Refuses what cannot be waited for. */
export function checkTime(name: string, time: number): number {
  // Written so that NaN is refused, too.
  if (!(typeof time === "number" && time > 0 && time <= DAY)) {
    throw new BadSettings(`\`${name}\` must be more than zero and at most a day, not ${time} ms`);
  }
  return time;
}

function serverNames(servers: string | readonly string[] | undefined): string[] {
  const { KEYMILL_SERVER: named = "" } = process.env;
  const given = servers ?? named;
  const list = typeof given === "string" ? given.split(",") : given;
  const names = list.map((name) => String(name).trim()).filter((name) => name !== "");
  if (names.length === 0) {
    throw new BadSettings("there is no server to ask; name at least one in `servers`, or set KEYMILL_SERVER");
  }
  return names;
}

function parseAddress(name: string): Address {
  const wrong = (problem: string) =>
    new BadSettings(`the server ${JSON.stringify(name)} ${problem}; give it as http://host:port or https://host:port`);
  if (name.startsWith("unix:")) {
    throw wrong(
      "is a Unix socket, which the global `fetch` cannot reach: pass a `fetch` that can, and an address for it",
    );
  }
  if (!/^[!-~]+$/.test(name)) {
    throw wrong("is not a URL");
  }
  let url: URL;
  try {
    url = new URL(name);
  } catch {
    throw wrong("is not a URL");
  }
  if (url.username !== "" || url.password !== "") {
    // What stands there may be a secret, so the text is not repeated.
    throw new BadSettings("the address of a server contains a user name: pass a token instead");
  }
  if (!/^https?:\/\//i.test(name)) {
    throw wrong("has an unknown scheme");
  }
  if (name.includes("?") || name.includes("#")) {
    throw wrong("contains a query");
  }
  return { name, base: `${url.origin}${url.pathname.replace(/\/+$/, "")}` };
}
