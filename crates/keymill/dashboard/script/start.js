// Views by address, polling, colours, and the start.

const POLL_FAST_MS = 2000, POLL_SLOW_MS = 10000, POLL_RARE_MS = 120000;

// Colours: as the system, light or dark. Set before anything is drawn.
const THEMES = ["auto", "light", "dark"];
function themeOf() {
  try {
    return THEMES.find(theme => theme === localStorage.getItem("keymill-theme")) || "auto";
  } catch {
    return "auto";
  }
}
function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
}
applyTheme(themeOf());
function setUpTheme() {
  const button = byId("theme");
  const label = () => button.setAttribute("aria-label", `Colours: ${{ auto: "as the system", light: "light", dark: "dark" }[document.documentElement.dataset.theme]}`);
  button.addEventListener("click", () => {
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches, now = document.documentElement.dataset.theme;
    // The first press always changes something that can be seen.
    const next = { auto: isDark ? "light" : "dark", light: isDark ? "dark" : "auto", dark: isDark ? "auto" : "light" }[now];
    applyTheme(next);
    try {
      localStorage.setItem("keymill-theme", next);
    } catch { /* It holds until the page is closed. */ }
    label();
  });
  label();
}

// The view that the address names: #/, #/keyspace/NAME, #/new, #/tokens.
function route() {
  if (server.isSignInNeeded) return { view: "sign-in" };
  const [, name = "", rest = ""] = location.hash.match(/^#\/([^/?]*)[/?]?(.*)$/) || [];
  if (name === "keyspace" && rest) return { view: "keyspace", space: decode(rest) };
  if (name === "new") return { view: "new", space: decode(rest) };
  return { view: name === "tokens" ? "tokens" : "overview" };
}
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

let shown = null;
function showRoute(isMoved) {
  const { view, space } = route();
  for (const section of document.querySelectorAll(".view")) section.hidden = section.id !== `view-${view}`;
  for (const link of document.querySelectorAll("nav [data-view]")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${{ overview: "", keyspace: `${space} · `, new: "New keyspace · ", tokens: "Tokens · ", "sign-in": "Sign in · " }[view]}keymill`;
  if (view === "keyspace") openKeyspace(space);
  if (view === "new") openCreate(space);
  if (view === "sign-in") byId("sign-in-token").focus();
  if (isMoved && view !== "sign-in") {
    scrollTo(0, 0);
    document.querySelector(`#view-${view} h1`)?.focus({ preventScroll: true });
  }
  shown = view;
  showPulse();
  for (const task of TASKS) task.due = 0;
  poll();
}

// What is asked for how often, and in which views.
const TASKS = [
  { every: POLL_FAST_MS, views: ["overview"], run: () => pollActivity().finally(() => (showTotals(), showKeyspaces(false), showInstances(), showScope())) },
  { every: POLL_FAST_MS, views: ["keyspace"], run: () => pollActivity(keyspace.name).finally(() => (showActivity(), showScope())) },
  { every: POLL_SLOW_MS, views: ["overview"], run: async () => (await pollKeyspaces(), await pollLeases()) },
  { every: POLL_SLOW_MS, views: ["keyspace"], run: () => pollKeyspace() },
  { every: POLL_SLOW_MS, views: ["overview"], run: () => pollInstances() },
  // There, it only says of how many instances the figures are.
  { every: POLL_SLOW_MS, views: ["keyspace"], run: async () => may("read") && pollInstances() },
  { every: POLL_SLOW_MS, views: ["overview", "keyspace", "new", "tokens"], run: () => pollProblems() },
  { every: POLL_SLOW_MS, views: ["tokens"], run: () => pollTokens() },
  { every: POLL_RARE_MS, views: ["overview"], run: () => pollStore() },
].map(task => ({ ...task, due: 0, isRunning: false }));

// Runs what is due; nothing while nobody looks, and nothing twice at once.
function poll() {
  if (document.hidden || !shown) return;
  for (const task of TASKS) {
    if (task.isRunning || task.due > Date.now() || !task.views.includes(shown)) continue;
    Object.assign(task, { isRunning: true, due: Date.now() + task.every });
    // What is refused is shown where it belongs; a server that does not answer, in the banner.
    task.run().catch(error => {
      // A right that is missing will not be there in two seconds.
      if (error.status === 403) task.due = Date.now() + POLL_RARE_MS;
      if (!(error instanceof Refusal || error instanceof Unreachable)) console.error(error);
    }).finally(() => (task.isRunning = false));
  }
}

async function start() {
  setUpTheme();
  setUpKeys();
  setUpKeyspaces();
  setUpInstances();
  setUpKeyspace();
  setUpAliases();
  setUpPool();
  setUpCreate();
  setUpTokens();
  setUpSession();
  addEventListener("hashchange", () => (location.hash.startsWith("#/") || !location.hash) && showRoute(true));
  // The address names the view, so this link must not change it.
  document.querySelector(".skip").addEventListener("click", event => {
    event.preventDefault();
    byId("main").focus();
  });
  document.addEventListener("visibilitychange", poll);
  await loadSession().catch(() => {});
  showRoute();
  setInterval(poll, 500);
}
document.addEventListener("DOMContentLoaded", start);
