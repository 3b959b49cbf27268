/**
 * A call: an attempt at one server after the other, until one answers or it makes no sense to go on.
 *
 * Every call of a client comes through `attempt`, and so does the refill of a cache.
 *
 * - Requests that servers may have seen are repeated only within the retry budget. A request that never left costs none:
 *   no server has more to do because of it.
 * - A call ends by its deadline.
 */

import { setTimeout as sleep } from "node:timers/promises";

import { Backoff } from "./backoff.js";
import {
  BadAnswer,
  Exhausted,
  type KeymillError,
  NoKeysReady,
  RateLimited,
  Unauthorized,
  Unavailable,
  Unreachable,
} from "./errors.js";
import { type Answer, Failure } from "./line.js";
import { errorOf, retryAfterOf } from "./problems.js";
import type { Call } from "./requests.js";
import type { Server, Servers } from "./servers.js";
import type { Settings } from "./settings.js";

/** How long a call may take, and what ends it. */
export interface Bounds {
  /** How many milliseconds it may take. */
  readonly timeout: number;
  /** Ends it early. */
  readonly signal: AbortSignal;
  /**
   * Whether it is for a cache, which tries again by itself: then each server is asked once at most, and no timer keeps the
   * process running.
   */
  readonly isBackground: boolean;
}

/** Tries servers until one answers, and returns what it says. */
export async function attempt<T>(servers: Servers, settings: Settings, call: Call<T>, bounds: Bounds): Promise<T> {
  servers.budget.addCall();
  const deadline = performance.now() + bounds.timeout;
  const met = new Met(servers);
  let hasReloaded = false;
  for (;;) {
    let now = performance.now();
    const server = met.isRateLimited ? undefined : servers.pick(met.tried, now);
    if (server === undefined) {
      const wait = met.wait(now);
      if (bounds.isBackground || met.isExhausted || now + wait >= deadline) {
        throw met.failure();
      }
      await pause(wait, bounds.signal, false);
      met.beginRound();
      continue;
    }
    const end = now + settings.attemptTimeout;
    const outcome = await exchange(server, call, Math.min(end, deadline) - now, bounds);
    now = performance.now();
    if (outcome instanceof Failure) {
      // Where the caller's time was too short, the server is not to blame.
      met.failed(server, outcome, now >= end || now < deadline, now);
      if (outcome.wasSent && !servers.budget.takeRetry()) {
        throw met.failure();
      }
    } else {
      if (outcome.status >= 200 && outcome.status < 300) {
        server.answered(true, now);
        return read(call, outcome, server);
      }
      const error = errorOf(outcome, server.name, (text) => settings.token.hide(text));
      server.answered(!(error instanceof NoKeysReady || error instanceof Unavailable), now);
      if (met.isDoubtful && error.code === call.doneCode) {
        return read(call, outcome, server);
      }
      if (error instanceof Unauthorized && !hasReloaded && settings.token.reload()) {
        hasReloaded = true;
        met.tried.delete(server);
        continue;
      }
      if (!met.refused(error) || !servers.budget.takeRetry()) {
        throw met.failure();
      }
    }
    if (now >= deadline) {
      throw met.failure();
    }
  }
}

/** Waits, or throws the reason of the signal. */
export async function pause(time: number, signal: AbortSignal, isBackground: boolean): Promise<void> {
  try {
    await sleep(time, undefined, { signal, ref: !isBackground });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
}

/** Sends the request to a server, and gives it so much time. */
async function exchange<T>(server: Server, call: Call<T>, time: number, bounds: Bounds): Promise<Answer | Failure> {
  const ending = new AbortController();
  const abort = () => ending.abort();
  bounds.signal.throwIfAborted();
  bounds.signal.addEventListener("abort", abort);
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    ending.abort();
  }, time);
  if (bounds.isBackground) {
    timer.unref();
  }
  try {
    const outcome = await server.line.exchange(call.request, ending.signal);
    // An answer that came in time counts: it may have keys in it.
    if (outcome instanceof Failure) {
      bounds.signal.throwIfAborted();
      return isLate ? new Failure(`did not answer within ${Math.round(time)} ms`, outcome.wasSent) : outcome;
    }
    return outcome;
  } finally {
    clearTimeout(timer);
    bounds.signal.removeEventListener("abort", abort);
  }
}

/** Reads an answer. One that cannot be read is reported with who gave it. */
function read<T>(call: Call<T>, answer: Answer, server: Server): T {
  try {
    return call.read(answer);
  } catch (error) {
    if (!(error instanceof BadAnswer)) {
      throw error;
    }
    throw new BadAnswer(error.detail, { code: error.code, status: answer.status, server: server.name });
  }
}

/** What a call has met so far. */
class Met {
  readonly tried = new Set<Server>();
  /** An attempt may have had its effect, although there was no answer. */
  isDoubtful = false;
  /** A server said that there are no keys left. Others may still hold some. */
  isExhausted = false;
  /** A server said that this client asks too much. Asking another one instead would evade the limit. */
  isRateLimited = false;
  readonly #servers: Servers;
  readonly #backoff = new Backoff();
  #error: KeymillError | undefined;
  #retryAfter = 0;

  constructor(servers: Servers) {
    this.#servers = servers;
  }

  beginRound(): void {
    this.tried.clear();
    this.isRateLimited = false;
  }

  /** Notes what a server said. Returns whether another attempt may succeed. */
  refused(error: KeymillError): boolean {
    // What one server says of the keyspace is worth more than that another is not ready.
    if (!this.isExhausted || error instanceof Exhausted) {
      this.#error = error;
    }
    if (error instanceof Exhausted) {
      this.isExhausted = true;
      return this.tried.size < this.#servers.all.length;
    }
    this.isRateLimited = error instanceof RateLimited;
    this.#retryAfter = Math.max(this.#retryAfter, retryAfterOf(error));
    return error instanceof NoKeysReady || error instanceof Unavailable || error instanceof RateLimited;
  }

  /** Notes that there was no answer. */
  failed(server: Server, failure: Failure, isFault: boolean, now: number): void {
    this.isDoubtful ||= failure.wasSent;
    if (isFault) {
      server.failed(failure.problem, now);
    }
    // An answer says more than that another server gave none.
    if (this.#error === undefined || this.#error instanceof Unreachable) {
      const detail = `${server.name} ${failure.problem}`;
      this.#error = new Unreachable(detail, { code: "unreachable", server: server.name });
    }
  }

  /** How long to wait until the next round. */
  wait(now: number): number {
    const asked = this.#retryAfter;
    this.#retryAfter = 0;
    // On top of what servers ask for, so that those who were sent away together do not return in step.
    return Math.max(asked + this.#backoff.next(), this.#servers.readyIn(now));
  }

  failure(): KeymillError {
    const detail = () => `no server can be asked at present: ${this.#servers.problems()}`;
    return this.#error ?? new Unreachable(detail(), { code: "unreachable" });
  }
}
