/**
 * The errors of every call: one class for each reaction that a program may have.
 *
 * `problems` makes them of answers, `attempts` of what happened on the way to one.
 */

/** What every error has. */
export interface ErrorFields {
  readonly code: string;
  readonly status?: number | undefined;
  readonly requestId?: string | undefined;
  readonly server?: string | undefined;
}

/** Why a call failed. */
export class KeymillError extends Error {
  /**
   * The stable code: of the server, such as `unknown_space`, or `unreachable`, `bad_answer`, `bad_settings` or `closed`
   * of the client.
   */
  readonly code: string;
  /** What happened and what to do about it, for people. */
  readonly detail: string;
  /** The HTTP status, if a server answered. */
  readonly status: number | undefined;
  /** The ID under which the server's log has the request. */
  readonly requestId: string | undefined;
  /** The server that answered, or that was tried last. */
  readonly server: string | undefined;

  constructor(detail: string, fields: ErrorFields) {
    super(`${detail} (${fields.server === undefined ? fields.code : `${fields.code}, ${fields.server}`})`);
    this.code = fields.code;
    this.detail = detail;
    this.status = fields.status;
    this.requestId = fields.requestId;
    this.server = fields.server;
  }

  /**
   * Whether the same call may succeed later without anybody doing something. The client has tried again already, as far
   * as its timeout and its retry budget allowed.
   */
  get isRetryable(): boolean {
    return false;
  }
}

/** The keyspace, or its pool, has no keys left. */
export class Exhausted extends KeymillError {
  /** How many keys other instances still hold, if the server knows. */
  readonly heldElsewhere: bigint | undefined;

  constructor(detail: string, fields: ErrorFields & { readonly heldElsewhere?: bigint | undefined }) {
    super(detail, fields);
    this.heldElsewhere = fields.heldElsewhere;
  }
}

/** The keyspace is sealed: it hands out no more keys. */
export class Sealed extends KeymillError {}

/** An error that passes, perhaps at a time that the server names. */
class Passing extends KeymillError {
  /** How many milliseconds to wait, if the server says so. */
  readonly retryAfter: number | undefined;

  constructor(detail: string, fields: ErrorFields & { readonly retryAfter?: number | undefined }) {
    super(detail, fields);
    this.retryAfter = fields.retryAfter;
  }

  override get isRetryable(): boolean {
    return true;
  }
}

/** The servers that were asked have no keys in memory, and got none in time. */
export class NoKeysReady extends Passing {}

/** The token, or this address, has sent too much. */
export class RateLimited extends Passing {
  /** How many milliseconds to wait. */
  declare readonly retryAfter: number;

  constructor(detail: string, fields: ErrorFields & { readonly retryAfter?: number | undefined }) {
    super(detail, { ...fields, retryAfter: fields.retryAfter ?? 1_000 });
  }
}

/** The servers that were asked cannot answer at present. */
export class Unavailable extends Passing {
  override get isRetryable(): boolean {
    // Until an operator has advanced the keyspace, trying again does not help.
    return this.code !== "store_rolled_back";
  }
}

/** No server answered in time, or none could be reached. */
export class Unreachable extends KeymillError {
  override get isRetryable(): boolean {
    return true;
  }
}

/** There is no token, or it is mistyped, unknown, expired or revoked. */
export class Unauthorized extends KeymillError {}

/** The token does not allow this. */
export class Forbidden extends KeymillError {}

/** There is no keyspace of this name. */
export class UnknownKeyspace extends KeymillError {}

/** The keyspace has no such alias. */
export class UnknownAlias extends KeymillError {}

/** The alias belongs to someone else, or may already have been handed out as a key. */
export class Taken extends KeymillError {}

/** A setting in which an existing keyspace differs from what was asked for. */
export interface Difference {
  readonly setting: string;
  /** Its value in the store. */
  readonly stored: string;
  /** The value that was asked for. */
  readonly asked: string;
}

/** The keyspace already exists with different settings. */
export class DifferentDefinition extends KeymillError {
  /** Each setting that differs. */
  readonly differences: readonly Difference[];

  constructor(detail: string, fields: ErrorFields & { readonly differences?: readonly Difference[] | undefined }) {
    super(detail, fields);
    this.differences = fields.differences ?? [];
  }
}

/** The keyspace, or its store, does not support this operation. */
export class WrongKind extends KeymillError {}

/** The request is wrong: a value is out of range, or cannot be read. */
export class Invalid extends KeymillError {}

/** What answered is not a keymill server, or one that this client does not understand. */
export class BadAnswer extends KeymillError {}

/** The settings of the client cannot be used. */
export class BadSettings extends KeymillError {
  constructor(detail: string) {
    super(detail, { code: "bad_settings" });
  }
}

/** The client, or the cache, was closed. */
export class Closed extends KeymillError {
  constructor(what: string) {
    super(`${what} is closed`, { code: "closed" });
  }
}

// Written out, because whoever bundles this may shorten the names of classes; on prototypes, because `stack` begins with
// the name that an error has when it is made.
const NAMED = {
  KeymillError,
  Exhausted,
  Sealed,
  NoKeysReady,
  RateLimited,
  Unavailable,
  Unreachable,
  Unauthorized,
  Forbidden,
  UnknownKeyspace,
  UnknownAlias,
  Taken,
  DifferentDefinition,
  WrongKind,
  Invalid,
  BadAnswer,
  BadSettings,
  Closed,
};
for (const [name, kind] of Object.entries(NAMED)) {
  kind.prototype.name = name;
}
