// Taking keys, and explaining them.

// The words for the states of a key, and how they look.
const KEY_STATES = {
  issued: "good", leased: "good", alias: "named", imported: "named", available: "plain", reserved: "plain",
  unissued: "plain", unknown: "plain", skipped: "warning", retired: "warning", invalid: "bad",
};
// How many keyspaces are asked about a key whose keyspace is not named.
const ASKED_MAX = 20;

function setUpKeys() {
  for (const form of document.querySelectorAll(".take-form")) onSubmit(form, takeKeys.bind(null, form));
  for (const form of document.querySelectorAll(".explain-form")) onSubmit(form, explainKey.bind(null, form));
}

async function takeKeys(form, data, place) {
  const space = form.dataset.space || data.get("space").trim();
  const kind = keyspaces.all.get(space)?.kind;
  if (kind === "digest") return takeDigest(space, data.get("input") || "", place);
  const count = Number(data.get("count"));
  const { keys } = await call("POST", pathOf("spaces", space, "keys"), { body: { count }, need: `take:${space}` });
  showKeys(place, space, keys);
}

async function takeDigest(space, input, place) {
  if (!input) return note(place, "", ...prose(`Keys of \`${space}\` are made from inputs: open it, and give one.`));
  const { key, made } = await call("POST", pathOf("spaces", space, "digests"), { body: { input }, need: `name:${space}` });
  showKeys(place, space, [key], made === false ? "The same key as before:" : undefined);
}

function showKeys(place, space, keys, said) {
  const shown = keys.slice(0, 20);
  place.replaceChildren(
    make("p", { class: "soft", text: said || (keys.length === 1 ? "It is yours alone:" : `${plural(keys.length, "key")}, yours alone:`) }),
    make("ul", { class: "keys" }, ...shown.map(key => make("li", {}, make("code", { text: key }),
      make("button", { type: "button", class: "quiet", text: "Explain", "aria-label": `Explain ${key}`, on: { click: () => explainHere(space, key) } }),
      copyButton(key, key)))),
    ...(keys.length > 1 ? [make("div", { class: "buttons" }, keys.length > shown.length ? make("span", { class: "soft", text: `and ${exact(keys.length - shown.length)} more` }) : null, copyAll(keys))] : []));
}
function copyAll(keys) {
  const button = copyButton(keys.join("\n"), `all ${plural(keys.length, "key")}`, "Copy all");
  button.className = "";
  return button;
}

// Puts a key into the box of the view that is open, and explains it.
function explainHere(space, key) {
  const form = [...document.querySelectorAll(".explain-form")].find(form => form.offsetParent !== null);
  if (!form) return;
  form.elements.key.value = key;
  if (form.elements.space) form.elements.space.value = space;
  form.requestSubmit();
  form.scrollIntoView({ block: "nearest" });
}

async function explainKey(form, data, place) {
  const key = data.get("key").trim(), space = form.dataset.space || data.get("space").trim();
  const about = name => get(pathOf("spaces", name, "keys", key), `read:${name}`);
  if (space) return place.replaceChildren(explanation(await about(space)));
  const names = [...keyspaces.all.values()].filter(it => couldBe(it, key)).map(it => it.name);
  const asked = names.slice(0, ASKED_MAX);
  if (!asked.length) return note(place, "", keyspaces.all.size ? "No keyspace has keys of this form. Name the keyspace if it is an alias." : "Name the keyspace.");
  const results = await Promise.allSettled(asked.map(about)), refused = results.filter(({ status }) => status === "rejected");
  if (refused.length === asked.length) throw refused[0].reason;
  const answers = results.flatMap(({ value }) => (value && value.state !== "invalid" ? [value] : []));
  // What is on record says more than what could be.
  const known = answers.filter(answer => !["unissued", "unknown"].includes(answer.state));
  const shown = known.length ? known : answers;
  const open = unasked(names.length - asked.length, refused.length, known.length > 0);
  const answered = asked.length - refused.length;
  if (!shown.length) return note(place, "", `It is no key of ${asked.length === 1 ? `the keyspace ${asked[0]}` : `the ${answered} keyspaces that answered`}. ${open ? "" : "A character may be mistyped."}`, open);
  place.replaceChildren(...(open && !known.length ? [open] : []), ...shown.slice(0, 3).map(explanation), ...(open && known.length ? [open] : []));
}

// Which keyspaces have not said anything about a key; it may be one of theirs, unless another one has it on record.
function unasked(left, refused, isKnown) {
  const parts = [left && `${plural(left, "keyspace")} with keys of this form ${left === 1 ? "was" : "were"} not asked`, refused && `${exact(refused)} did not answer`].filter(Boolean);
  if (!parts.length) return null;
  return make("p", { class: isKnown ? "soft" : "note", text: `${parts.join(", and ")}. ${isKnown ? "" : "The key may belong to one of them. "}Name the keyspace to ask it.` });
}

// Whether a text could be a key of a keyspace, by its form alone. Where there are few keyspaces, all are asked.
function couldBe(space, key) {
  if (keyspaces.all.size <= ASKED_MAX) return true;
  if (space.prefix && !key.toLowerCase().startsWith(space.prefix.toLowerCase())) return false;
  if (space.kind === "uuid") return /^[0-9a-f-]{32,36}$/i.test(key);
  const length = key.slice((space.prefix || "").length).replace(space.group ? /-/g : /$^/, "").length - (space.check ? 1 : 0);
  return !space.length || [space.length, ...(space.grown || [])].includes(length);
}

// Where a key came from, step by step.
function explanation(answer) {
  const steps = [];
  const step = (name, ...content) => steps.push(make("li", {}, make("span", { class: "soft", text: name }), make("span", {}, ...content)));
  if (answer.ordinal !== undefined) step("ordinal", exact(answer.ordinal));
  if (answer.number !== undefined && String(answer.number) !== String(answer.ordinal)) step("number", exact(answer.number));
  if (answer.time) step("made", make("time", { datetime: answer.time, text: timeFormat.format(new Date(answer.time)) }));
  if (answer.worker !== undefined) step("worker", `${answer.worker}, sequence ${answer.sequence}`);
  if (answer.lease) {
    step("lease", `${exact(answer.lease.lease)}: ${exact(answer.lease.start)} to ${exact(answer.lease.end)}`);
    step("held by", make("code", { text: answer.lease.holder.id }), ` on ${answer.lease.holder.host}`);
    step("granted", timeOf(answer.lease.granted_at));
  }
  if (answer.used) step("handed out", timeOf(answer.used.used_at || answer.used.at), answer.used.caller ? ` to ${answer.used.caller}` : "");
  return make("article", { class: "explanation" },
    make("p", {}, make("code", { class: "key", text: answer.key }), " ", make("span", { class: `badge ${KEY_STATES[answer.state] || "plain"}`, text: answer.state })),
    make("p", {}, ...prose(sentence(answer.reason)), " ", make("a", { href: `#/keyspace/${encodeURIComponent(answer.space)}`, text: answer.space })),
    steps.length ? make("ol", { class: "steps" }, ...steps) : null);
}
