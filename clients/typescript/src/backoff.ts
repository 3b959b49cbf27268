/**
 * Back-off and the retry budget: how long to wait after a failure, and how often to try again.
 *
 * `attempts` and the refill of a cache wait by it; `servers` leaves a failing server alone for it. Nothing here sleeps.
 */

const FIRST = 50;
const LONGEST = 2_000;

/** Waits that double after each failure, with jitter, so that clients that lost one server do not return in step. */
export class Backoff {
  #failures = 0;

  /** The next wait: anything up to the bound ("full jitter"). */
  next(): number {
    return Math.random() * this.#raise();
  }

  /** The next wait that is at least half of the bound: for leaving somebody alone, rather than for spreading out. */
  nextHalf(): number {
    return (0.5 + Math.random() / 2) * this.#raise();
  }

  /** After a success. */
  reset(): void {
    this.#failures = 0;
  }

  #raise(): number {
    const bound = Math.min(LONGEST, FIRST * 2 ** Math.min(this.#failures, 16));
    this.#failures += 1;
    return bound;
  }
}

/** What a retry takes; a call adds one. */
const RETRY = 5;
const STARTING = 10;
/** How many retries can be saved up: enough for the calls that are under way when a busy server is killed. */
const SAVED_MAX = 500;

/**
 * How often requests may be sent again, over all calls of a client.
 *
 * Over the life of a client, retries are at most a fifth of its calls, and ten more. Without a bound, servers that answer
 * slowly would get every request several times, at the worst moment.
 */
export class Budget {
  #left = STARTING * RETRY;

  addCall(): void {
    this.#left = Math.min(this.#left + 1, SAVED_MAX * RETRY);
  }

  /** Takes a retry, if one is left. */
  takeRetry(): boolean {
    if (this.#left < RETRY) {
      return false;
    }
    this.#left -= RETRY;
    return true;
  }
}
