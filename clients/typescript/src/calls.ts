/**
 * What the handles of one client share: its servers, its settings, and what is under way.
 *
 * `Keymill`, its keyspaces and their caches send all their calls through here.
 */

import { attempt } from "./attempts.js";
import { Closed } from "./errors.js";
import { Line } from "./line.js";
import type { Call, Page } from "./requests.js";
import { Servers } from "./servers.js";
import { type CallOptions, checkTime, type Settings } from "./settings.js";

/** What ends with its client. */
export interface Closable {
  close(): void;
}

/** The calls of a client. */
export class Calls {
  readonly settings: Settings;
  readonly #servers: Servers;
  /** What ends each call that is under way. */
  readonly #underWay = new Set<AbortController>();
  /** Caches that were dropped without a close are not held on to. */
  readonly #caches = new Set<WeakRef<Closable>>();
  readonly #dropped = new FinalizationRegistry<WeakRef<Closable>>((cache) => this.#caches.delete(cache));
  #isClosed = false;

  constructor(settings: Settings) {
    this.settings = settings;
    this.#servers = new Servers(settings.addresses.map((address) => new Line(address, settings)));
  }

  /** Sends a request to one server after the other until one answers. `isBackground`: for a cache. */
  async send<T>(call: Call<T>, options: CallOptions = {}, isBackground = false): Promise<T> {
    const { signal } = options;
    const timeout = checkTime("timeout", options.timeout ?? this.settings.timeout);
    if (this.#isClosed) {
      throw new Closed("the client");
    }
    signal?.throwIfAborted();
    const ending = new AbortController();
    const abort = () => ending.abort(signal?.reason);
    signal?.addEventListener("abort", abort);
    this.#underWay.add(ending);
    try {
      return await attempt(this.#servers, this.settings, call, { timeout, signal: ending.signal, isBackground });
    } finally {
      this.#underWay.delete(ending);
      signal?.removeEventListener("abort", abort);
    }
  }

  /** Everything in a list, a page at a time. */
  async *pages<T>(pageAfter: (after: string | undefined) => Call<Page<T>>, options: CallOptions = {}) {
    let after: string | undefined;
    do {
      const page: Page<T> = await this.send(pageAfter(after), options);
      yield* page.items;
      after = page.next;
    } while (after !== undefined);
  }

  /** Has a cache end with the client. */
  add(cache: Closable): void {
    const reference = new WeakRef(cache);
    this.#caches.add(reference);
    this.#dropped.register(cache, reference);
  }

  /** Ends what is under way, and all caches. */
  close(): void {
    this.#isClosed = true;
    for (const cache of this.#caches) {
      cache.deref()?.close();
    }
    for (const ending of this.#underWay) {
      ending.abort(new Closed("the client"));
    }
  }
}
