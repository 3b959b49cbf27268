/**
 * The servers of a client: which one to ask next.
 *
 * `attempts` picks a server for each attempt and says how it went. A server that failed is left alone for a while that
 * doubles, then one call tries it; the others go on with servers that work. One that answers, but has no keys at present, is
 * asked after the others: otherwise it would use up the retry budget. Nothing here sends anything or sleeps.
 */

import { Backoff, Budget } from "./backoff.js";
import type { Line } from "./line.js";

/** For how long a server that is not ready is asked after the others. */
const UNREADY = 1_000;

/** One server, and how it is. */
export class Server {
  /** What sends requests to it. */
  readonly line: Line;
  /** After a failure: when it may be tried again. */
  notBefore: number | undefined;
  problem = "";
  readonly #backoff = new Backoff();
  /** Since it was not ready: until when others are asked first. */
  #unreadyUntil: number | undefined;

  constructor(line: Line) {
    this.line = line;
  }

  get name(): string {
    return this.line.address.name;
  }

  /** It has answered, whatever it said; `isReady` unless that it has no keys, or cannot answer, at present. */
  answered(isReady: boolean, now: number): void {
    this.#unreadyUntil = isReady ? undefined : now + UNREADY;
    if (this.notBefore !== undefined) {
      this.notBefore = undefined;
      this.problem = "";
      this.#backoff.reset();
    }
  }

  /** It could not be reached, or did not answer. */
  failed(problem: string, now: number): void {
    // Calls that were under way together failed together: that counts once.
    if (this.notBefore === undefined || this.notBefore <= now) {
      this.notBefore = now + this.#backoff.nextHalf();
    }
    this.problem = problem;
  }

  /** Whether it may be tried. After a failure, one call finds out, and the others need not. */
  mayBeTried(now: number): boolean {
    if (this.notBefore === undefined) {
      return true;
    }
    if (this.notBefore > now) {
      return false;
    }
    this.notBefore = now + this.#backoff.nextHalf();
    return true;
  }

  /** Whether it is asked in turn. After a while, one call finds out whether it is ready again. */
  isInTurn(now: number): boolean {
    if (this.#unreadyUntil === undefined) {
      return true;
    }
    if (this.#unreadyUntil > now) {
      return false;
    }
    this.#unreadyUntil = now + UNREADY;
    return true;
  }
}

/** All servers of a client. */
export class Servers {
  readonly all: readonly Server[];
  readonly budget = new Budget();
  /** Where the next round starts. Clients that start together do not start with the same server. */
  #turn = Math.floor(Math.random() * 65_536);

  constructor(lines: readonly Line[]) {
    this.all = lines.map((line) => new Server(line));
  }

  /** The next server that this round has not tried and that may be tried now. */
  pick(tried: Set<Server>, now: number): Server | undefined {
    const start = this.#turn++ % this.all.length;
    const untried = [...this.all.slice(start), ...this.all.slice(0, start)].filter((each) => !tried.has(each));
    const server =
      untried.find((each) => each.isInTurn(now) && each.mayBeTried(now)) ??
      untried.find((each) => each.mayBeTried(now));
    if (server !== undefined) {
      tried.add(server);
    }
    return server;
  }

  /** In how many milliseconds some server may be tried: none, unless all of them have failed of late. */
  readyIn(now: number): number {
    return Math.min(...this.all.map((server) => Math.max(0, (server.notBefore ?? now) - now)));
  }

  /** Why none can be tried, for a call that did not get to try one. */
  problems(): string {
    return this.all.map((server) => `${server.name} ${server.problem}`).join("; ");
  }
}
