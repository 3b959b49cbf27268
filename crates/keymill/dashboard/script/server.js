// Calls to the server, and what is known of it: whether it answers, its clock, who is signed in.

const server = {
  isReachable: null, answeredAt: null,
  // How far the clock of the server is ahead of this one, in milliseconds.
  clockAhead: 0,
  session: { needs_token: false, token: null, allow: ["admin:*"], expires_at: null },
};
const serverNow = () => Date.now() + server.clockAhead;

// What the server refuses; `need` is the right that was needed.
class Refusal extends Error {
  constructor(status, problem, need) {
    super(problem.detail || `the server answered with status ${status}`);
    this.status = status;
    this.code = problem.code || "";
    this.need = need;
  }
}
class Unreachable extends Error {
  constructor() {
    super("the server does not answer");
  }
}

// Asks the server. `need` says which right it takes, for those who lack it; `also` are statuses that are answers too.
async function call(method, path, { body, need, also = [] } = {}) {
  // The label is what no form of another site can send.
  const headers = method === "GET" ? {} : { "content-type": "application/json" };
  let answer;
  try {
    answer = await fetch(path, {
      method, headers, cache: "no-store", credentials: "same-origin",
      body: body === undefined ? undefined : JSON.stringify(body), signal: AbortSignal.timeout(20000),
    });
  } catch {
    setReachable(false);
    throw new Unreachable();
  }
  setReachable(true);
  const date = Date.parse(answer.headers.get("date"));
  // It has whole seconds: within one, it says nothing new.
  if (date && Math.abs(date + 500 - serverNow()) > 1500) server.clockAhead = date + 500 - Date.now();
  const isJson = (answer.headers.get("content-type") || "").includes("json");
  const content = answer.status === 204 ? null : isJson ? await answer.json().catch(() => ({})) : await answer.text();
  if (answer.ok || also.includes(answer.status)) return content;
  const refusal = new Refusal(answer.status, isJson ? content : {}, need);
  if (answer.status === 401) needSignIn();
  throw refusal;
}
const get = (path, need) => call("GET", path, { need });
const pathOf = (...parts) => "/v1/" + parts.map(encodeURIComponent).join("/");

function setReachable(isReachable) {
  if (isReachable) server.answeredAt = new Date();
  if (server.isReachable === isReachable) return;
  server.isReachable = isReachable;
  const banner = byId("unreachable");
  banner.hidden = isReachable;
  if (!isReachable) {
    const since = server.answeredAt ? ` The figures below are from ${clockFormat.format(server.answeredAt)}.` : "";
    banner.replaceChildren(make("strong", { text: "The server does not answer." }), `${since} This page keeps trying. On the machine of the server, this says whether it runs: `,
      make("code", { text: "keymill health" }));
  }
  showPulse();
}

// Whether the reader has a right: in a keyspace, or in all of them.
function may(right, space) {
  return server.session.allow.some(text => {
    const [rights, spaces = ""] = text.split(":");
    if (rights !== right && rights !== "admin") return false;
    return spaces.split(",").some(name => name === "*" || (space && (name === space || (name.endsWith("*") && space.startsWith(name.slice(0, -1))))));
  });
}

// What went wrong, and what to do about it.
function refusalNote(error) {
  if (error instanceof Unreachable) return ["The server does not answer. Try again when it is reachable."];
  if (!(error instanceof Refusal)) {
    console.error(error);
    return [`Unexpected error in this page: ${error.message}; reload it.`];
  }
  if (error.status === 401) return ["This needs a token. Sign in with one that allows it."];
  if (error.status === 403 && error.code === "forbidden") {
    const who = server.session.token ? `Your token \`${server.session.token}\`` : "A caller without a token";
    const need = error.need || "another right";
    return prose(`${who} lacks the right \`${need}\`. An administrator can create a token with it: \`keymill token create NAME --allow '${need}'\``);
  }
  const more = error.code ? [" ", make("a", { href: `/docs#code-${error.code}`, text: "What to do" })] : [];
  return [...prose(sentence(error.message)), ...more];
}
function showRefusal(place, error) {
  note(place, "bad", ...refusalNote(error));
}
