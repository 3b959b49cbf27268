/** What calls return: plain records. Whole numbers that may exceed 2^53 are `bigint`, times are `Date`. */

import { type Definition, type Open, readDefinition } from "./definition.js";
import type { Fields } from "./fields.js";

/** The key of an input, in a keyspace of kind `digest`. */
export interface Digest {
  /** Always the same for the same input and scope. */
  readonly key: string;
  /** Whether the input is new. After a retry it may be false for an input that is. */
  readonly made: boolean;
}

/** A key of a user's choice. */
export interface Alias {
  readonly space: string;
  readonly alias: string;
  /** Empty if none was given. */
  readonly owner: string;
  readonly createdAt: Date;
}

/** A server process. */
export interface Instance {
  /** A random ID: a process that is restarted is another instance. */
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly startedAt: Date;
}

/** A range of ordinals that was granted to an instance. */
export interface Lease {
  readonly space: string;
  /** Its number within the keyspace. */
  readonly lease: bigint;
  /** The first ordinal. */
  readonly start: bigint;
  /** The ordinal after the last. */
  readonly end: bigint;
  readonly purpose: Open<"lease" | "advance" | "fill" | "window">;
  /** The instance that it was granted to. */
  readonly holder: Instance;
  readonly grantedAt: Date;
  /** The first ordinal of the lease that was not used, once the lease is closed. */
  readonly closedAtOrdinal: bigint | undefined;
  readonly closedAt: Date | undefined;
}

/** A key that is on record as used. */
export interface UsedKey {
  readonly key: string;
  /** When it was handed out; with audit `batch`, when it was claimed from the pool. */
  readonly usedAt: Date;
  /** The caller it was handed out to; empty if none was given. */
  readonly caller: string;
  /** The instance that handed it out. */
  readonly instance: string;
  readonly expiresAt: Date | undefined;
  readonly retiredAt: Date | undefined;
}

/** What is known of a key. */
export type KeyState = Open<
  | "invalid"
  | "unissued"
  | "leased"
  | "issued"
  | "skipped"
  | "alias"
  | "imported"
  | "available"
  | "reserved"
  | "retired"
  | "unknown"
>;

/** Where a key came from. */
export interface Explanation {
  readonly space: string;
  /** The key in its canonical form; if it cannot belong to the keyspace, as it was given. */
  readonly key: string;
  readonly state: KeyState;
  /** The reason for the state, in a sentence. */
  readonly reason: string;
  /** It is the n-th key of the keyspace. */
  readonly ordinal: bigint | undefined;
  /** The number behind the key, before shuffling. */
  readonly number: bigint | undefined;
  /** When it was made; known for snowflake IDs and UUIDs of version 7. */
  readonly time: Date | undefined;
  /** The worker number that made a snowflake ID. */
  readonly worker: number | undefined;
  /** The sequence number of a snowflake ID within its tick. */
  readonly sequence: number | undefined;
  /** The lease it came from. */
  readonly lease: Lease | undefined;
  /** When and to whom it was handed out, if single keys are recorded. */
  readonly used: UsedKey | undefined;
}

/** A keyspace: its settings and its usage. */
export interface KeyspaceInfo {
  readonly name: string;
  /** Its settings, all of them present that its kind has. */
  readonly definition: Definition;
  /** The fingerprint of the secret that its keys are made with, if they need one. */
  readonly fingerprint: string | undefined;
  readonly sealed: boolean;
  readonly createdAt: Date;
  /** How many keys it has in total. */
  readonly capacity: bigint;
  /** The lowest ordinal never granted. */
  readonly next: bigint;
  /** Keys granted to instances, which may have handed them out. */
  readonly leased: bigint;
  /** Aliases, keys in use elsewhere and digests on record. */
  readonly named: bigint;
  /** Keys not yet granted. */
  readonly remaining: bigint;
  /** Keys in the pool, if the keyspace has one. */
  readonly available: bigint | undefined;
  /** Keys in the memory of the server that answered, ready to be taken. */
  readonly atHand: bigint;
  /** The chance that a guess hits a key that may be in use. */
  readonly density: number;
  /** Keys per second that the server that answered currently hands out. */
  readonly rate: number;
  /** Keys per second that all servers leased, on average. */
  readonly leasedRate: number;
  /** When the keyspace will be used up at that rate. */
  readonly exhaustedAt: Date | undefined;
  /** With kind `snowflake`: when its timestamps end. */
  readonly runsOutAt: Date | undefined;
}

export function readDigest(found: Fields): Digest {
  return { key: found.text("key"), made: found.flag("made") };
}

export function readAlias(found: Fields): Alias {
  return {
    space: found.text("space"),
    alias: found.text("alias"),
    owner: found.text("owner"),
    createdAt: found.time("created_at"),
  };
}

export function readUsedKey(found: Fields): UsedKey {
  return {
    key: found.text("key"),
    usedAt: found.time("used_at"),
    caller: found.text("caller"),
    instance: found.text("instance"),
    expiresAt: found.optionalTime("expires_at"),
    retiredAt: found.optionalTime("retired_at"),
  };
}

export function readExplanation(found: Fields): Explanation {
  const lease = found.optionalPart("lease");
  const used = found.optionalPart("used");
  return {
    space: found.text("space"),
    key: found.text("key"),
    state: found.text("state"),
    reason: found.text("reason"),
    ordinal: found.optionalWhole("ordinal"),
    number: found.optionalWhole("number"),
    time: found.optionalTime("time"),
    worker: found.optionalNumber("worker"),
    sequence: found.optionalNumber("sequence"),
    lease: lease && readLease(lease),
    used: used && readUsedKey(used),
  };
}

export function readKeyspaceInfo(found: Fields): KeyspaceInfo {
  return {
    name: found.text("name"),
    definition: readDefinition(found),
    fingerprint: found.optionalText("fingerprint"),
    sealed: found.flag("sealed"),
    createdAt: found.time("created_at"),
    capacity: found.whole("capacity"),
    next: found.whole("next"),
    leased: found.whole("leased"),
    named: found.whole("named"),
    remaining: found.whole("remaining"),
    available: found.optionalWhole("available"),
    atHand: found.whole("at_hand"),
    density: found.number("density"),
    rate: found.number("rate"),
    leasedRate: found.number("leased_rate"),
    exhaustedAt: found.optionalTime("exhausted_at"),
    runsOutAt: found.optionalTime("runs_out_at"),
  };
}

function readLease(found: Fields): Lease {
  const holder = found.part("holder");
  return {
    space: found.text("space"),
    lease: found.whole("lease"),
    start: found.whole("start"),
    end: found.whole("end"),
    purpose: found.text("purpose"),
    holder: {
      id: holder.text("id"),
      host: holder.text("host"),
      pid: holder.number("pid"),
      version: holder.text("version"),
      startedAt: holder.time("started_at"),
    },
    grantedAt: found.time("granted_at"),
    closedAtOrdinal: found.optionalWhole("closed_at_ordinal"),
    closedAt: found.optionalTime("closed_at"),
  };
}
