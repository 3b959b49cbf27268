/**
 * Callers who wait for a key of a cache, each up to its own deadline.
 *
 * They are served in the order in which they came. A caller who has given up is never handed a key.
 */

import { Unreachable } from "./errors.js";
import type { CallOptions } from "./settings.js";

/** One caller who waits. */
interface Waiter {
  settle(outcome: string | PromiseLike<string>): void;
  fail(error: unknown): void;
  readonly options: CallOptions;
  readonly deadline: number;
}

/** Those who wait. */
export class Waiting {
  readonly #waiters = new Set<Waiter>();

  get count(): number {
    return this.#waiters.size;
  }

  /** Waits in line. At the deadline, `whyNot` says why there is no key. */
  enter(options: CallOptions, timeout: number, whyNot: () => Error | undefined): Promise<string> {
    const { signal } = options;
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiters.delete(waiter);
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
      };
      const waiter: Waiter = {
        settle: (outcome) => {
          leave();
          resolve(outcome);
        },
        fail: (error) => {
          leave();
          reject(error);
        },
        options,
        deadline: performance.now() + timeout,
      };
      const abort = () => waiter.fail(signal?.reason);
      // Somebody waits for it, so it keeps the process running.
      const timer = setTimeout(() => {
        const detail = `no keys in memory, and none arrived within ${timeout} ms`;
        waiter.fail(whyNot() ?? new Unreachable(detail, { code: "unreachable" }));
      }, timeout);
      signal?.addEventListener("abort", abort);
      this.#waiters.add(waiter);
    });
  }

  /** Hands out keys as long as there are any. */
  serve(draw: () => string | undefined): void {
    for (const waiter of this.#waiters) {
      const key = draw();
      if (key === undefined) {
        return;
      }
      waiter.settle(key);
    }
  }

  /** Has each of them get a key in another way, within the time that is left. */
  passOn(take: (options: CallOptions) => Promise<string>): void {
    for (const waiter of this.#waiters) {
      // Time may be short, but this much is left for saying what is wrong.
      const timeout = Math.max(1, waiter.deadline - performance.now());
      waiter.settle(take({ ...waiter.options, timeout }));
    }
  }

  /** Sends everybody away. */
  fail(error: unknown): void {
    for (const waiter of this.#waiters) {
      waiter.fail(error);
    }
  }
}
