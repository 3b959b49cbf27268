// The aliases of the keyspace that is open: list, add, remove.

const aliases = { space: null, list: [], next: null };

function setUpAliases() {
  onSubmit(byId("alias-form"), addAlias);
  byId("aliases-more").addEventListener("click", () => loadAliases(aliases.next).catch(error => showRefusal(byId("alias-result"), error)));
}

function openAliases(space) {
  Object.assign(aliases, { space, list: [], next: null });
  byId("alias-form").reset();
  byId("aliases-rows").replaceChildren();
  byId("aliases-more").hidden = true;
  showState("aliases", "Loading…");
  if (keyspaces.all.get(space)?.kind === "uuid") return;
  loadAliases(null).catch(error => aliases.space === space && showState("aliases", make("div", { class: "note bad" }, ...refusalNote(error))));
}

async function loadAliases(after) {
  const { space } = aliases;
  const page = await get(`${pathOf("spaces", space, "aliases")}?${new URLSearchParams({ limit: 25, ...(after ? { after } : {}) })}`, `read:${space}`);
  if (aliases.space !== space) return;
  aliases.list = after ? [...aliases.list, ...page.aliases] : page.aliases;
  aliases.next = page.next;
  showAliases();
}

function showAliases() {
  showState("aliases", aliases.list.length ? null : "No alias yet. Add the first one above.");
  byId("aliases-more").hidden = !aliases.next;
  sync(byId("aliases-rows"), aliases.list, ({ alias }) => alias, entry => make("tr", {},
    make("th", { scope: "row" }, make("code", { text: entry.alias })), cell("Owner", { text: entry.owner || "–" }), cell("Added", { class: "right" }, timeOf(entry.created_at)),
    cell("", { class: "right" }, make("button", { type: "button", class: "quiet", "aria-label": `Remove ${entry.alias}`, text: "Remove", on: { click: () => removeAlias(entry) } }))));
}

async function addAlias(data, place) {
  const { space } = aliases, alias = data.get("alias").trim(), owner = data.get("owner").trim();
  await call("PUT", pathOf("spaces", space, "aliases", alias), { body: owner ? { owner } : {}, need: `name:${space}` });
  note(place, "good", make("code", { text: alias }), " is reserved. It is never handed out as a generated key.");
  byId("alias-form").reset();
  byId("alias-form").elements.alias.focus();
  await loadAliases(null);
}

async function removeAlias({ alias, owner }) {
  const { space } = aliases, place = byId("alias-result");
  if (!await ask({ title: `Remove ${alias}?`, why: "The alias is free to be chosen again. Its key stays reserved and is never handed out.", action: "Remove it" })) return;
  try {
    await call("DELETE", `${pathOf("spaces", space, "aliases", alias)}${owner ? `?${new URLSearchParams({ owner })}` : ""}`, { need: `name:${space}` });
    note(place, "good", make("code", { text: alias }), " is removed.");
    await loadAliases(null);
  } catch (error) {
    showRefusal(place, error);
  }
}
