/**
 * The stock of a cache: keys in memory, and handing them out.
 *
 * `refill` adds a batch for every fetch; takes draw from the oldest that has keys. Nothing here waits or does I/O.
 *
 * - A key is drawn at most once: the counter of its batch only grows, and nothing here can be copied.
 * - A key that has ended, because it is too old or has expired, is not drawn.
 */

/** The keys of one fetch. */
interface Batch {
  readonly keys: readonly string[];
  /** How many were drawn. */
  drawn: number;
  /** From then on, its keys are not handed out. */
  readonly endsAt: number;
  /** From then on, they should be replaced. */
  readonly freshUntil: number;
}

/** A mark that is never reached. */
const NEVER = -1;

/** The keys of a cache. */
export class Stock {
  /** The oldest first. */
  #batches: Batch[] = [];
  #left = 0;
  #drawn = 0;
  /** The refill is called when no more than this are left. */
  #mark = NEVER;
  readonly #onLow: () => void;

  /** `onLow` is called by the draw that reaches the mark. */
  constructor(onLow: () => void) {
    this.#onLow = onLow;
  }

  /** How many were drawn in all. */
  get drawn(): number {
    return this.#drawn;
  }

  /** How many batches there are. */
  get batchCount(): number {
    return this.#batches.length;
  }

  /** Draws a key, if there is one. */
  draw(): string | undefined {
    const batch = this.#batches[0];
    if (batch === undefined) {
      return undefined;
    }
    const now = performance.now();
    if (now >= batch.endsAt) {
      this.prune(now);
      this.#callIfLow();
      return this.draw();
    }
    const key = batch.keys[batch.drawn];
    batch.drawn += 1;
    if (batch.drawn === batch.keys.length) {
      this.#batches.shift();
    }
    this.#drawn += 1;
    this.#left -= 1;
    this.#callIfLow();
    return key;
  }

  /** How many keys can be drawn. */
  left(now: number): number {
    return this.#count((batch) => now < batch.endsAt);
  }

  /** How many keys can be drawn, without those that end soon. */
  fresh(now: number): number {
    return this.#count((batch) => now < batch.freshUntil);
  }

  /** When the next keys are to be replaced because they end; infinity if none are. */
  refreshAt(now: number): number {
    return Math.min(...this.#batches.map((batch) => batch.freshUntil).filter((at) => at > now));
  }

  /** Adds keys, which end after a lifetime. */
  add(keys: readonly string[], now: number, lifetime: number): void {
    // The last tenth of a lifetime is for replacing them.
    this.#batches.push({ keys, drawn: 0, endsAt: now + lifetime, freshUntil: now + lifetime * 0.9 });
    this.#left += keys.length;
  }

  /** Drops keys that have ended. */
  prune(now: number): void {
    this.#batches = this.#batches.filter((batch) => now < batch.endsAt);
    this.#left = this.left(now);
  }

  /** Drops all keys. */
  clear(): void {
    this.#batches = [];
    this.#left = 0;
  }

  /** Has the draw call the refill that leaves so many keys, or the next one if there are fewer. */
  setMark(left: number): void {
    this.#mark = left;
  }

  #callIfLow(): void {
    if (this.#left <= this.#mark) {
      this.#mark = NEVER;
      this.#onLow();
    }
  }

  #count(isWanted: (batch: Batch) => boolean): number {
    let count = 0;
    for (const batch of this.#batches) {
      count += isWanted(batch) ? batch.keys.length - batch.drawn : 0;
    }
    return count;
  }
}
