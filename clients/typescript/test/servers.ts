/** Real servers: one store in a folder of its own, and as many instances on it as a test wants. */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Keymill, type KeymillOptions } from "../src/index.js";

/** Folders and processes end with this one, however it ends. */
const folders = new Set<string>();
const processes = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of processes) {
    child.kill("SIGKILL");
  }
  for (const folder of folders) {
    rmSync(folder, { recursive: true, force: true });
  }
});
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => process.exit(1));
}

/** A new folder. */
export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "keymill-"));
  folders.add(folder);
  return folder;
}

/** A child process that ends with this one. */
export function watch<Child extends ChildProcess>(child: Child): Child {
  processes.add(child);
  child.once("exit", () => processes.delete(child));
  return child;
}

let copied: string | undefined;

/** The server to test. The one that was built last is copied first, because it may be built again. */
function binary(): string {
  const { KEYMILL_BINARY: given } = process.env;
  if (given) {
    return given;
  }
  if (copied === undefined) {
    copied = join(makeFolder(), "keymill");
    copyFileSync(fileURLToPath(new URL("../../../../target/debug/keymill", import.meta.url)), copied);
  }
  return copied;
}

/** A server process. It keeps its address when it is started again. */
export class Instance {
  url = "";
  readonly #deployment: Deployment;
  readonly #options: readonly string[];
  #process: ChildProcess | undefined;

  constructor(deployment: Deployment, options: readonly string[]) {
    this.#deployment = deployment;
    this.#options = options;
  }

  async start(): Promise<void> {
    const listen = this.url === "" ? "127.0.0.1:0" : new URL(this.url).host;
    const options = ["serve", "--listen", listen, ...this.#options];
    const { command, environment } = this.#deployment;
    const child = watch(spawn(binary(), [...command, ...options], { env: environment }));
    this.#process = child;
    let said = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        said += text;
      });
    }
    const end = performance.now() + 30_000;
    for (;;) {
      const found = /^ *listening +(\S+)/m.exec(said)?.[1];
      if (found !== undefined) {
        this.url = found;
        return;
      }
      if (child.exitCode !== null || performance.now() > end) {
        throw new Error(`the server did not start:\n${said}`);
      }
      await sleep(10);
    }
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      const ended = once(child, "exit");
      child.kill(signal);
      await ended;
    }
  }
}

/** A store, its command line, and its servers. */
export class Deployment {
  readonly folder = makeFolder();
  readonly command: readonly string[];
  readonly environment: Record<string, string | undefined>;
  readonly instances: Instance[] = [];

  constructor() {
    mkdirSync(join(this.folder, "data"));
    this.command = ["--data-dir", join(this.folder, "data"), "--store", `sqlite:${join(this.folder, "keys.db")}`];
    const others = Object.entries(process.env).filter(([name]) => !name.startsWith("KEYMILL_"));
    // What tests wait for comes sooner.
    const sooner = { KEYMILL_LIMITS_WAIT_SECONDS: "0.3", KEYMILL_LIMITS_HEARTBEAT_SECONDS: "0.5" };
    this.environment = { ...Object.fromEntries(others), ...sooner };
  }

  get urls(): string[] {
    return this.instances.map((instance) => instance.url);
  }

  /** Starts another server. */
  async start(...options: string[]): Promise<Instance> {
    const instance = new Instance(this, options);
    this.instances.push(instance);
    await instance.start();
    return instance;
  }

  /** Runs a command on the store, and returns what it prints. */
  async run(...options: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)(binary(), [...this.command, ...options], { env: this.environment });
    return stdout.trim();
  }

  /** A client of all its servers. */
  client(options: KeymillOptions = {}): Keymill {
    return new Keymill({ servers: this.urls, ...options });
  }

  async stop(): Promise<void> {
    await Promise.all(this.instances.map((instance) => instance.kill()));
    rmSync(this.folder, { recursive: true, force: true });
    folders.delete(this.folder);
  }
}

/** Waits until something holds. */
export async function until(holds: () => boolean | Promise<boolean>, timeout = 10_000): Promise<void> {
  const end = performance.now() + timeout;
  while (!(await holds())) {
    if (performance.now() > end) {
      throw new Error(`it does not hold after ${timeout} ms: ${holds}`);
    }
    await sleep(10);
  }
}
