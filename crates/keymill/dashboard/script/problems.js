// What is wrong, on top of every view: what instances report, and what the figures of keyspaces tell.

const problems = { reported: [], findings: [] };
// How much of a keyspace may be left before it is a problem, and how soon its end may be.
const LEFT_MIN = 0.1, END_SOON_SECONDS = 90 * 86400;

function remedyOf(code) {
  const found = document.querySelector(`#remedies [data-code="${CSS.escape(code)}"]`);
  return found ? { ...found.dataset } : { title: code, advice: "", command: "" };
}

// Problems that the figures of a keyspace tell before an instance reports them.
function foreseen(space) {
  const found = [];
  const add = (code, detail) => found.push({ code, space: space.name, detail, isWarning: true });
  if (space.sealed) return found;
  if (isCounted(space.kind) && Number(space.leased) > 0) {
    const left = Number(space.remaining) / Number(space.capacity);
    const seconds = space.exhausted_at ? (Date.parse(space.exhausted_at) - serverNow()) / 1000 : Infinity;
    if (Number(space.remaining) > 0 && left < LEFT_MIN) add("nearly_used_up", `${percentText(left)} of its keys are left: ${exact(space.remaining)}`);
    else if (Number(space.remaining) > 0 && seconds < END_SOON_SECONDS) add("nearly_used_up", `at its average rate, it is used up in ${durationText(seconds)}`);
    else if (Number(space.remaining) === 0 && space.kind !== "pooled") add("exhausted", "all of its keys are leased");
  }
  if (space.kind === "pooled" && Number(space.available) < Number(space.low_water)) {
    add("pool_low", `${plural(space.available, "key")} available, below its mark of ${exact(space.low_water)}`);
  }
  return found;
}

function showProblems() {
  // Of a store that is not safe, the card with the setting says more.
  const reported = problems.reported.filter(({ code }) => code !== "unsafe_store" || !problems.findings.length).map(problem => ({ ...problem, isWarning: problem.code.startsWith("tls_certificate_expires") || problem.code === "runs_out" }));
  const known = new Set(reported.map(({ code, space }) => `${code} ${space || ""}`));
  // What an instance reports of a keyspace says more than the figures.
  const hasWorse = ({ code, space }) => known.has(`${code} ${space}`) || (code === "pool_low" && known.has(`pool_empty ${space}`)) || (code === "nearly_used_up" && known.has(`exhausted ${space}`));
  const all = [...reported, ...problems.findings, ...[...keyspaces.all.values()].flatMap(foreseen).filter(problem => !hasWorse(problem))];
  all.sort((one, other) => Number(one.isWarning || false) - Number(other.isWarning || false));
  const place = byId("problems");
  place.hidden = !all.length;
  const shown = all.slice(0, 6), more = all.length - shown.length;
  sync(place, [...shown, ...(more > 0 ? [{ code: "more", detail: `and ${plural(more, "more problem")}` }] : [])],
    problem => `${problem.code} ${problem.space || ""} ${problem.detail} ${commandFor(problem)}`, problemCard);
  server.problemCount = all.length;
  showPulse();
}

// The command that mends a problem. What the server says may name the very one.
function commandFor(problem) {
  const named = problem.detail.match(/`(keymill [^`]+)`/), space = keyspaces.all.get(problem.space);
  const length = space ? Number(space.grown?.at(-1) ?? space.length) + 1 : "N";
  return named ? named[1] : remedyOf(problem.code).command.replace("SPACE", problem.space || "NAME").replace("LENGTH", length);
}

function problemCard(problem) {
  if (problem.code === "more") return make("p", { class: "soft", text: problem.detail });
  const { title, advice } = remedyOf(problem.code), line = commandFor(problem);
  const where = problem.space ? [make("a", { href: `#/keyspace/${encodeURIComponent(problem.space)}`, text: problem.space }), ": "] : [];
  const words = problem.title || title;
  return make("article", { class: `problem ${problem.isWarning ? "warning" : "failure"}` },
    make("h2", {}, ...where, where.length ? words.charAt(0).toLowerCase() + words.slice(1) : words),
    make("p", {}, ...prose(sentence(problem.detail)), " ", ...prose(advice)),
    line ? make("div", { class: "mend" }, make("code", { text: line }), copyButton(line, "the command")) : null);
}
// A text of the server as a sentence. What begins with a name, such as the ID of an instance, stays as it is.
function sentence(text) {
  const capital = /^[a-z']+[ ,:]/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}

async function pollProblems() {
  const health = await call("GET", "/readyz", { also: [503] });
  problems.reported = health.problems || [];
  server.isReady = health.ready;
  showProblems();
}

// The store's settings: asked rarely, because that asks the store for each of them.
async function pollStore() {
  const store = await get("/v1/store", "read:*");
  setText(byId("store"), `, on ${store.kind}`);
  problems.findings = store.findings.filter(finding => finding.verdict === "unsafe").map(finding => ({
    code: "unsafe_store", isWarning: false, detail: `\`${finding.setting}\` is \`${finding.found}\`, and should be ${finding.wanted}`,
  }));
  showProblems();
}

// The state of the server in the bar.
function showPulse() {
  const [state, text] = server.isSignInNeeded ? ["waiting", "Not signed in"] : server.isReachable === null ? ["waiting", "Connecting…"]
    : !server.isReachable ? ["down", "No answer"]
    : server.isReady === false ? ["down", "Not ready"]
    : server.problemCount ? ["warning", plural(server.problemCount, "problem")]
    : ["live", "Live"];
  setAttribute(byId("pulse"), "data-state", state);
  setText(byId("pulse-text"), text);
}
