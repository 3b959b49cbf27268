// The list of keyspaces: the busiest first, a filter, and no more rows than can be read.

const ROWS = matchMedia("(max-width: 46rem)").matches ? 6 : 12;
const keyspaces = { all: new Map(), order: [], shown: ROWS, error: null, isLoaded: false };

function setUpKeyspaces() {
  byId("filter").addEventListener("input", () => {
    keyspaces.shown = ROWS;
    showKeyspaces(true);
  });
  byId("spaces-more").addEventListener("click", () => {
    keyspaces.shown += 2 * ROWS;
    showKeyspaces(true);
  });
}

// All keyspaces, page by page.
async function pollKeyspaces() {
  const all = new Map();
  let after = null;
  try {
    do {
      const page = await get(`/v1/spaces?${new URLSearchParams({ limit: 500, ...(after ? { after } : {}) })}`, "read:*");
      for (const space of page.spaces) all.set(space.name, space);
      after = page.next;
    } while (after);
  } catch (error) {
    keyspaces.error = error;
    showKeyspaces(true);
    if (error instanceof Refusal) showState("leases", "They are shown to whoever may read all keyspaces.");
    throw error;
  }
  Object.assign(keyspaces, { all, error: null, isLoaded: true });
  if (!activity.isThere) for (const space of all.values()) addPoint(space.name, { rate: space.rate, p50: null, p99: null });
  const names = byId("space-names");
  if (names.children.length !== all.size) names.replaceChildren(...[...all.keys()].map(value => make("option", { value })));
  showKeyspaces(true);
  showProblems();
}

// The rate by which keyspaces are ordered: the average of half a minute, so that the busiest is first although demand comes and goes.
const ORDER_SPAN_MS = 30000;
function rateOf(space) {
  const lately = seriesOf(space.name).filter(({ at }) => at > Date.now() - ORDER_SPAN_MS);
  if (!lately.length) return present(space.name).rate ?? space.rate;
  return lately.reduce((sum, { rate }) => sum + rate, 0) / lately.length;
}

// Rows keep their places between polls of the list, so that nothing jumps under the pointer.
function showKeyspaces(isReordered) {
  const { all } = keyspaces, filter = byId("filter").value.trim().toLowerCase();
  const list = byId("spaces");
  if (!all.size) {
    setText(byId("spaces-count"), "");
    document.querySelector("#view-overview .legend").hidden = byId("spaces-more").hidden = true;
    if (keyspaces.error) return showState("spaces", listRefused());
    if (!keyspaces.isLoaded) return showState("spaces", "Loading…");
    return showState("spaces", [make("p", {}, "There is no keyspace yet. Create the first one here, or on the command line:"),
      make("p", {}, make("code", { text: "keymill space create links" })), make("p", {}, make("a", { class: "button strong", href: "#/new", text: "New keyspace" }))]);
  }
  document.querySelector("#view-overview .legend").hidden = false;
  if (isReordered && !(list.matches(":hover") && keyspaces.order.length) && !list.contains(document.activeElement) || keyspaces.filtered !== filter) {
    const rates = new Map([...all.values()].map(space => [space.name, rateOf(space)]));
    keyspaces.order = [...all.values()].sort((one, other) => rates.get(other.name) - rates.get(one.name) || Number(other.leased) - Number(one.leased) || one.name.localeCompare(other.name)).map(space => space.name);
    keyspaces.filtered = filter;
  }
  const known = new Set(keyspaces.order);
  const order = [...keyspaces.order, ...[...all.keys()].filter(name => !known.has(name))];
  const found = order.map(name => all.get(name)).filter(space => space && (!filter || space.name.includes(filter) || space.kind.includes(filter)));
  setText(byId("spaces-count"), found.length === all.size ? exact(all.size) : `${exact(found.length)} of ${exact(all.size)}`);
  showState("spaces", found.length ? null : [`No keyspace has “${filter}” in its name or kind. `, make("button", { type: "button", text: "Clear the filter", on: { click: clearFilter } })]);
  sync(byId("spaces-rows"), found.slice(0, keyspaces.shown), space => space.name, keyspaceRow, updateKeyspaceRow);
  const more = found.length - keyspaces.shown;
  byId("spaces-more").hidden = more <= 0;
  setText(byId("spaces-more"), `Show more: ${plural(Math.max(0, more), "keyspace")}`);
}
function clearFilter() {
  byId("filter").value = "";
  byId("filter").focus();
  showKeyspaces(true);
}

