// What happens: rates and latencies, from the differences between two answers of the same instance.
// Polls may reach different instances behind a load balancer, so each has counters of its own.

// How far back charts reach, and how old the figures of an instance may be to count.
const SPAN_MS = 5 * 60 * 1000, FRESH_MS = 15 * 1000;

const activity = {
  isThere: true, bounds: [],
  // Instance -> keyspace -> its last counters, and what has changed since the ones before.
  instances: new Map(),
  // Keyspace -> points over time; "" is all of them.
  series: new Map(),
  // What was asked for before: one keyspace, or "" for all.
  polled: new Set(),
};

// Takes in one answer of /v1/activity.
function learnActivity(answer) {
  activity.bounds = answer.bounds_seconds;
  let instance = activity.instances.get(answer.instance);
  if (!instance) activity.instances.set(answer.instance, (instance = { id: answer.instance, spaces: new Map() }));
  instance.answeredAt = Date.now();
  for (const given of answer.spaces) {
    // Numbers above 2^53 are texts.
    const counters = { ...given, latency_counts: given.latency_counts.map(Number) };
    for (const name of ["keys", "requests", "failures", "ready"]) counters[name] = Number(given[name]);
    const before = instance.spaces.get(counters.space);
    const now = { counters, uptime: answer.uptime_seconds, at: Date.now(), change: null };
    const seconds = before ? answer.uptime_seconds - before.uptime : 0;
    if (before && seconds > 0.2 && counters.keys >= before.counters.keys) {
      const old = before.counters;
      now.change = {
        rate: (counters.keys - old.keys) / seconds,
        requests: (counters.requests - old.requests) / seconds,
        failures: counters.failures - old.failures,
        counts: counters.latency_counts.map((count, at) => count - (old.latency_counts[at] || 0)),
      };
    } else if (before && seconds <= 0.2) {
      continue;
    }
    instance.spaces.set(counters.space, now);
  }
}

// The figures of a keyspace at present, over the instances that have answered lately; of all of them without a name.
function present(space) {
  const sum = { rate: null, requests: 0, failures: 0, counts: [], ready: null, failed: 0 };
  for (const instance of activity.instances.values()) {
    const asked = space ? [instance.spaces.get(space)].filter(Boolean) : instance.spaces.values();
    for (const { counters, change, at } of asked) {
      if (Date.now() - at > FRESH_MS) continue;
      sum.ready = (sum.ready || 0) + (space ? counters.ready : readyOf(counters));
      sum.failed += counters.failures;
      if (!change) continue;
      sum.rate = (sum.rate || 0) + change.rate;
      sum.requests += change.requests;
      sum.failures += change.failures;
      change.counts.forEach((count, index) => (sum.counts[index] = (sum.counts[index] || 0) + count));
    }
  }
  return { ...sum, p50: quantile(sum.counts, 0.5), p99: quantile(sum.counts, 0.99) };
}

// Which instances the figures are of, where there are more: those that have answered this page lately. Behind a load balancer
// that is all of them, in time; at the address of one of them, it is that one.
function scopeText() {
  const live = instances.all.filter(instance => instance.address && instanceState(instance)[0] === "live");
  const heard = live.filter(({ id }) => Date.now() - (activity.instances.get(id)?.answeredAt ?? 0) <= FRESH_MS).length;
  if (!heard || heard >= live.length) return "";
  return heard === 1 ? `this instance, 1 of ${live.length}` : `${heard} of ${live.length} instances`;
}
function showScope() {
  const text = activity.isThere ? scopeText() : "";
  for (const place of document.querySelectorAll(".scope")) setText(place, text);
}

// The keys that an instance has ready. Snowflake IDs are made when they are asked for, and would outnumber all others.
const readyOf = counters => (counters.kind === "snowflake" ? 0 : counters.ready);

// The latency below which a share of requests lies; within a bucket, they are taken to lie evenly.
function quantile(counts, share) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (!total) return null;
  let below = 0;
  for (let at = 0; at < counts.length; at++) {
    if (below + counts[at] >= total * share && counts[at] > 0) {
      const low = at ? activity.bounds[at - 1] : 0, high = activity.bounds[at] ?? low;
      return low + (high - low) * ((total * share - below) / counts[at]);
    }
    below += counts[at];
  }
  return activity.bounds.at(-1);
}

// Adds a point to the series of a keyspace.
function addPoint(space, figures) {
  if (figures.rate === null) return;
  let points = activity.series.get(space);
  if (!points) activity.series.set(space, (points = []));
  const { rate, p50, p99 } = figures;
  points.push({ at: Date.now(), rate, p50, p99 });
  while (points.length && points[0].at < Date.now() - SPAN_MS) points.shift();
}
const seriesOf = space => activity.series.get(space) || [];

// Asks for all keyspaces, or one of them, and adds points. An older server does not have it.
async function pollActivity(space) {
  if (!activity.isThere) return;
  const names = new Set();
  let after = null, pages = 0;
  do {
    const query = new URLSearchParams({ ...(space ? { space } : { limit: 1000 }), ...(after ? { after } : {}) });
    let answer;
    try {
      answer = await get(`/v1/activity?${query}`, space ? `read:${space}` : "read:*");
    } catch (error) {
      if (error instanceof Refusal && error.code === "not_found") activity.isThere = false;
      throw error;
    }
    learnActivity(answer);
    for (const counters of answer.spaces) names.add(counters.space);
    after = answer.next;
  } while (after && ++pages < 10);
  // An instance lists the keyspaces that it has open. Of the others it takes no keys.
  const has = activity.polled.has(space || "");
  activity.polled.add(space || "");
  names.add(space || "");
  for (const name of names) {
    const figures = present(name);
    addPoint(name, { ...figures, rate: figures.rate ?? (has ? 0 : null) });
  }
}
