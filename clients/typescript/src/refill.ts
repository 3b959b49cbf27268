/**
 * The refill: keeps the stock of a cache filled.
 *
 * A take that reaches the mark, or finds no keys, wakes it. It fetches one batch at a time, from whichever server answers,
 * until there is enough, and goes on trying while none does. It keeps no process running: its timers are unreferenced.
 *
 * - One fetch at a time: only this adds keys to the stock.
 * - The age of a key counts from before it was asked for.
 * - Keys do not outlive what gave the right to them: a seal, and a token that is refused, drop them all.
 */

import type { KeyspaceInfo } from "./answers.js";
import { pause } from "./attempts.js";
import { Backoff } from "./backoff.js";
import type { CacheSettings } from "./cache-settings.js";
import { Demand } from "./demand.js";
import {
  BadAnswer,
  Forbidden,
  KeymillError,
  NoKeysReady,
  RateLimited,
  Sealed,
  Unauthorized,
  Unavailable,
  Unreachable,
} from "./errors.js";
import { retryAfterOf } from "./problems.js";
import type { Batch } from "./requests.js";
import type { CallOptions } from "./settings.js";
import type { Stock } from "./stock.js";

/** How long a refusal is repeated to callers, before servers are asked again. */
const ASK_AGAIN = 1_000;
/** To read more at once would hold up the event loop for milliseconds. */
const FETCH_MAX = 10_000;
/** How many batches are held at most: a token that may take few keys at once fills the cache as it is used. */
const BATCHES_MAX = 64;
/** The rate is looked at after this many draws, or more. */
const LOOK_MIN = 32;
/** The longest pause that a server can ask for. */
const RETRY_AFTER_MAX = 60_000;
/** How long the settings of a keyspace may take to be read once more. */
const LOOK_TIME_MAX = 1_000;

/** Where keys come from. */
export interface Source {
  take(count: number, options: CallOptions): Promise<Batch>;
  show(options: CallOptions): Promise<KeyspaceInfo>;
}

/** Whom the refill works for. */
export interface Client {
  /** How many callers wait for a key. */
  waiting(): number;
  /** Learns that there are keys, or that callers can expect something else from now on. */
  changed(): void;
}

/** What callers can expect who find no keys. */
export interface Outlook {
  readonly state: "starting" | "on" | "failing" | "refused" | "off";
  /** Why the last fetch failed. */
  readonly error?: KeymillError;
  /** Why it is off. */
  readonly reason?: string;
}

/** What keeps a stock filled. */
export class Refill {
  outlook: Outlook = { state: "starting" };
  readonly #source: Source;
  readonly #stock: Stock;
  readonly #settings: CacheSettings;
  readonly #client: Client;
  readonly #demand = new Demand(performance.now());
  readonly #backoff = new Backoff();
  readonly #closing = new AbortController();
  #isRunning = false;
  #since = 0;
  /** When the settings of the keyspace were last looked at. */
  #lookedAt: number | undefined;
  /** The most that servers give at once. */
  #fetchMax = FETCH_MAX;
  /** The most to ask for at present: servers that are short of keys may still have some. */
  #askMax = FETCH_MAX;
  #lastFetch: { readonly count: number; readonly at: number } | undefined;
  #drawnAtFetch = 0;
  #lifetime: number;
  #refresh: NodeJS.Timeout | undefined;

  constructor(source: Source, stock: Stock, settings: CacheSettings, client: Client) {
    this.#source = source;
    this.#stock = stock;
    this.#settings = settings;
    this.#client = client;
    this.#lifetime = settings.maxAge;
  }

  /** Keys a second that are taken. */
  get rate(): number {
    return this.#demand.rate * 1_000;
  }

  /** How many keys it aims to hold. */
  get target(): number {
    return this.#demand.target(this.#settings, this.#lifetime);
  }

