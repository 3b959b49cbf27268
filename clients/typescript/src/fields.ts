/**
 * Reads the JSON of answers: each value has its type, or the answer is refused.
 *
 * Fields that a later server adds are ignored.
 */

import { BadAnswer } from "./errors.js";

/** A JSON object. */
export class Fields {
  readonly #values: Readonly<Record<string, unknown>>;

  constructor(value: unknown) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw unreadable("it is not an object");
    }
    this.#values = value as Record<string, unknown>;
  }

  static of(body: string): Fields {
    let value: unknown;
    try {
      value = JSON.parse(body);
    } catch {
      throw unreadable("it is not JSON");
    }
    return new Fields(value);
  }

  text(name: string): string {
    return need(name, this.optionalText(name));
  }

  optionalText(name: string): string | undefined {
    const value = this.#values[name] ?? undefined;
    return value === undefined || typeof value === "string" ? value : refuse(name);
  }

  flag(name: string): boolean {
    return need(name, this.optionalFlag(name));
  }

  optionalFlag(name: string): boolean | undefined {
    const value = this.#values[name] ?? undefined;
    return value === undefined || typeof value === "boolean" ? value : refuse(name);
  }

  number(name: string): number {
    return need(name, this.optionalNumber(name));
  }

  optionalNumber(name: string): number | undefined {
    const value = this.#values[name] ?? undefined;
    return value === undefined || typeof value === "number" ? value : refuse(name);
  }

  /** A whole number of any size, which servers write as a string where a number would be rounded. */
  whole(name: string): bigint {
    return need(name, this.optionalWhole(name));
  }

  optionalWhole(name: string): bigint | undefined {
    const value = this.#values[name] ?? undefined;
    if (value === undefined) {
      return undefined;
    }
    const isWhole = typeof value === "string" ? /^\d+$/.test(value) : Number.isInteger(value);
    return isWhole ? BigInt(value as string | number) : refuse(name);
  }

  time(name: string): Date {
    return need(name, this.optionalTime(name));
  }

  optionalTime(name: string): Date | undefined {
    const text = this.optionalText(name);
    if (text === undefined) {
      return undefined;
    }
    const time = new Date(text);
    return Number.isNaN(time.getTime()) ? refuse(name) : time;
  }

  texts(name: string): string[] {
    const value = this.#values[name];
    return Array.isArray(value) && value.every((each) => typeof each === "string") ? value : refuse(name);
  }

  part(name: string): Fields {
    return need(name, this.optionalPart(name));
  }

  optionalPart(name: string): Fields | undefined {
    const value = this.#values[name] ?? undefined;
    return value === undefined ? undefined : new Fields(value);
  }

  parts(name: string): Fields[] {
    return need(name, this.optionalParts(name));
  }

  optionalParts(name: string): Fields[] | undefined {
    const value = this.#values[name] ?? undefined;
    if (value === undefined) {
      return undefined;
    }
    return Array.isArray(value) ? value.map((each) => new Fields(each)) : refuse(name);
  }
}

/** The error of an answer that is not what it should be. */
export function unreadable(why: string): BadAnswer {
  return new BadAnswer(`the answer of the server cannot be read: ${why}`, { code: "bad_answer" });
}

function need<T>(name: string, value: T | undefined): T {
  if (value === undefined) {
    throw unreadable(`\`${name}\` is missing`);
  }
  return value;
}

function refuse(name: string): never {
  throw unreadable(`\`${name}\` is not what it should be`);
}
