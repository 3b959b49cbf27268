// One keyspace: its figures over time, what is left of it, its leases and its settings.

const keyspace = { name: null, view: null };
let rateChart = null, latencyChart = null;

function setUpKeyspace() {
  byId("seal").addEventListener("click", sealKeyspace);
  new ResizeObserver(() => keyspace.view && showLeft()).observe(byId("left-picture"));
}

// Opens a keyspace; what was shown of another one is gone.
function openKeyspace(name) {
  if (keyspace.name === name) return;
  Object.assign(keyspace, { name, view: keyspaces.all.get(name) || null });
  setText(byId("space-name"), name);
  setText(byId("space-format"), "");
  for (const form of [byId("space-take"), byId("space-explain")]) {
    form.dataset.space = name;
    form.reset();
  }
  for (const place of document.querySelectorAll("#view-keyspace .result")) place.replaceChildren();
  byId("space-leases-rows").replaceChildren();
  openAliases(name);
  openPool(name);
  rateChart?.show([]);
  latencyChart?.show([]);
  showState("space", keyspace.view ? null : "Loading…");
  if (keyspace.view) showKeyspace();
  showActivity();
}

async function pollKeyspace() {
  const { name } = keyspace;
  try {
    const view = await get(pathOf("spaces", name), `read:${name}`);
    if (keyspace.name !== name) return;
    keyspace.view = view;
    keyspaces.all.set(name, view);
    if (!activity.isThere) addPoint(name, { rate: view.rate, p50: null, p99: null });
    showState("space", null);
    byId("space-body").hidden = false;
    showKeyspace();
    showProblems();
    if (view.kind !== "uuid" && view.kind !== "digest") await pollSpaceLeases(name);
    else showState("space-leases", `Keyspaces of kind ${view.kind} have no leases.`);
  } catch (error) {
    if (keyspace.name === name && error instanceof Refusal) showMissing(error);
    throw error;
  }
}

// A keyspace that is not there, or may not be looked at: keys may perhaps be taken all the same.
function showMissing(error) {
  byId("space-body").hidden = error.status === 404;
  const create = error.code === "unknown_space" && may("admin", keyspace.name);
  showState("space", [make("div", { class: "note bad" }, ...refusalNote(error)),
    create ? make("p", {}, make("a", { class: "button strong", href: `#/new?${encodeURIComponent(keyspace.name)}`, text: "Create it" })) : make("p", {}, make("a", { class: "button", href: "#/", text: "All keyspaces" }))]);
}

function showKeyspace() {
  const { view } = keyspace;
  byId("space-format").replaceChildren(make("span", { class: "badge plain", text: view.kind }), " ",
    view.kind === "uuid" || view.kind === "snowflake" ? formatOf(view) : `${formatOf(view)}${view.prefix ? `, prefix ${view.prefix}` : ""}${view.group ? `, groups of ${view.group}` : ""}${view.check ? ", check character" : ""}`,
    view.sealed ? make("span", { class: "badge warning", text: "sealed" }) : "");
  const isDigest = view.kind === "digest";
  byId("space-take-input").hidden = !isDigest;
  byId("space-take-count").hidden = isDigest;
  setText(byId("space-take-title"), isDigest ? "Key of an input" : "Take keys");
  setText(byId("space-take").querySelector("button"), isDigest ? "Get its key" : "Take");
  byId("pool-panel").hidden = view.kind !== "pooled";
  if (view.kind === "pooled") showPool(view);
  byId("aliases-panel").hidden = view.kind === "uuid";
  showLeft();
  showSettings(view);
}

function showActivity() {
  rateChart ??= makeChart("rate-chart", { lines: [{ field: "rate", class: "one", name: "rate" }], format: rateText, unit: "keys per second", readout: "rate-readout" });
  latencyChart ??= makeChart("latency-chart", { lines: [{ field: "p50", class: "one", name: "median" }, { field: "p99", class: "other", name: "99th percentile" }], format: latencyText, unit: "", readout: "latency-readout" });
  const figures = present(keyspace.name), points = seriesOf(keyspace.name);
  setText(byId("space-rate"), rateText(figures.rate ?? keyspace.view?.rate));
    const figure = (className, value, name) => make("span", { class: "whole" }, make("span", { class: `key-line ${className}` }), latencyText(value), make("span", { class: "soft", text: ` ${name}` }));
  byId("space-latency").replaceChildren(figure("", figures.p50, "median"), " ", figure("other", figures.p99, "99th percentile"));
  const why = activity.isThere ? undefined : "This server does not report it";
  rateChart.show(points, activity.isThere ? undefined : "Figures come every ten seconds from this server");
  latencyChart.show(points, points.length > 1 ? "No requests in the last minutes" : why);
}