  /** Why servers refuse to give out more, if they said so just now. */
  get refusal(): KeymillError | undefined {
    const isRecent = performance.now() - this.#since < ASK_AGAIN;
    return this.outlook.state === "refused" && isRecent ? this.outlook.error : undefined;
  }

  /** Has it look whether keys are wanted. */
  wake(): void {
    if (this.#isRunning || this.#closing.signal.aborted || this.refusal !== undefined) {
      return;
    }
    // Settings can change. They are looked at again, if somebody takes keys.
    if (this.outlook.state === "off" && !this.#needsLook(Math.max(this.#settings.maxAge, ASK_AGAIN))) {
      return;
    }
    this.#isRunning = true;
    void this.#run();
  }

  close(): void {
    clearTimeout(this.#refresh);
    this.#closing.abort();
  }

  async #run(): Promise<void> {
    clearTimeout(this.#refresh);
    // It begins when half of the target is used, and then fills it up.
    let part = 0.5;
    while (this.#missing(part) > 0) {
      try {
        if (!(await this.#look())) {
          break;
        }
        await this.#fetch(this.#missing(part));
      } catch (error) {
        if (!(await this.#bear(error))) {
          break;
        }
      }
      part = 0.9;
    }
    // From here on nothing is awaited, so that no draw slips between.
    this.#isRunning = false;
    if (!this.#closing.signal.aborted) {
      this.#rest();
    }
  }

  /** How many keys to fetch, if no more than this part of the target is there. */
  #missing(part: number): number {
    const now = performance.now();
    this.#stock.prune(now);
    this.#demand.sample(this.#stock.drawn, now);
    const fresh = this.#stock.fresh(now);
    if (this.#closing.signal.aborted || this.#stock.batchCount >= BATCHES_MAX || fresh > this.target * part) {
      return 0;
    }
    const wanted = Math.max(this.target - fresh, this.#client.waiting());
    return Math.max(1, Math.min(wanted, this.#fetchMax, this.#askMax));
  }

  /** Has the draw wake it that leaves half of the target, or an earlier one, and a timer before keys end. */
  #rest(): void {
    const now = performance.now();
    const spare = this.#stock.fresh(now) - Math.floor(this.target / 2);
    // If the rate has risen, so has the target: it is looked at more often than there is something to fetch.
    const look = Math.max(LOOK_MIN, Math.floor(this.target / 8));
    this.#stock.setMark(this.#stock.left(now) - Math.max(1, Math.min(spare, look)));
    const refreshAt = this.#stock.refreshAt(now);
    if (refreshAt !== Number.POSITIVE_INFINITY) {
      this.#refresh = setTimeout(() => {
        // Keys that nobody used are not replaced when they end.
        if (this.#stock.drawn > this.#drawnAtFetch) {
          this.wake();
        }
      }, refreshAt - now).unref();
    }
  }

  /** Fetches keys once. */
  async #fetch(count: number): Promise<void> {
    const askedAt = performance.now();
    let batch: Batch;
    try {
      batch = await this.#source.take(count, { signal: this.#closing.signal });
    } catch (error) {
      if (error instanceof NoKeysReady) {
        this.#askMax = Math.max(1, Math.floor(count / 2));
      }
      if (!(isTooMuch(error) && count > 1)) {
        throw error;
      }
      this.#fetchMax = Math.floor(count / 2);
      if (error.isRetryable) {
        // Memory of the server may be free again in a moment; limits stay.
        throw error;
      }
      return;
    }
    const now = performance.now();
    const lifetime = Math.min(this.#settings.maxAge - (now - askedAt), batch.lifetime ?? Number.POSITIVE_INFINITY);
    if (lifetime <= 0) {
      throw new BadAnswer("keys expire before they arrive; is a clock wrong?", { code: "bad_answer" });
    }
    if (this.#closing.signal.aborted) {
      return;
    }
    const shouldLast = this.#lastFetch !== undefined && now - this.#lastFetch.at < this.#settings.horizon / 2;
    if (this.#lastFetch !== undefined && shouldLast && this.#stock.left(now) === 0) {
      this.#demand.ranDry(this.#lastFetch.count);
    } else {
      this.#demand.sufficed();
    }
    this.#lastFetch = { count, at: now };
    this.#drawnAtFetch = this.#stock.drawn;
    this.#lifetime = lifetime;
    this.#stock.add(batch.keys, now, lifetime);
    this.#backoff.reset();
    this.#askMax = Math.min(this.#askMax * 2, FETCH_MAX);
    this.#set({ state: "on" });
  }

  /** Finds out whether keys of this keyspace may be kept, and returns it. */
  async #look(): Promise<boolean> {
    if (this.#settings.anyKeyspace || !this.#needsLook(this.#settings.maxAge)) {
      return true;
    }
    const { signal } = this.#closing;
    const hasLooked = this.#lookedAt !== undefined;
    let why: string | undefined;
    let age = 0;
    try {
      why = whyOff(await this.#source.show(hasLooked ? { signal, timeout: LOOK_TIME_MAX } : { signal }));
    } catch (error) {
      if (error instanceof Forbidden) {
        why = "the token may not read the settings of the keyspace: it needs the right `read`";
      } else if (!hasLooked || !(error instanceof KeymillError) || isRefusal(error)) {
        throw error;
      } else {
        // What was found out before holds for now: servers may give out keys while they cannot read settings.
        age = this.#settings.maxAge * 0.9;
      }
    }
    this.#lookedAt = performance.now() - age;
    if (why !== undefined) {
      this.#stock.clear();
      this.#set({ state: "off", reason: why });
    }
    return why === undefined;
  }

  #needsLook(age: number): boolean {
    return this.#lookedAt === undefined || performance.now() - this.#lookedAt >= age;
  }

  /** Deals with a failure, and returns whether to go on, after a pause. */
  async #bear(reason: unknown): Promise<boolean> {
    const { signal } = this.#closing;
    if (signal.aborted) {
      return false;
    }
    const error =
      reason instanceof KeymillError
        ? reason
        : new KeymillError(`keys cannot be fetched: ${reason}`, { code: "failed" });
    if (error instanceof Sealed || error instanceof Unauthorized || error instanceof Forbidden) {
      this.#stock.clear();
    }
    if (isRefusal(error)) {
      this.#set({ state: "refused", error });
      return false;
    }
    this.#set({ state: "failing", error });
    const wait = Math.max(this.#backoff.next(), Math.min(retryAfterOf(error), RETRY_AFTER_MAX));
    return pause(wait, signal, true).then(
      () => true,
      () => false,
    );
  }

  #set(outlook: Outlook): void {
    this.outlook = outlook;
    this.#since = performance.now();
    this.#client.changed();
  }
}

/** Whether fewer keys at once may be given. */
function isTooMuch(error: unknown): error is KeymillError {
  return error instanceof KeymillError && ["bad_count", "above_burst", "too_many_large_answers"].includes(error.code);
}

/** Whether asking again makes no sense until somebody does something. */
function isRefusal(error: KeymillError): boolean {
  const passing = [NoKeysReady, RateLimited, Unavailable, Unreachable, BadAnswer];
  return !passing.some((kind) => error instanceof kind) && (error.status ?? 0) < 500;
}

/** Why keys of such a keyspace are not to be fetched ahead. */
function whyOff({ definition }: KeyspaceInfo): string | undefined {
  if (definition.audit === "key") {
    return 'it records every key when it is fetched, not when it is used (`audit = "key"`)';
  }
  if (definition.kind === "pooled") {
    return "its keys come from a pool, and those fetched in vain would be lost";
  }
  if (definition.kind === "snowflake") {
    return "its keys are ordered by time, which fetching ahead would disturb";
  }
  return undefined;
}
