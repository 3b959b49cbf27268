// Creating a keyspace, with a preview of its keys and of how long they last.

const preview = { timer: null, asked: 0, answer: null };
// The kinds whose keys have a shape that can be chosen.
const SHAPED = ["shuffled", "sequential", "pooled", "digest"];

function setUpCreate() {
  const form = byId("new-form");
  form.addEventListener("input", () => {
    showChoices();
    clearTimeout(preview.timer);
    preview.timer = setTimeout(loadPreview, 150);
  });
  byId("preview-rate").addEventListener("input", showLasts);
  onSubmit(form, createKeyspace);
}

function openCreate(name) {
  if (name) byId("new-form").elements.name.value = name;
  showChoices();
  loadPreview();
}

// Shows the fields of the kind that is chosen.
function showChoices() {
  const fields = byId("new-form").elements, kind = fields.kind.value;
  for (const part of document.querySelectorAll("#new-form [data-for]")) part.hidden = !part.dataset.for.split(" ").includes(kind);
  byId("new-own").hidden = fields.alphabet.value !== "own";
  setText(byId("new-length-shown"), fields.size.value);
  byId("preview-command").textContent = commandOf(fields.name.value.trim() || "NAME", settingsOf());
}

// What is chosen, without what is the default anyway.
function settingsOf() {
  const fields = byId("new-form").elements, kind = fields.kind.value, settings = { kind };
  const set = (name, value, usual) => {
    if (value !== usual) settings[name] = value;
  };
  if (SHAPED.includes(kind)) {
    set("alphabet", fields.alphabet.value === "own" ? fields.own.value : fields.alphabet.value, "base62");
    set("length", Number(fields.size.value), 7);
    set("prefix", fields.prefix.value, "");
    set("group", Number(fields.group.value || 0), 0);
    set("check", fields.check.checked, false);
  }
  if (kind === "digest") set("normalize", fields.normalize.value, "none");
  if (kind === "pooled") set("low_water", Number(fields.low_water.value || 0), 0);
  if (kind === "snowflake") {
    set("layout", fields.layout.value, "41/10/12");
    set("alphabet", fields.id_alphabet.value, "decimal");
  }
  if (kind === "uuid") set("uuid_version", Number(fields.uuid_version.value), 7);
  if (!["uuid", "digest"].includes(kind) && fields.audit.checked) settings.audit = "key";
  return settings;
}

// The same as a command.
function commandOf(name, settings) {
  const quote = text => (/^[\w./@:-]+$/.test(text) ? text : `'${text}'`);
  const flags = Object.entries(settings).filter(([setting, value]) => setting !== "kind" || value !== "shuffled")
    .map(([setting, value]) => (value === true ? `--${setting}` : `--${setting.replaceAll("_", "-")} ${quote(String(value))}`));
  return ["keymill space create", name, ...flags].join(" ");
}

async function loadPreview() {
  const turn = ++preview.asked, problem = byId("preview-problem");
  try {
    const answer = await call("POST", "/v1/preview", { body: settingsOf(), need: "read:*" });
    if (turn !== preview.asked) return;
    preview.answer = answer;
    problem.hidden = true;
    byId("preview-figures").hidden = false;
    showPreview();
  } catch (error) {
    if (turn !== preview.asked) return;
    preview.answer = null;
    problem.hidden = false;
    problem.replaceChildren(...refusalNote(error));
    byId("preview-figures").hidden = true;
    byId("preview-keys").replaceChildren();
  }
}

function showPreview() {
  const { keys, capacity, density_at_million } = preview.answer;
  byId("preview-keys").replaceChildren(...keys.map(key => make("li", {}, make("code", { text: key }))));
  setText(byId("preview-capacity"), compact(capacity));
  byId("preview-capacity").title = exact(capacity);
  const kind = byId("new-form").elements.kind.value;
  setText(byId("preview-odds"), kind === "sequential" || kind === "snowflake" ? "easy to guess" : oddsText(density_at_million));
  showLasts();
}

// The rate that the slider stands at: three steps to a factor of two or so, from 1 to a million.
const chosenRate = () => Math.round(10 ** (Number(byId("preview-rate").value) / 10));
function showLasts() {
  if (!preview.answer) return;
  const { capacity, rate_max, runs_out_at } = preview.answer, rate = chosenRate();
  setText(byId("preview-rate-shown"), `${exact(Number(rate.toPrecision(2)))} ${rate === 1 ? "key" : "keys"} per second`);
  byId("preview-rate").setAttribute("aria-valuetext", byId("preview-rate-shown").textContent);
  const seconds = Number(capacity) / rate;
  const isTooFast = rate_max !== undefined && rate > Number(rate_max);
  setText(byId("preview-lasts"), runs_out_at ? `until ${dayFormat.format(new Date(runs_out_at))}${isTooFast ? `, with ${Math.ceil(rate / Number(rate_max))} instances` : ""}` : durationText(seconds));
  const left = runs_out_at ? (Date.parse(runs_out_at) - serverNow()) / 1000 : seconds;
  drawLifetime(byId("preview-picture"), left);
}

// A time on a scale from a minute to a thousand years.
function drawLifetime(container, seconds) {
  const width = Math.max(240, container.clientWidth), marks = [["1 min", 60], ["1 h", 3600], ["1 day", 86400], ["1 month", 2629746], ["1 year", 31556952], ["100 years", 3155695200]];
  const low = Math.log10(30), high = Math.log10(2e10), x = value => width * Math.min(1, Math.max(0, (Math.log10(value) - low) / (high - low)));
  const svg = shape("svg", { viewBox: `0 0 ${width} 44`, class: "scale lifetime", role: "img", focusable: "false" }, shape("title", { text: `They last ${durationText(seconds)}` }),
    shape("rect", { class: "free", x: 0, y: 4, width, height: 12, rx: 6 }),
    shape("rect", { class: seconds < 31556952 ? "named" : "leased", x: 0, y: 4, width: Math.max(12, x(seconds)).toFixed(1), height: 12, rx: 6 }),
    ...marks.filter((_, at) => width > 420 || at % 2 === 0).flatMap(([text, value]) => [shape("line", { class: "tick", x1: x(value).toFixed(1), x2: x(value).toFixed(1), y1: 18, y2: 24 }), shape("text", { x: x(value).toFixed(1), y: 38, "text-anchor": "middle", text })]));
  container.replaceChildren(svg);
}

async function createKeyspace(data, place) {
  const name = data.get("name").trim();
  const view = await call("PUT", pathOf("spaces", name), { body: settingsOf(), need: `admin:${name}` });
  keyspaces.all.set(name, view);
  say(`Created the keyspace ${name}`);
  byId("new-form").reset();
  place.replaceChildren();
  location.hash = `#/keyspace/${encodeURIComponent(name)}`;
}
