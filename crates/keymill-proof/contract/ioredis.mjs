// Takes keys with ioredis, as `protocols.py` asks for them: one object a line, and one answer for each.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const Redis = createRequire(`${process.env.IOREDIS}/`)("ioredis");

for await (const line of createInterface({ input: process.stdin })) {
  const { token, space, count } = JSON.parse(line);
  const client = new Redis({
    port: Number(process.argv[2]),
    password: token ?? undefined,
    // One attempt: what is refused is to be seen.
    retryStrategy: null,
    maxRetriesPerRequest: 0,
    lazyConnect: true,
  });
  let lost;
  client.on("error", (error) => (lost = error));
  let answer;
  try {
    await client.connect();
    const keys = count > 1 ? await client.spop(space, count) : await client.spop(space);
    answer = { keys: keys === null ? [] : [keys].flat() };
  } catch (error) {
    answer = { error: (lost ?? error).message };
  }
  client.disconnect();
  console.log(JSON.stringify(answer));
}