// What there is to say if the list may not be read: what may be done all the same.
function listRefused() {
  const named = server.session.allow.flatMap(text => (text.split(":")[1] || "").split(",")).filter(name => name && !name.endsWith("*"));
  return [make("div", { class: "note bad" }, ...refusalNote(keyspaces.error)),
    ...(named.length ? [make("p", {}, "You can still use: ", ...[...new Set(named)].flatMap(name => [make("a", { href: `#/keyspace/${encodeURIComponent(name)}`, text: name }), " "]))] : [])];
}

function keyspaceRow(space) {
  return make("tr", {},
    make("th", { scope: "row" }, make("a", { href: `#/keyspace/${encodeURIComponent(space.name)}`, text: space.name }), make("span", { class: "soft" })),
    cell("Keys per second", { class: "with-spark" }, makeSpark(), make("span", { class: "figure" })),
    cell("p99", { class: "right" }),
    cell("What is left", {}, makeBar(), make("span", { class: "soft" })),
    cell("Ready", { class: "right" }));
}
function updateKeyspaceRow(row, space) {
  const [name, rate, p99, left, ready] = row.children, figures = present(space.name);
  setText(name.lastChild, `${space.kind}${space.sealed ? ", sealed" : ""} ${formatOf(space)}`);
  updateSpark(rate.firstChild, seriesOf(space.name));
  setText(rate.lastChild, rateText(figures.rate ?? space.rate));
  setText(p99, latencyText(figures.p99));
  const counts = isCounted(space.kind);
  setAttribute(left.firstChild, "class", counts ? "parts" : "parts none");
  if (counts) updateBar(left.firstChild, sharesOf(space));
  setText(left.lastChild, leftText(space));
  // Snowflake IDs are made when they are asked for.
  setText(ready, space.kind === "snowflake" ? "–" : compact(figures.ready ?? space.at_hand));
}

// How keys are written, in short.
function formatOf(space) {
  if (space.kind === "uuid") return `version ${space.uuid_version || 7}`;
  if (space.kind === "snowflake") return space.layout || "";
  const length = space.length ? `×${[space.length, ...(space.grown || [])].join(", ×")}` : "";
  return `${space.alphabet.length > 12 ? `${space.alphabet.length} characters` : space.alphabet}${length}`;
}
// What is left, in short.
function leftText(space) {
  if (space.kind === "uuid") return "not counted";
  if (space.kind === "snowflake") return space.runs_out_at ? `until ${new Date(space.runs_out_at).getFullYear()}` : "";
  if (space.kind === "digest") return `${compact(space.named)} of ${compact(space.capacity)}`;
  const free = `${compact(space.remaining)} free`;
  if (space.kind === "pooled") return `${compact(space.available ?? 0)} in the pool, ${free}`;
  if (Number(space.remaining) === 0) return "all leased";
  return space.exhausted_at ? `${free}, ${untilText(space.exhausted_at)}` : free;
}

// The figures of all keyspaces together.
let totalChart = null;
function showTotals() {
  totalChart ??= makeChart("total-chart", { lines: [{ field: "rate", class: "one", name: "rate" }], format: rateText, unit: "keys per second", readout: "total-readout" });
  const now = present(""), points = seriesOf("");
  const rate = now.rate ?? [...keyspaces.all.values()].reduce((sum, space) => sum + space.rate, 0);
  setText(byId("total-rate"), keyspaces.isLoaded || now.rate !== null ? rateText(rate) : "–");
  const peak = Math.max(0, ...points.map(point => point.rate));
  setText(byId("total-note"), points.length > 1 ? `highest ${rateText(peak)}, ${rateText(now.requests)} requests a second` : "");
  totalChart.show(points, !may("read") ? "Shown to whoever may read all keyspaces" : activity.isThere ? undefined : "Figures come every ten seconds from this server");
  setText(byId("tile-p50"), latencyText(now.p50));
  setText(byId("tile-p99"), latencyText(now.p99));
  const ready = now.ready ?? [...keyspaces.all.values()].reduce((sum, space) => sum + readyOf({ kind: space.kind, ready: Number(space.at_hand) }), 0);
  setText(byId("tile-ready"), compact(ready));
  setText(byId("tile-failures"), activity.isThere ? compact(now.failed) : "–");
}
