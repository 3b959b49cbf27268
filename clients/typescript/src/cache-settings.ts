/** The settings of a cache: as given, then checked. */

import { BadSettings } from "./errors.js";
import { checkTime } from "./settings.js";

/** What a cache holds, and for how long. All times are in milliseconds. */
export interface CacheOptions {
  /** How long the cache is to last at the present rate of takes; 30,000 by default. When half of it is used, more keys are fetched. */
  readonly horizon?: number | undefined;
  /** The fewest keys to hold, however rarely they are taken; 32 by default. */
  readonly keysMin?: number | undefined;
  /** The most keys to hold, however often they are taken; 100,000 by default. */
  readonly keysMax?: number | undefined;
  /**
   * How old a key may be when it is handed out; 600,000 by default. It bounds how long keys are used after the keyspace was
   * sealed, or the token revoked.
   */
  readonly maxAge?: number | undefined;
  /**
   * Caches keys of every kind of keyspace, also where a fetch is recorded as a use, keys are not to be wasted, or their
   * order matters. The settings of the keyspace are not looked at, so that the right `take` suffices.
   */
  readonly anyKeyspace?: boolean | undefined;
}

/** Settings that cannot hold anything invalid. */
export type CacheSettings = { readonly [Name in keyof CacheOptions]-?: NonNullable<CacheOptions[Name]> };

export function checkCacheSettings(options: CacheOptions): CacheSettings {
  const { keysMin = 32, keysMax = 100_000 } = options;
  if (!(Number.isSafeInteger(keysMin) && Number.isSafeInteger(keysMax) && keysMin >= 1 && keysMin <= keysMax)) {
    throw new BadSettings(
      `\`keysMin\` must be a whole number of at least 1, and \`keysMax\` not less than that, not ${keysMin} and ${keysMax}`,
    );
  }
  return {
    horizon: checkTime("horizon", options.horizon ?? 30_000),
    keysMin,
    keysMax,
    maxAge: checkTime("maxAge", options.maxAge ?? 600_000),
    anyKeyspace: options.anyKeyspace ?? false,
  };
}
