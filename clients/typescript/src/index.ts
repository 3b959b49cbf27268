/**
 * The TypeScript client of keymill: takes keys from one or several servers, and keeps some at hand.
 *
 * ```ts
 * const keymill = new Keymill({ servers: ["http://127.0.0.1:8080"] });
 * const links = keymill.keyspace("links").cached();
 * console.log(await links.take());
 * ```
 *
 * `Keymill` and `Keyspace` have every call, one request each; `CachedKeyspace` hands out keys that were fetched ahead. Every
 * error is a `KeymillError`, with a class for each reaction that a program may have.
 *
 * Inside, `requests` knows what is sent and how answers are read, `attempts` decides which server is asked and whether to
 * ask again (with `servers` and `backoff`), and `line` sends a request once. A cache is a `stock` that a `refill` keeps full.
 *
 * @module
 */

export type {
  Alias,
  Digest,
  Explanation,
  Instance,
  KeyState,
  KeyspaceInfo,
  Lease,
  UsedKey,
} from "./answers.js";
export type { CachedKeyspace, CacheStatus } from "./cache.js";
export type { CacheOptions } from "./cache-settings.js";
export { Keymill, type KeyspaceOptions } from "./client.js";
export type { Definition, Kind } from "./definition.js";
export {
  BadAnswer,
  BadSettings,
  Closed,
  type Difference,
  DifferentDefinition,
  Exhausted,
  Forbidden,
  Invalid,
  KeymillError,
  NoKeysReady,
  RateLimited,
  Sealed,
  Taken,
  Unauthorized,
  Unavailable,
  UnknownAlias,
  UnknownKeyspace,
  Unreachable,
  WrongKind,
} from "./errors.js";
export type { AliasOptions, DigestOptions, Keyspace } from "./keyspace.js";
export type { CallOptions, KeymillOptions } from "./settings.js";
export { VERSION } from "./version.js";
