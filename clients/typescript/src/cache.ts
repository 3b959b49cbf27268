/**
 * The local cache: keys that were fetched ahead, handed out from memory.
 *
 * `CachedKeyspace` is the face. `stock` holds the keys and hands them out, `refill` fetches more, as many as `demand` says,
 * and `waiting` has the callers who found none.
 */

import type { CacheSettings } from "./cache-settings.js";
import type { Calls } from "./calls.js";
import { Closed, type KeymillError } from "./errors.js";
import type { Keyspace } from "./keyspace.js";
import { Refill, type Source } from "./refill.js";
import { type CallOptions, checkTime } from "./settings.js";
import { Stock } from "./stock.js";
import { Waiting } from "./waiting.js";

const INSPECT = Symbol.for("nodejs.util.inspect.custom");

/** How a cache is. */
export interface CacheStatus {
  /**
   * `starting`: it has fetched nothing yet. `on`: it hands out keys from memory. `failing`: it is on, and the last fetch
   * failed; fetching goes on. `refused`: servers refuse to give out more keys; they are asked again when keys are wanted.
   * `off`: every take asks a server, for the reason in `reason`.
   */
  readonly state: "starting" | "on" | "failing" | "refused" | "off";
  /** How many keys are in memory. */
  readonly atHand: number;
  /** How many it aims to hold. */
  readonly target: number;
  /** Keys per second that are taken from it. */
  readonly rate: number;
  /** Why it is off. */
  readonly reason: string | undefined;
  /** Why the last fetch failed. */
  readonly error: KeymillError | undefined;
}

/**
 * A keyspace whose keys are fetched ahead and handed out from memory.
 *
 * A take is answered at once while there are keys, and the next ones are fetched in the background before they are needed:
 * by default enough for the next 30 seconds at the present rate. So takes go on while no server can be reached, for as long
 * as the keys last; after that they wait, up to their timeout, while the cache goes on trying. The first take waits for the
 * first keys.
 *
 * **Fetched counts as handed out.** Keys that are in the cache when it is closed, or when the process ends, stay unused: a
 * gap. Therefore the cache is off, and every take asks a server, in keyspaces with `audit = "key"`, of kinds `pooled` and
 * `snowflake`, and whose settings the token may not read. `anyKeyspace` turns it on there too.
 *
 * Its keys are in private fields, which nothing copies: neither `structuredClone` nor a message to a worker.
 */
export class CachedKeyspace {
  readonly #keyspace: Keyspace;
  readonly #calls: Calls;
  readonly #stock: Stock;
  readonly #refill: Refill;
  readonly #waiting = new Waiting();
  #isClosed = false;

  /** @internal */
  constructor(keyspace: Keyspace, calls: Calls, source: Source, settings: CacheSettings) {
    this.#keyspace = keyspace;
    this.#calls = calls;
    this.#stock = new Stock(() => this.#refill.wake());
    this.#refill = new Refill(source, this.#stock, settings, {
      waiting: () => this.#waiting.count,
      changed: () => this.#changed(),
    });
    calls.add(this);
  }

  /** The keyspace, for calls that ask a server. */
  get keyspace(): Keyspace {
    return this.#keyspace;
  }

  /** How many keys are in memory. */
  get size(): number {
    return this.#stock.left(performance.now());
  }

  /** Takes a key: at once if there is one in memory, otherwise when the next ones arrive. */
  take(options: CallOptions = {}): Promise<string> {
    if (options.signal?.aborted) {
      return Promise.reject(options.signal.reason);
    }
    const key = this.#stock.draw();
    return key === undefined ? this.#wait(options) : Promise.resolve(key);
  }

  /** Takes a key if there is one in memory. If not, more are being fetched from now on, unless the cache is off. */
  tryTake(): string | undefined {
    const key = this.#stock.draw();
    if (key === undefined) {
      this.#refill.wake();
    }
    return key;
  }

  /** Keys without end, each taken when it is asked for. */
  async *keys(options: CallOptions = {}): AsyncGenerator<string, never, undefined> {
    for (;;) {
      yield await this.take(options);
    }
  }

  /** How it is: whether keys are handed out from memory, how many there are, and what is wrong. */
  status(): CacheStatus {
    const { outlook, target, rate } = this.#refill;
    return { state: outlook.state, atHand: this.size, target, rate, reason: outlook.reason, error: outlook.error };
  }

  /** Drops its keys, which stay unused, and ends its refill. */
  close(): void {
    this.#isClosed = true;
    this.#refill.close();
    this.#stock.clear();
    this.#waiting.fail(new Closed("the cache"));
  }

  [Symbol.dispose](): void {
    this.close();
  }

  toJSON(): { keyspace: string; atHand: number } {
    return { keyspace: this.#keyspace.name, atHand: this.size };
  }

  /** @internal */
  [INSPECT](): string {
    return `CachedKeyspace(${this.#keyspace.name}, ${this.#refill.outlook.state}, ${this.size} keys)`;
  }

  async #wait(options: CallOptions): Promise<string> {
    const timeout = checkTime("timeout", options.timeout ?? this.#calls.settings.timeout);
    if (this.#isClosed) {
      throw new Closed("the cache");
    }
    this.#refill.wake();
    if (this.#refill.outlook.state === "off") {
      return this.#keyspace.take(options);
    }
    const refusal = this.#refill.refusal;
    if (refusal !== undefined) {
      throw refusal;
    }
    return this.#waiting.enter(options, timeout, () => this.#refill.outlook.error);
  }

  /** There are keys, or callers can expect something else from now on. */
  #changed(): void {
    const { outlook } = this.#refill;
    this.#waiting.serve(() => this.#stock.draw());
    if (outlook.state === "off") {
      this.#waiting.passOn((options) => this.#keyspace.take(options));
    } else if (outlook.state === "refused") {
      this.#waiting.fail(outlook.error);
    }
  }
}
