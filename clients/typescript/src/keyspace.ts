/** One keyspace: every call that concerns it, one request each. */

import type { Alias, Digest, Explanation, KeyspaceInfo, UsedKey } from "./answers.js";
import { CachedKeyspace } from "./cache.js";
import { type CacheOptions, checkCacheSettings } from "./cache-settings.js";
import type { Calls } from "./calls.js";
import type { Definition } from "./definition.js";
import { unreadable } from "./fields.js";
import * as requests from "./requests.js";
import type { CallOptions } from "./settings.js";

const INSPECT = Symbol.for("nodejs.util.inspect.custom");

/** What a call about inputs can be given. */
export interface DigestOptions extends CallOptions {
  /** The same input has another key in another scope. */
  readonly scope?: string | undefined;
}

/** What a call about an alias can be given. */
export interface AliasOptions extends CallOptions {
  /** Who the alias belongs to: only this owner can ask for it again, and remove it. */
  readonly owner?: string | undefined;
}

/**
 * A keyspace, by its name: `keymill.keyspace("links")`.
 *
 * Every call asks a server, and another one if that does not answer, until its timeout. All calls here are safe to repeat,
 * and are repeated. Aliases, digests and definitions are the same whether they are asked for once or twice; the keys of a
 * take whose answer was lost stay unused.
 */
export class Keyspace {
  /** Its name. */
  readonly name: string;
  readonly #calls: Calls;
  readonly #caller: string;

  /** @internal */
  constructor(calls: Calls, name: string, caller: string) {
    this.name = name;
    this.#calls = calls;
    this.#caller = caller;
  }

  /** Keys that are fetched ahead and handed out from memory. Nothing is fetched before the first take. */
  cached(options: CacheOptions = {}): CachedKeyspace {
    const source = {
      take: (count: number, bounds: CallOptions) => this.#take(count, bounds, true),
      show: (bounds: CallOptions) => this.#calls.send(requests.show(this.name), bounds, true),
    };
    return new CachedKeyspace(this, this.#calls, source, checkCacheSettings(options));
  }

  /** Takes a key. Needs the right `take`. */
  async take(options?: CallOptions): Promise<string> {
    const { keys } = await this.#take(1, options);
    const [key] = keys;
    if (key === undefined) {
      throw unreadable("it has no keys");
    }
    return key;
  }

  /**
   * Takes several keys at once: fewer than `count` only if the keyspace has no more. Servers allow 100,000 at once, unless
   * they are set otherwise.
   */
  async takeMany(count: number, options?: CallOptions): Promise<string[]> {
    const { keys } = await this.#take(count, options);
    return [...keys];
  }

  /** Keys without end, each taken when it is asked for, by one request. */
  async *keys(options?: CallOptions): AsyncGenerator<string, never, undefined> {
    for (;;) {
      yield await this.take(options);
    }
  }

  /** The key of an input, in a keyspace of kind `digest`: always the same. Needs the right `name`. */
  async digest(input: string, options: DigestOptions = {}): Promise<Digest> {
    return this.#calls.send(requests.digest(this.name, input, options.scope ?? ""), options);
  }

  /** The keys of several inputs, in their order, by one request. Needs the right `name`. */
  async digestMany(inputs: Iterable<string>, options: DigestOptions = {}): Promise<string[]> {
    return this.#calls.send(requests.digestMany(this.name, [...inputs], options.scope ?? ""), options);
  }

  /**
   * Reserves a key of your choice, and returns whether it is new: if not, it already belongs to this owner, or was reserved
   * by an attempt whose answer was lost. Needs the right `name`.
   */
  async addAlias(alias: string, options: AliasOptions = {}): Promise<boolean> {
    return this.#calls.send(requests.addAlias(this.name, alias, options.owner ?? ""), options);
  }

  /** Removes an alias. Its key stays reserved and is never handed out. Needs the right `name`. */
  async removeAlias(alias: string, options: AliasOptions = {}): Promise<void> {
    return this.#calls.send(requests.removeAlias(this.name, alias, options.owner ?? ""), options);
  }

  /** An alias with its owner and when it was added. Needs the right `read`. */
  async alias(alias: string, options?: CallOptions): Promise<Alias> {
    return this.#calls.send(requests.alias(this.name, alias), options);
  }

  /** All aliases, ordered by name, a page at a time. Needs the right `read`. */
  aliases(options?: CallOptions): AsyncGenerator<Alias, void, undefined> {
    return this.#calls.pages((after) => requests.aliases(this.name, after), options);
  }

  /** Explains where a key came from. Needs the right `read`. */
  async explain(key: string, options?: CallOptions): Promise<Explanation> {
    return this.#calls.send(requests.explain(this.name, key), options);
  }

  /** Retires a key that was handed out: its record says so from now on. Needs the right `name`. */
  async retire(key: string, options?: CallOptions): Promise<UsedKey> {
    return this.#calls.send(requests.retire(this.name, key), options);
  }

  /**
   * Creates the keyspace, unless it exists already; then its changeable settings are set to these. Needs the right `admin`.
   */
  async ensure(definition: Definition = {}, options?: CallOptions): Promise<KeyspaceInfo> {
    return this.#calls.send(requests.ensure(this.name, definition), options);
  }

  /** Its settings and usage. Needs the right `read`. */
  async show(options?: CallOptions): Promise<KeyspaceInfo> {
    return this.#calls.send(requests.show(this.name), options);
  }

  /** @internal */
  [INSPECT](): string {
    return `Keyspace(${this.name})`;
  }

  async #take(count: number, options?: CallOptions, isBackground = false) {
    return this.#calls.send(requests.take(this.name, count, this.#caller), options, isBackground);
  }
}
