/** A server that answers as a test says, for what a real one does rarely or never. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

/** What to answer: an object, or anything else that is done with the response. */
export interface Reply {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly json?: unknown;
  readonly text?: string;
  /** Closes the connection instead of answering. */
  readonly drop?: boolean;
  /** Never answers. */
  readonly hang?: boolean;
}

/** A request that came. */
export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly authorization: string | undefined;
  readonly body: string;
  readonly at: number;
}

/** The server. */
export class Scripted {
  readonly seen: Seen[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(answer: (seen: Seen, count: number) => Reply) {
    this.#server = createServer(async (request, response) => {
      const seen = await readRequest(request);
      this.seen.push(seen);
      send(request, response, answer(seen, this.seen.length));
    });
    // A test that fails before it stops this one ends, too.
    this.#server.unref();
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket.unref());
      socket.once("close", () => this.#sockets.delete(socket));
    });
  }

  /** `answer` gets each request, and how many there were with it. */
  static async start(answer: (seen: Seen, count: number) => Reply): Promise<Scripted> {
    const scripted = new Scripted(answer);
    await new Promise<void>((resolve) => scripted.#server.listen(0, "127.0.0.1", resolve));
    return scripted;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) {
      socket.destroy();
    }
    await closed;
  }
}

/** A problem as servers write it. */
export function problem(status: number, code: string, more: object = {}): Reply {
  return { status, json: { code, status, detail: `it is ${code}`, request_id: "r-1", ...more } };
}

/** Keys that nobody else hands out, as many as a request asks for. */
export function keysFor(seen: Seen, _count?: number, more: object = {}): Reply {
  const count = Number(new URL(seen.path, "http://host").searchParams.get("count") ?? 1);
  const keys = Array.from({ length: count }, () => `k${(made++).toString(36)}`);
  return { json: { space: "links", keys, ...more } };
}

let made = 0;

/** What a server says of a keyspace. */
export function spaceInfo(more: object = {}): Reply {
  const usage = { capacity: 1000, next: 0, leased: 0, named: 0, remaining: 1000, at_hand: 0 };
  const rates = { density: 0, rate: 0, leased_rate: 0 };
  const space = { name: "links", kind: "shuffled", audit: "batch", sealed: false, created_at: "2026-01-01T00:00:00Z" };
  return { json: { ...space, ...usage, ...rates, ...more } };
}

async function readRequest(request: IncomingMessage): Promise<Seen> {
  let body = "";
  for await (const chunk of request.setEncoding("utf8")) {
    body += chunk;
  }
  const { method = "", url = "", headers } = request;
  return { method, path: url, authorization: headers.authorization, body, at: performance.now() };
}

function send(request: IncomingMessage, response: ServerResponse, reply: Reply): void {
  if (reply.hang) {
    return;
  }
  if (reply.drop) {
    request.socket.destroy();
    return;
  }
  response.writeHead(reply.status ?? 200, reply.headers);
  response.end(reply.text ?? (reply.json === undefined ? "" : JSON.stringify(reply.json)));
}
