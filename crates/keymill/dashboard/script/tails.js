// The end of lists that the server gives oldest first: leases of a keyspace, acts.
// Their entries are numbered, so the end is found by doubling and halving, and followed from there.

// How many are shown.
const TAIL = 12;
// The last entries of a list, newest first. `page(after)` gives up to `PAGE` entries above a number, rising; `memory`
// keeps where the end was.
const PAGE = 60;
async function tailOf(page, numberOf, memory) {
  let low = memory.from || 0, items = await page(low), rest = [];
  if (items.length >= PAGE) {
    // Doubling, until a page is not full: the end is between `low` and `high`.
    let step = PAGE, high = null;
    while (high === null) {
      const more = await page(low + step);
      if (more.length < PAGE) [high, rest] = [low + step, more];
      else [low, items, step] = [low + step, more, step * 2];
    }
    // Halving, until the full page at `low` reaches to `high`.
    while (high - low > PAGE) {
      const middle = Math.floor((low + high) / 2), more = await page(middle);
      if (more.length < PAGE) [high, rest] = [middle, more];
      else [low, items] = [middle, more];
    }
  }
  const all = new Map([...items, ...rest].map(item => [Number(numberOf(item)), item]));
  const last = [...all.values()].slice(-TAIL);
  // Entries that are shown may still change: they are asked for again.
  if (last.length) memory.from = Math.max(0, Number(numberOf(last[0])) - 1);
  return last.reverse();
}

const leaseMemory = new Map();
// The newest leases of a keyspace, newest first.
function recentLeases(space) {
  if (!leaseMemory.has(space)) leaseMemory.set(space, {});
  const page = async after => {
    const query = new URLSearchParams({ space, limit: PAGE, ...(after ? { after: `${space}/${after}` } : {}) });
    return (await get(`/v1/leases?${query}`, `read:${space}`)).leases;
  };
  return tailOf(page, lease => lease.lease, leaseMemory.get(space));
}

const actMemory = {};
// What administrators did lately, newest first.
function recentActs() {
  const page = async after => {
    const query = new URLSearchParams({ limit: PAGE, ...(after ? { after } : {}) });
    return (await get(`/v1/acts?${query}`, "admin:*")).acts;
  };
  return tailOf(page, act => act.id, actMemory);
}
