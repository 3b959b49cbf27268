/** The token that is sent with every request. Nothing here shows it. */

import { readFileSync } from "node:fs";

import { BadSettings } from "./errors.js";

/** A token: given, or in a file, which is read again when servers do not accept it any more. */
export class Token {
  #text: string | undefined;
  readonly #path: string | undefined;

  private constructor(text: string | undefined, path: string | undefined) {
    this.#text = path === undefined ? checked(text) : read(path);
    this.#path = path;
  }

  /** The token that is given, or else the one that the environment names, or none. */
  static find(token: string | undefined, tokenFile: string | undefined): Token {
    if (token !== undefined && tokenFile !== undefined) {
      throw new BadSettings("give `token` or `tokenFile`, not both");
    }
    if (token === undefined && tokenFile === undefined) {
      const { KEYMILL_TOKEN: text, KEYMILL_TOKEN_FILE: path } = process.env;
      return new Token(text || undefined, text ? undefined : path || undefined);
    }
    return new Token(token, tokenFile);
  }

  /** The headers that carry it; none without a token. */
  headers(): Record<string, string> {
    return this.#text === undefined ? {} : { authorization: `Bearer ${this.#text}` };
  }

  /** Reads the file again. Returns whether there is another token now. */
  reload(): boolean {
    if (this.#path === undefined) {
      return false;
    }
    let found: string | undefined;
    try {
      found = read(this.#path);
    } catch {
      // Perhaps it is being replaced: the server's refusal says more.
      return false;
    }
    const isAnother = found !== this.#text;
    this.#text = found;
    return isAnother;
  }

  /** A text without the token: what others say about a request may repeat it. */
  hide(text: string): string {
    return this.#text === undefined ? text : text.replaceAll(this.#text, "…");
  }
}

function read(path: string): string | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new BadSettings(`the token file ${JSON.stringify(path)} cannot be read: ${why}`);
  }
  return checked(text);
}

function checked(text: string | undefined): string | undefined {
  const token = text?.trim();
  if (token !== undefined && !/^[!-~]+$/.test(token)) {
    throw new BadSettings("the token is empty, or has characters that no token has; it looks like km_…");
  }
  return token;
}
