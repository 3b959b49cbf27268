/** The client: what every use of this package begins with. */

import type { KeyspaceInfo } from "./answers.js";
import { Calls } from "./calls.js";
import { Keyspace } from "./keyspace.js";
import { keyspaces } from "./requests.js";
import { type CallOptions, checkSettings, type KeymillOptions } from "./settings.js";

const INSPECT = Symbol.for("nodejs.util.inspect.custom");

/** What a keyspace can be given. */
export interface KeyspaceOptions {
  /** Who its keys are for, which is recorded with them where `audit = "key"`. */
  readonly caller?: string | undefined;
}

/**
 * A client of one or several servers of the same store.
 *
 * Nothing is sent before the first call. Make one for each process, or each worker thread, and keep it: retries and failures
 * of servers are counted over all its calls.
 */
export class Keymill {
  readonly #calls: Calls;

  /** Throws `BadSettings` if the options cannot be used. */
  constructor(options: KeymillOptions = {}) {
    this.#calls = new Calls(checkSettings(options));
  }

  /** The names of its servers. */
  get servers(): string[] {
    return this.#calls.settings.addresses.map((address) => address.name);
  }

  /** A keyspace by its name. Nothing is sent: whether it exists shows with the first call. */
  keyspace(name: string, options: KeyspaceOptions = {}): Keyspace {
    return new Keyspace(this.#calls, name, options.caller ?? "");
  }

  /** All keyspaces, ordered by name, a page at a time. Needs the right `read` for all keyspaces. */
  keyspaces(options?: CallOptions): AsyncGenerator<KeyspaceInfo, void, undefined> {
    return this.#calls.pages(keyspaces, options);
  }

  /** Ends its calls and its caches. Keys in the caches stay unused: a gap. */
  async close(): Promise<void> {
    this.#calls.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  toJSON(): { servers: string[] } {
    return { servers: this.servers };
  }

  /** @internal */
  [INSPECT](): string {
    return `Keymill(${this.servers.join(", ")})`;
  }
}
