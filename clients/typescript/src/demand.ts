/**
 * Demand: how fast keys are taken, and how many to hold.
 *
 * `refill` asks before every fetch. Pure arithmetic on the numbers and times it is given, which are in milliseconds.
 */

import type { CacheSettings } from "./cache-settings.js";

/** How long a change of the rate takes to show by half. */
const HALF_LIFE = 5_000;
/** The shortest time that a rate is measured over. */
const SAMPLE_MIN = 20;

/** The present rate: a moving average. */
export class Demand {
  /** Keys per millisecond. */
  rate = 0;
  #sampledAt: number;
  #taken = 0;
  /** How much to hold at least, because less ran out before the next keys came. */
  #atLeast = 0;

  constructor(now: number) {
    this.#sampledAt = now;
  }

  /** Learns how many keys were taken in all. */
  sample(taken: number, now: number): void {
    const elapsed = now - this.#sampledAt;
    if (elapsed < SAMPLE_MIN) {
      return;
    }
    const current = (taken - this.#taken) / elapsed;
    const keep = 0.5 ** (elapsed / HALF_LIFE);
    this.rate = this.rate * keep + current * (1 - keep);
    this.#sampledAt = now;
    this.#taken = taken;
  }

  /**
   * Learns that all keys were gone before the next ones came. The rate cannot show how many would have been taken, so the
   * next fetch is twice as large.
   */
  ranDry(lastFetch: number): void {
    this.#atLeast = lastFetch * 2;
  }

  /** Learns that keys were left when the next ones came. */
  sufficed(): void {
    this.#atLeast = Math.floor(this.#atLeast / 2);
  }

  /** How many keys to hold. What does not live as long as the horizon is held for half of its life. */
  target(settings: CacheSettings, lifetime: number): number {
    const horizon = Math.min(settings.horizon, lifetime / 2);
    const wanted = Math.max(Math.floor(this.rate * horizon), this.#atLeast);
    return Math.max(settings.keysMin, Math.min(wanted, settings.keysMax));
  }
}
