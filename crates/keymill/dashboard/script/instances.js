// Instances with their heartbeats and the keys that they have ready, and the newest leases.

const instances = { all: [], beats: new Map(), isAllShown: false };
// An instance reports every few seconds; after this, it is probably gone.
const SILENT_MS = 30000;
const INSTANCE_ROWS = 6;

function setUpInstances() {
  byId("instances-more").addEventListener("click", () => {
    instances.isAllShown = true;
    showInstances();
  });
}

async function pollInstances() {
  const all = [];
  let after = null, pages = 0;
  try {
    do {
      const page = await get(`/v1/instances?${new URLSearchParams({ limit: 1000, ...(after ? { after } : {}) })}`, "read:*");
      all.push(...page.instances);
      after = page.next;
    } while (after && ++pages < 10);
  } catch (error) {
    showState("instances", make("div", { class: "note bad" }, ...refusalNote(error)));
    throw error;
  }
  instances.all = all;
  for (const { id, seen_at } of all) {
    const beats = instances.beats.get(id) || [], at = Date.parse(seen_at);
    if (beats.at(-1) !== at) beats.push(at);
    instances.beats.set(id, beats.filter(beat => beat > serverNow() - BEATS.span));
  }
  showInstances();
}

// The state of an instance: how it looks, and in words.
function instanceState({ stopped_at, seen_at }) {
  if (stopped_at) return ["stopped", `stopped ${agoText(stopped_at)}`];
  const isSilent = serverNow() - Date.parse(seen_at) > SILENT_MS;
  return isSilent ? ["silent", `silent for ${durationText((serverNow() - Date.parse(seen_at)) / 1000)}`] : ["live", `seen ${agoText(seen_at)}`];
}

function showInstances() {
  const rank = { live: 0, silent: 1, stopped: 2 };
  const sorted = instances.all.map(instance => ({ ...instance, state: instanceState(instance) }))
    .sort((one, other) => rank[one.state[0]] - rank[other.state[0]] || Date.parse(other.seen_at) - Date.parse(one.seen_at));
  const live = sorted.filter(({ state }) => state[0] === "live").length;
  setText(byId("instances-count"), instances.all.length ? `${live} live` : "");
  showState("instances", sorted.length ? null : "No instance has reported to the store yet. This takes a few seconds after a start.");
  // Those that are gone are of little interest, and commands, which have no address, of none.
  const recent = sorted.filter(({ state, seen_at, address }) => state[0] === "live" || (address && serverNow() - Date.parse(seen_at) < 86400000));
  const shown = instances.isAllShown ? sorted.slice(0, 200) : (recent.length ? recent : sorted).slice(0, INSTANCE_ROWS);
  sync(byId("instances-rows"), shown, ({ id }) => id, instanceRow, updateInstanceRow);
  byId("instances-more").hidden = shown.length >= sorted.length;
  setText(byId("instances-more"), `Show ${plural(sorted.length - shown.length, "earlier instance")}`);
}

function instanceRow({ id, host, pid, version, address, started_at }) {
  const more = [`started ${timeFormat.format(new Date(started_at))}`, `version ${version}`, address].filter(Boolean).join(", ");
  return make("tr", { title: more },
    make("th", { scope: "row" }, make("code", { text: id.slice(0, 12) }), make("span", { class: "soft", text: `${host}, pid ${pid}` })),
    cell("Heartbeats", {}, makeBeats(), make("span", { class: "soft" })),
    cell("Keys ready", { class: "right" }, make("b"), make("span", { class: "soft" })));
}
function updateInstanceRow(row, instance) {
  const [, beats, ready] = row.children, [state, words] = instance.state;
  setAttribute(row, "data-state", state);
  updateBeats(beats.firstChild, instances.beats.get(instance.id) || []);
  setText(beats.lastChild, words);
  const known = activity.instances.get(instance.id);
  const isFresh = known && Date.now() - known.answeredAt < 4 * FRESH_MS && state !== "stopped";
  const sum = pick => [...known.spaces.values()].reduce((total, space) => total + pick(space), 0);
  setText(ready.firstChild, isFresh ? compact(sum(space => readyOf(space.counters))) : "–");
  setText(ready.lastChild, isFresh ? `${rateText(sum(space => space.change?.rate || 0))} a second` : "");
  setAttribute(ready, "title", isFresh || state !== "live" ? "" : "Known once this instance has answered this page");
}

// The newest leases of the keyspaces at the top of the list.
async function pollLeases() {
  const names = keyspaces.order.filter(name => isCounted(keyspaces.all.get(name)?.kind) || keyspaces.all.get(name)?.kind === "snowflake").slice(0, 4);
  const found = (await Promise.all(names.map(recentLeases))).flat();
  found.sort((one, other) => Date.parse(other.granted_at) - Date.parse(one.granted_at));
  showState("leases", found.length ? null : "No lease yet. An instance leases keys when the first one is taken.");
  sync(byId("leases-rows"), found.slice(0, 6), lease => `${lease.space}/${lease.lease}`, lease => make("tr", {},
    make("th", { scope: "row" }, make("a", { href: `#/keyspace/${encodeURIComponent(lease.space)}`, text: lease.space })),
    cell("Keys", { class: "right", text: leaseSize(lease) }), cell("Instance", {}, make("code", { text: lease.holder.id.slice(0, 12) })), cell("State", {}), cell("Granted", { class: "right" }, timeOf(lease.granted_at))),
  (row, lease) => {
    setText(row.children[3], leaseState(lease));
    setText(row.lastChild.firstChild, agoText(lease.granted_at));
  });
}
const leaseSize = lease => (lease.purpose === "window" ? "–" : compact(Number(lease.end) - Number(lease.start)));
// What became of a lease.
function leaseState(lease) {
  if (lease.purpose === "advance") return "skipped by an advance";
  if (lease.purpose === "fill") return "written into the pool";
  if (lease.purpose === "window") return lease.closed_at ? "worker, released" : "worker, held";
  if (!lease.closed_at) return "open";
  const unused = Number(lease.end) - Number(lease.closed_at_ordinal ?? lease.end);
  return unused > 0 ? `closed, ${compact(unused)} returned` : "used up";
}
