/**
 * The line to one server: sends a request once, with `fetch`, and reads the answer whole.
 *
 * `attempts` decides what comes of it. Connections are kept by `fetch` itself; here it is only bounded how many requests
 * are under way.
 */

import type { Address, Settings } from "./settings.js";
import { VERSION } from "./version.js";

/** How many requests to one server may be under way: each has a connection of its own. */
const REQUESTS_MAX = 256;
/** The largest answer that is read. */
const ANSWER_MAX = 64 * 1024 * 1024;
/** Problems of connecting: the request was not sent. */
const CONNECTING = new Set(["connect", "getaddrinfo", "UND_ERR_CONNECT_TIMEOUT", "ENOTFOUND", "ECONNREFUSED"]);

/** What is sent. */
export interface Request {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Path and query. */
  readonly path: string;
  /** JSON. */
  readonly body?: string | undefined;
}

/** What a server said. */
export interface Answer {
  readonly status: number;
  readonly body: string;
  header(name: string): string | undefined;
}

/** There is no answer. */
export class Failure {
  /** What happened, as the rest of a sentence that begins with the server. */
  readonly problem: string;
  /** Whether the server may have seen the request. */
  readonly wasSent: boolean;

  constructor(problem: string, wasSent: boolean) {
    this.problem = problem;
    this.wasSent = wasSent;
  }
}

/** The line to one server. */
export class Line {
  readonly address: Address;
  readonly #settings: Settings;
  #underWay = 0;
  /** Requests that wait until another one has ended. */
  readonly #waiting = new Set<() => void>();

  constructor(address: Address, settings: Settings) {
    this.address = address;
    this.#settings = settings;
  }

  /** Sends a request, and returns the answer or why there is none. `signal` ends it. */
  async exchange(request: Request, signal: AbortSignal): Promise<Answer | Failure> {
    if (!(await this.#enter(signal))) {
      return new Failure("is busy with other requests of this client", false);
    }
    try {
      return await this.#send(request, signal);
    } catch (error) {
      return this.#failure(error);
    } finally {
      this.#leave();
    }
  }

  async #send(request: Request, signal: AbortSignal): Promise<Answer> {
    const { fetch, token } = this.#settings;
    const headers: Record<string, string> = {
      accept: "application/json",
      "user-agent": `keymill-typescript/${VERSION}`,
      ...token.headers(),
    };
    if (request.body !== undefined) {
      headers["content-type"] = "application/json";
    }
    const response = await fetch(this.address.base + request.path, {
      method: request.method,
      headers,
      body: request.body ?? null,
      // Whoever redirects is not to get the token.
      redirect: "manual",
      signal,
    });
    return {
      status: response.status,
      body: await readBody(response),
      header: (name) => response.headers.get(name) ?? undefined,
    };
  }

  /** Waits for its turn. Returns whether it came. */
  #enter(signal: AbortSignal): Promise<boolean> | boolean {
    if (signal.aborted) {
      return false;
    }
    if (this.#underWay < REQUESTS_MAX) {
      this.#underWay += 1;
      return true;
    }
    return new Promise((resolve) => {
      const settle = (isIn: boolean) => {
        this.#waiting.delete(enter);
        signal.removeEventListener("abort", giveUp);
        resolve(isIn);
      };
      const enter = () => settle(true);
      const giveUp = () => settle(false);
      signal.addEventListener("abort", giveUp);
      this.#waiting.add(enter);
    });
  }

  /** Passes the place on to who has waited longest. */
  #leave(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#underWay -= 1;
    } else {
      next();
    }
  }

  #failure(error: unknown): Failure {
    // `fetch` only says that it failed; what is behind that is its cause, or the first of several.
    const causes: unknown[] = [];
    let cause = error;
    while (cause instanceof Error && causes.length < 5) {
      causes.push(cause);
      cause = cause instanceof AggregateError ? cause.errors[0] : cause.cause;
    }
    const last = (causes.at(-1) ?? {}) as { message?: string; code?: string; syscall?: string };
    let problem = last.message || last.code || String(error);
    let wasConnecting = CONNECTING.has(last.syscall ?? "") || CONNECTING.has(last.code ?? "");
    if (problem === "bad port") {
      problem = "`fetch` connects to no server on this port; have it listen on another one";
      wasConnecting = true;
    }
    return wasConnecting
      ? new Failure(this.#settings.token.hide(`cannot be reached: ${problem}`), false)
      : new Failure(this.#settings.token.hide(`gave no answer: ${problem}`), true);
  }
}

async function readBody(response: Response): Promise<string> {
  if (response.body === null) {
    return "";
  }
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength;
    if (size > ANSWER_MAX) {
      throw new Error(`the answer has more than ${ANSWER_MAX} bytes`);
    }
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