// What is left, as a picture and in figures.
function showLeft() {
  const { view } = keyspace, figures = [];
  const figure = (name, value, more) => figures.push(make("div", {}, make("dt", { text: name }), make("dd", {}, value, more ? make("small", { text: more }) : null)));
  const counts = isCounted(view.kind), ready = present(view.name).ready ?? view.at_hand;
  byId("left-picture").hidden = byId("left-scale").hidden = !counts && view.kind !== "digest";
  if (counts || view.kind === "digest") drawScale(byId("left-picture"), sharesOf(view));
  if (counts) {
    figure("Leased", compact(view.leased), percentText(Number(view.leased) / Number(view.capacity)));
    figure("Named", compact(view.named), "aliases and keys in use elsewhere");
    figure("Free", compact(view.remaining), percentText(Number(view.remaining) / Number(view.capacity)));
  } else if (view.kind === "digest") {
    figure("Inputs and aliases", compact(view.named), percentText(Number(view.named) / Number(view.capacity)));
    figure("Keys in total", compact(view.capacity));
  }
  if (view.kind !== "sequential" && view.kind !== "snowflake" && view.kind !== "uuid") figure("A guess hits", oddsText(view.density), "a key that may be in use");
  if (view.kind === "snowflake") figure("Timestamps end", view.runs_out_at ? dayFormat.format(new Date(view.runs_out_at)) : "–", view.runs_out_at ? `in ${untilText(view.runs_out_at)}` : "");
  if (view.kind === "uuid") figure("Keys in total", power(2 ** 122), "not counted and not recorded");
  if (counts) figure("Forecast", ...forecast(view));
  if (view.kind !== "uuid" && view.kind !== "digest") figure("Ready in memory", compact(ready), "keys that need no store");
  byId("left-figures").replaceChildren(...figures);
}

// How long keys last: at the rate of now if there is one, or else at the average so far.
function forecast(view) {
  const rate = present(view.name).rate ?? view.rate;
  if (Number(view.remaining) === 0) return ["used up", "add longer keys"];
  if (rate > 0.1) return [durationText(Number(view.remaining) / rate), `at ${rateText(rate)} keys per second, as now`];
  if (view.exhausted_at) return [untilText(view.exhausted_at), "at the average rate so far"];
  return ["no end in sight", Number(view.leased) ? "at the average rate so far" : "nothing is taken yet"];
}

async function pollSpaceLeases(name) {
  let leases;
  try {
    leases = await recentLeases(name);
  } catch (error) {
    // The keyspace itself was answered: what is refused here is said here.
    if (!(error instanceof Refusal)) throw error;
    if (keyspace.name === name) showState("space-leases", make("div", { class: "note bad" }, ...refusalNote(error)));
    return;
  }
  if (keyspace.name !== name) return;
  showState("space-leases", leases.length ? null : "No lease yet. An instance leases keys when the first one is taken.");
  sync(byId("space-leases-rows"), leases, lease => lease.lease, lease => make("tr", {},
    make("th", { scope: "row", text: exact(lease.lease) }), cell("Keys", { class: "right", text: leaseSize(lease) }),
    cell("Ordinals", { class: "soft", text: `${exact(lease.start)} to ${exact(lease.end)}` }), cell("Instance", {}, make("code", { text: lease.holder.id.slice(0, 12) }), make("span", { class: "soft", text: ` on ${lease.holder.host}` })),
    cell("State", {}), cell("Granted", { class: "right" }, timeOf(lease.granted_at))),
  (row, lease) => {
    setText(row.children[4], leaseState(lease));
    setText(row.children[5].firstChild, agoText(lease.granted_at));
  });
}

const SETTINGS = ["alphabet", "length", "grown", "prefix", "group", "check", "step", "offset", "layout", "epoch", "uuid_version", "normalize", "audit", "blocklist",
  "lease_size_min", "lease_size_max", "horizon_seconds", "low_water", "ttl_seconds", "reserve_seconds", "window_seconds", "fingerprint", "created_at"];
// Those that say nothing where they are like this.
const UNSAID = { prefix: "", group: 0, check: false, step: 1, offset: 0, low_water: 0, ttl_seconds: 0 };
const OF_KIND = { low_water: "pooled", ttl_seconds: "pooled", reserve_seconds: "pooled", window_seconds: "snowflake" };

function showSettings(view) {
  const shown = SETTINGS.filter(name => view[name] !== undefined && view[name] !== null && view[name] !== UNSAID[name] && (!OF_KIND[name] || OF_KIND[name] === view.kind));
  byId("settings").replaceChildren(...shown.map(name => make("div", {}, make("dt", { text: name.replaceAll("_", " ") }),
    make("dd", {}, make("code", { text: typeof view[name] === "number" ? exact(view[name]) : name === "created_at" ? timeFormat.format(new Date(view[name])) : String(view[name]) })))));
  byId("seal").hidden = view.sealed;
  setText(byId("seal-note"), view.sealed ? "It is sealed: it hands out no more keys." : "A sealed keyspace hands out no more keys, for good.");
}

async function sealKeyspace() {
  const { name } = keyspace;
  const isSure = await ask({ title: `Seal ${name}?`, why: `It hands out no more keys, on any instance. Its keys stay valid and can be explained. This cannot be undone.`, action: "Seal it", typed: name });
  if (!isSure) return;
  try {
    await call("POST", `${pathOf("spaces", name, "seal")}?confirm=${encodeURIComponent(name)}`, { need: `admin:${name}` });
    note(byId("seal-result"), "good", `${name} is sealed.`);
    await pollKeyspace();
  } catch (error) {
    showRefusal(byId("seal-result"), error);
  }
}
