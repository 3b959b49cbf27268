// The pool of a keyspace: how full it is, and filling it. A request writes a limited number of keys, so many follow each other.

const pool = { isFilling: false, isStopped: false, highest: 0, space: null };

function setUpPool() {
  onSubmit(byId("pool-form"), fillPool);
  byId("pool-stop").addEventListener("click", () => {
    pool.isStopped = true;
    byId("pool-stop").disabled = true;
  });
}

function openPool(space) {
  pool.isStopped = true;
  Object.assign(pool, { space, highest: 0 });
  byId("pool-progress").hidden = true;
}

function showPool(view) {
  const available = Number(view.available), mark = Number(view.low_water);
  pool.highest = Math.max(pool.highest, available, mark * 1.25, 1);
  drawLevel(byId("pool-picture"), { value: available, max: pool.highest, mark, label: `${exact(available)} keys in the pool` });
  byId("pool-level").replaceChildren(make("strong", { text: plural(available, "key") }), " available",
    mark ? `; filled by itself below ${exact(mark)}` : "; not filled by itself", available ? "." : ". Takes are refused until it is filled.");
}

async function fillPool(data, place) {
  const { space } = pool, wanted = Number(data.get("count")), begin = performance.now();
  let left = wanted, isUsedUp = false;
  Object.assign(pool, { isFilling: true, isStopped: false });
  byId("pool-stop").hidden = byId("pool-progress").hidden = false;
  byId("pool-stop").disabled = false;
  place.replaceChildren();
  try {
    while (left > 0 && !isUsedUp && !pool.isStopped) {
      showProgress(wanted - left, wanted, begin);
      // In small steps, so that there is progress to see.
      const step = Math.min(left, Math.max(1000, Math.ceil(wanted / 40)));
      const answer = await call("POST", pathOf("spaces", space, "pool", "fill"), { body: { count: step }, need: `admin:${space}` });
      left -= Number(answer.added);
      isUsedUp = answer.is_used_up;
    }
    if (pool.space !== space) return;
    showProgress(wanted - left, wanted, begin);
    const added = exact(wanted - left);
    if (isUsedUp) note(place, "bad", `Added ${added} keys. The keyspace has no more: add longer keys with `, make("code", { text: `keymill space grow ${space} --length N` }));
    else note(place, "good", pool.isStopped ? `Stopped after ${added} keys.` : `Added ${added} keys in ${durationText((performance.now() - begin) / 1000)}.`);
  } finally {
    pool.isFilling = false;
    byId("pool-stop").hidden = true;
    if (pool.space === space) await pollKeyspace().catch(() => {});
  }
}

function showProgress(done, wanted, begin) {
  const seconds = (performance.now() - begin) / 1000;
  const left = done > 0 && done < wanted ? `, ${durationText(Math.max(1, (seconds * (wanted - done)) / done))} left` : "";
  const label = `${exact(done)} of ${exact(wanted)} keys${left}`;
  const place = byId("pool-progress");
  const bar = make("div", {});
  place.replaceChildren(bar, make("p", { class: "soft", text: label }));
  drawLevel(bar, { value: done, max: wanted, mark: 0, label });
}
