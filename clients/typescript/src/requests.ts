/**
 * Every call as data: what is sent, and how the answer is read.
 *
 * All of them are safe to repeat. Aliases, digests and definitions are the same whether they are asked for once or twice;
 * the keys of a take whose answer was lost stay unused.
 */

import {
  type Alias,
  type Digest,
  type Explanation,
  type KeyspaceInfo,
  readAlias,
  readDigest,
  readExplanation,
  readKeyspaceInfo,
  readUsedKey,
  type UsedKey,
} from "./answers.js";
import { type Definition, definitionToJson } from "./definition.js";
import { Invalid } from "./errors.js";
import { Fields, unreadable } from "./fields.js";
import type { Answer, Request } from "./line.js";
import { timeUntil } from "./problems.js";

/** A request and the reader of its answer. */
export interface Call<T> {
  readonly request: Request;
  read(answer: Answer): T;
  /** The error that says that an earlier attempt, whose answer was lost, has done it already. */
  readonly doneCode?: string;
}

/** Keys that were taken. */
export interface Batch {
  readonly keys: readonly string[];
  /** For how many milliseconds they are valid, if they expire. */
  readonly lifetime: number | undefined;
}

/** A page of a list. */
export interface Page<T> {
  readonly items: readonly T[];
  /** Where the next one starts; none on the last one. */
  readonly next: string | undefined;
}

export function take(space: string, count: number, caller: string): Call<Batch> {
  // The shortest form is what servers answer fastest.
  const query = [...(count === 1 ? [] : [`count=${count}`]), ...(caller === "" ? [] : [`caller=${encoded(caller)}`])];
  const path = `${spacePath(space)}/keys${query.length > 0 ? `?${query.join("&")}` : ""}`;
  return {
    request: { method: "POST", path },
    read: (answer) => {
      const found = Fields.of(answer.body);
      const keys = found.texts("keys");
      if (!(keys.length >= 1 && keys.length <= count)) {
        throw unreadable(`${count} keys were asked for, and ${keys.length} came`);
      }
      const expiresAt = found.optionalTime("expires_at");
      // Servers say what time it is in whole seconds, so it may be nearly one more.
      return { keys, lifetime: expiresAt && timeUntil(expiresAt.getTime(), answer) - 999 };
    },
  };
}

export function digest(space: string, input: string, scope: string): Call<Digest> {
  const body = JSON.stringify({ scope, input });
  return json({ method: "POST", path: `${spacePath(space)}/digests`, body }, readDigest);
}

export function digestMany(space: string, inputs: readonly string[], scope: string): Call<string[]> {
  const body = JSON.stringify({ scope, inputs });
  return json({ method: "POST", path: `${spacePath(space)}/digests`, body }, (found) => {
    const keys = found.texts("keys");
    if (keys.length !== inputs.length) {
      throw unreadable(`${inputs.length} inputs were sent, and ${keys.length} keys came`);
    }
    return keys;
  });
}

export function addAlias(space: string, alias: string, owner: string): Call<boolean> {
  const body = JSON.stringify({ owner });
  return {
    request: { method: "PUT", path: aliasPath(space, alias), body },
    read: (answer) => answer.status === 201,
  };
}

export function removeAlias(space: string, alias: string, owner: string): Call<void> {
  const query = owner === "" ? "" : `?owner=${encoded(owner)}`;
  return {
    request: { method: "DELETE", path: aliasPath(space, alias) + query },
    read: () => undefined,
    doneCode: "unknown_alias",
  };
}

export function alias(space: string, name: string): Call<Alias> {
  return json({ method: "GET", path: aliasPath(space, name) }, readAlias);
}

export function aliases(space: string, after: string | undefined): Call<Page<Alias>> {
  return page(`${spacePath(space)}/aliases`, after, "aliases", readAlias);
}

export function explain(space: string, key: string): Call<Explanation> {
  return json({ method: "GET", path: keyPath(space, key) }, readExplanation);
}

export function retire(space: string, key: string): Call<UsedKey> {
  return json({ method: "DELETE", path: keyPath(space, key) }, readUsedKey);
}

export function ensure(space: string, definition: Definition): Call<KeyspaceInfo> {
  return json({ method: "PUT", path: spacePath(space), body: definitionToJson(definition) }, readKeyspaceInfo);
}

export function show(space: string): Call<KeyspaceInfo> {
  return json({ method: "GET", path: spacePath(space) }, readKeyspaceInfo);
}

export function keyspaces(after: string | undefined): Call<Page<KeyspaceInfo>> {
  return page("/v1/spaces", after, "spaces", readKeyspaceInfo);
}

function json<T>(request: Request, read: (found: Fields) => T): Call<T> {
  return { request, read: (answer) => read(Fields.of(answer.body)) };
}

function page<T>(path: string, after: string | undefined, name: string, read: (found: Fields) => T): Call<Page<T>> {
  const query = after === undefined ? "" : `?after=${encoded(after)}`;
  return json({ method: "GET", path: path + query }, (found) => ({
    items: found.parts(name).map(read),
    next: found.optionalText("next"),
  }));
}

function spacePath(space: string): string {
  return `/v1/spaces/${segment(space)}`;
}

function aliasPath(space: string, alias: string): string {
  return `${spacePath(space)}/aliases/${segment(alias)}`;
}

function keyPath(space: string, key: string): string {
  return `${spacePath(space)}/keys/${segment(key)}`;
}

/** A name as a part of a path. What `fetch` would make another path of is refused, however it is encoded. */
function segment(name: string): string {
  if (name === "" || name === "." || name === "..") {
    throw new Invalid(`${JSON.stringify(name)} cannot be a part of a URL, and is no name of anything`, {
      code: "bad_path",
    });
  }
  return encoded(name);
}

function encoded(text: string): string {
  try {
    return encodeURIComponent(text);
  } catch {
    throw new Invalid(`${JSON.stringify(text)} has half a character in it, which cannot be sent`, { code: "bad_path" });
  }
}
