/** The settings of a keyspace, and how they are sent and read. */

import type { Fields } from "./fields.js";

/** One of these texts, or one that a later server has. */
export type Open<T extends string> = T | (string & Record<never, never>);

/** Where a keyspace's keys come from. */
export type Kind = Open<"shuffled" | "sequential" | "pooled" | "digest" | "snowflake" | "uuid">;

/**
 * The settings of a keyspace. One that is left out has the server's default.
 *
 * The format of the keys is permanent. What is marked as changeable is set by every `ensure`.
 */
export interface Definition {
  readonly kind?: Kind | undefined;
  /** `base62`, `base58`, `base36`, `base32`, `base64url`, `hex`, `decimal`, `safe`, or the characters themselves. */
  readonly alphabet?: string | undefined;
  /** Length of a key, without prefix and check; 0 writes plain integers. */
  readonly length?: number | undefined;
  /** What every key begins with. */
  readonly prefix?: string | undefined;
  /** A hyphen after every so many characters; 0 for none. */
  readonly group?: number | undefined;
  /** Whether a check character ends every key. */
  readonly check?: boolean | undefined;
  /** The distance between two numbers: more than 1 shares one keyspace among stores. */
  readonly step?: number | undefined;
  /** The first number, below `step`. */
  readonly offset?: number | undefined;
  /** With kind `digest`: how inputs are compared. */
  readonly normalize?: Open<"none" | "url" | "url-decoded"> | undefined;
  /** With kind `snowflake`: the bits of time, worker and sequence, such as `41/10/12`. */
  readonly layout?: string | undefined;
  /** With kind `snowflake`: the start of the time count. */
  readonly epoch?: Date | undefined;
  /** With kind `uuid`: 7 or 4. */
  readonly uuidVersion?: number | undefined;
  /** The first ordinal to grant; only when the keyspace is created. */
  readonly start?: number | bigint | undefined;
  /** The fewest keys an instance leases at once; changeable. */
  readonly leaseSizeMin?: number | undefined;
  /** The most keys an instance leases at once; changeable. */
  readonly leaseSizeMax?: number | undefined;
  /** Seconds of demand that instances keep leased in memory; changeable. */
  readonly horizonSeconds?: number | undefined;
  /** Whether keys that the blocklist matches are skipped; changeable. */
  readonly blocklist?: boolean | undefined;
  /** `key` records every key with its time and caller; changeable. */
  readonly audit?: Open<"batch" | "key"> | undefined;
  /** A pool with fewer keys than this is filled; changeable. */
  readonly lowWater?: number | undefined;
  /** How many seconds a pool's key is valid once it is handed out; 0 means forever; changeable. */
  readonly ttlSeconds?: number | undefined;
  /** With audit `key`: how many seconds a pool's keys stay reserved for an instance that does not hand them out; changeable. */
  readonly reserveSeconds?: number | undefined;
  /** With kind `snowflake`: how many seconds ahead an instance holds its worker number; changeable. */
  readonly windowSeconds?: number | undefined;
}

/** What is set, as servers read it. */
export function definitionToJson(definition: Definition): string {
  const settings = Object.entries(definition).filter(([, value]) => value !== undefined);
  const written = settings.map(([name, value]) => {
    const text = typeof value === "bigint" ? value.toString() : JSON.stringify(value);
    return `${JSON.stringify(snakeCase(name))}:${text}`;
  });
  return `{${written.join(",")}}`;
}

/** The settings in an answer. */
export function readDefinition(found: Fields): Definition {
  return {
    kind: found.optionalText("kind"),
    alphabet: found.optionalText("alphabet"),
    length: found.optionalNumber("length"),
    prefix: found.optionalText("prefix"),
    group: found.optionalNumber("group"),
    check: found.optionalFlag("check"),
    step: found.optionalNumber("step"),
    offset: found.optionalNumber("offset"),
    normalize: found.optionalText("normalize"),
    layout: found.optionalText("layout"),
    epoch: found.optionalTime("epoch"),
    uuidVersion: found.optionalNumber("uuid_version"),
    leaseSizeMin: found.optionalNumber("lease_size_min"),
    leaseSizeMax: found.optionalNumber("lease_size_max"),
    horizonSeconds: found.optionalNumber("horizon_seconds"),
    blocklist: found.optionalFlag("blocklist"),
    audit: found.optionalText("audit"),
    lowWater: found.optionalNumber("low_water"),
    ttlSeconds: found.optionalNumber("ttl_seconds"),
    reserveSeconds: found.optionalNumber("reserve_seconds"),
    windowSeconds: found.optionalNumber("window_seconds"),
  };
}

/** `leaseSizeMin` as `lease_size_min`. */
function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
