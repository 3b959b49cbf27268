// The documentation page: shows each operation of /openapi.json and sends calls to this server.
// Served at /docs/script.js. It asks no other host, and asks the reader before a call that changes something.
"use strict";

const GROUPS = ["keys", "keyspaces", "audit", "operations"];
// Answers that are longer are cut: a browser is slow to show megabytes.
const SHOWN_MAX = 20000;
// Values for examples, if the description has no example of its own.
const SAMPLES = {
  space: "default", name: "default", key: "4fXk2Qz", keys: ["4fXk2Qz", "b0RtY7m"], alias: "summer-sale", owner: "ann",
  caller: "shop", input: "https://example.com/a/long/address", inputs: ["https://example.com/a", "https://example.com/b"],
  scope: "", made: true, tries: 1, imported: 2, refused: [], count: 2, limit: 100, kind: "shuffled", alphabet: "base62",
  length: 7, prefix: "", state: "leased", reason: "granted to an instance, which may have handed it out",
  capacity: 3521614606208, next: 1000, leased: 1000, remaining: 3521614605208, at_hand: 998, density: 2.8e-10,
  fingerprint: "71dd51ab8d076d38", host: "app-1", pid: 4711, version: "0.1.0", address: "10.0.0.5:8080",
  instance: "30737586a00d", id: "30737586a00d", lease: 2, start: 0, end: 1000, ordinal: 18, number: 18,
  lease_size_min: 1000, lease_size_max: 100000000, horizon_seconds: 900, step: 1, blocklist: true,
  reserve_seconds: 300, window_seconds: 60, detail: "…", ready: true, problems: [],
};
// What a keyspace that was just created shows of its use.
const UNUSED = { next: 0, leased: 0, remaining: SAMPLES.capacity, at_hand: 0, density: 0 };
// Fields of a body that are shown in examples although they may be left out.
const TYPED = ["owner", "count", "kind", "length"];
// Fields that may be left out but are shown in examples.
const SHOWN = ["ordinal", "number", "lease", "tries", "fingerprint"];
// Plain text that is not a key.
const TEXTS = { "/healthz": "ok", "/metrics": "keymill_ready 1\n# EOF" };
// The keyspace in examples: some calls need one of a certain kind.
const spaceOf = path => path.endsWith("/digests") ? "pages" : path.endsWith("/pool") ? "coupons" : SAMPLES.space;

const byId = id => document.getElementById(id);
const make = (tag, options, ...children) => {
  const { data, ...rest } = options || {};
  const element = Object.assign(document.createElement(tag), rest);
  Object.assign(element.dataset, data);
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
};
// Text with `code` in backticks. An error code leads to what to do about it.
const prose = text => (text || "").split("`").map((part, at) => {
  if (at % 2 === 0) return part;
  const code = make("code", {}, part);
  return byId(`code-${part}`) ? make("a", { href: `#code-${part}` }, code) : code;
});

let api = {};
const resolve = node => {
  while (node && node.$ref) node = node.$ref.slice(2).split("/").reduce((at, name) => at?.[name], api);
  return node || {};
};
const named = node => (node && node.$ref ? node.$ref.split("/").pop() : "");
const typesOf = schema => [].concat(schema.type || []).filter(type => type !== "null");
const isNullable = schema => [].concat(schema.type || []).includes("null") || [...(schema.oneOf || []), ...(schema.anyOf || [])].some(one => one.type === "null");
const choices = schema => (schema.oneOf || schema.anyOf || []).filter(one => one.type !== "null");

// A type in words.
function typeText(node) {
  const schema = resolve(node);
  if (schema.enum) return schema.enum.length > 1 ? "one of " + schema.enum.join(", ") : JSON.stringify(schema.enum[0]);
  if (choices(schema).length) return [...new Set(choices(schema).map(typeText))].join(" or ");
  const types = typesOf(schema);
  if (types.includes("array")) return `list of ${typeText(schema.items)}`;
  const bounds = [schema.minimum !== undefined && `from ${schema.minimum}`, schema.maximum !== undefined && `to ${schema.maximum}`];
  return [types.join(" or ") || (named(node) ? "object" : "any"), ...bounds.filter(Boolean)].join(" ");
}

// The fields of an object, including those of its parts.
function fieldsOf(node) {
  const schema = resolve(node);
  const parts = [...(schema.allOf || []), ...choices(schema)].flatMap(fieldsOf);
  const required = schema.required || [];
  const own = Object.entries(schema.properties || {}).map(([name, field]) => ({ name, field, required: required.includes(name) }));
  return [...new Map([...parts, ...own].map(field => [field.name, field])).values()];
}

// An example of a value.
function sample(node, name = "", depth = 0) {
  const schema = resolve(node);
  const given = node?.example ?? schema.example ?? schema.examples?.[0];
  if (given !== undefined) return given;
  const fields = fieldsOf(node);
  const fits = SAMPLES[name] !== undefined && (!schema.enum || schema.enum.includes(SAMPLES[name]));
  if (fits && !fields.length) return SAMPLES[name];
  if (schema.default !== undefined && schema.default !== null) return schema.default;
  if (schema.enum) return schema.enum[0];
  if (choices(schema).length) return sample(choices(schema)[0], name, depth);
  if (fields.length && depth < 4) {
    // If nothing is required, everything that has a value is shown.
    const some = fields.some(({ required }) => required);
    const shown = fields.filter(({ name, field, required }) => required || SHOWN.includes(name) || (!some && !isNullable(resolve(field))));
    return Object.fromEntries(shown.map(({ name, field }) => [name, sample(field, name, depth + 1)]));
  }
  const types = typesOf(schema);
  if (types.includes("array")) return depth < 4 ? [sample(schema.items, "", depth + 1)] : [];
  if (types.includes("boolean")) return false;
  if (types.includes("integer") || types.includes("number")) return schema.minimum ?? 0;
  if (schema.format === "date-time" || /_at$|^time$|^epoch$/.test(name)) return "2026-11-16T15:34:33Z";
  return types.includes("string") ? "…" : null;
}

// The JSON that a body starts with in the form: what is required, and what most readers would set.
function sampleBody(node) {
  const fields = fieldsOf(node);
  const wanted = choices(resolve(node)).length ? fieldsOf(choices(resolve(node))[0]) : fields;
  const short = wanted.filter(({ name, required }) => required || TYPED.includes(name));
  return Object.fromEntries(short.map(({ name, field }) => [name, sample(field, name, 1)]));
}

// The description of a field: its own, or else that of its type.
function textOf(field) {
  const parts = [field, ...choices(field)];
  return [...parts, ...parts.map(resolve)].find(part => part.description)?.description || "";
}

function fieldList(node) {
  return make("dl", {}, ...fieldsOf(node).flatMap(({ name, field, required }) => {
    const type = make("span", { className: "type" }, typeText(field) + (required ? "" : ", optional"));
    return [make("dt", {}, make("code", {}, name), type), make("dd", {}, ...prose(textOf(field)))];
  }));
}

const fold = (title, node) => fieldsOf(node).length
  ? make("details", { className: "fields" }, make("summary", {}, title), fieldList(node)) : null;

function describeParameters(parameters) {
  return make("dl", {}, ...parameters.flatMap(parameter => {
    const where = [parameter.in, typeText(parameter.schema), parameter.required ? "required" : ""];
    const type = make("span", { className: "type" }, where.filter(Boolean).join(", "));
    return [make("dt", {}, make("code", {}, parameter.name), type), make("dd", {}, ...prose(parameter.description))];
  }));
}

function describeAnswers(operation) {
  return make("dl", {}, ...Object.entries(operation.responses).flatMap(([status, node]) => {
    const response = resolve(node);
    const kind = make("span", { className: `status ${status < 400 ? "good" : "bad"}` }, status);
    const types = make("span", { className: "type" }, Object.keys(response.content || {}).join(" or "));
    const content = Object.values(response.content || {})[0];
    const fields = status < 400 && content ? fold("Fields", content.schema) : null;
    return [make("dt", {}, kind, types), make("dd", {}, ...prose(response.description), fields)];
  }));
}

// The content of the first good answer: its media type and an example as text.
function exampleAnswer({ path, method, operation }) {
  const good = Object.entries(operation.responses).find(([status]) => status < 300);
  if (!good) return null;
  const [status, node] = good;
  const [type, content] = Object.entries(resolve(node).content || {})[0] || [];
  if (!type) return `${status}, without a body`;
  const named = Object.values(content.examples || {})[0];
  const value = content.example ?? resolve(named).value;
  if (!type.includes("json")) return value ?? TEXTS[path] ?? SAMPLES.key;
  if (value !== undefined) return JSON.stringify(value, null, 2);
  const made = sample(content.schema);
  if (made?.space) made.space = spaceOf(path);
  if (method === "put" && made?.capacity) Object.assign(made, UNUSED);
  return JSON.stringify(made, null, 2);
}

// The request that a form describes, with the names of required fields that are empty.
function requestOf(call, form) {
  const value = name => form.elements[name]?.value ?? "";
  const missing = [];
  let path = call.path;
  const query = new URLSearchParams();
  for (const parameter of call.parameters) {
    const text = value(`${parameter.in}.${parameter.name}`);
    if (parameter.in === "path") {
      if (!text) missing.push(parameter.name);
      path = path.replace(`{${parameter.name}}`, text ? encodeURIComponent(text) : `{${parameter.name}}`);
    } else if (parameter.in === "query" && text) {
      query.append(parameter.name, text);
    } else if (parameter.in === "query" && parameter.required) {
      missing.push(parameter.name);
    }
  }
  const headers = {};
  if (value("accept") && form.elements.accept.selectedIndex > 0) headers.accept = value("accept");
  const body = call.bodyType && value("body").trim() ? value("body") : undefined;
  if (body !== undefined) headers["content-type"] = call.bodyType;
  return { method: call.method.toUpperCase(), target: path + (query.size ? `?${query}` : ""), headers, body, missing };
}

const quoted = text => `'${text.replaceAll("'", "'\\''")}'`;

function curl(request) {
  const url = location.origin + request.target;
  const lines = [`curl ${request.method === "GET" ? "" : `-X ${request.method} `}${/[?&{}'*]/.test(url) ? quoted(url) : url}`];
  for (const [name, value] of Object.entries(request.headers)) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (request.body !== undefined) {
    const lineByLine = !request.headers["content-type"].includes("json");
    lines.push(`${lineByLine ? "--data-binary" : "-d"} ${quoted(request.body)}`);
  }
  return lines.join(" \\\n  ");
}

// Why a call needs confirmation; empty if it does not.
function changes(call) {
  if (call.path === "/get-key" || (call.method === "post" && call.path.endsWith("/keys"))) {
    return "It hands out keys: they count as used and are never handed out again.";
  }
  return call.method === "get" || call.method === "head" ? "" : "It changes what this server stores.";
}

// Asks in a dialog; the promise resolves to whether to continue.
function ask(why, request) {
  const dialog = byId("ask");
  byId("ask-why").textContent = why;
  byId("ask-request").textContent = curl(request);
  return new Promise(decided => {
    let go = false;
    byId("ask-yes").onclick = () => { go = true; dialog.close(); };
    byId("ask-no").onclick = () => dialog.close();
    // Escape closes it, too.
    dialog.onclose = () => decided(go);
    dialog.showModal();
    byId("ask-no").focus();
  });
}

// JSON with line breaks. It is not parsed and written anew: that would round large numbers and change 0.0 to 0.
function pretty(text, type) {
  if (!type.includes("json")) return text;
  let depth = 0;
  const line = () => "\n" + "  ".repeat(depth);
  return text.trim().replaceAll(/"(?:[^"\\]|\\.)*"|\[\s*\]|\{\s*\}|[[{\]},:]|\s+/g, part => {
    if (part === "{" || part === "[") { depth += 1; return part + line(); }
    if (part === "}" || part === "]") { depth -= 1; return line() + part; }
    if (part === ",") return part + line();
    if (part === ":") return ": ";
    return part.trim();
  });
}

async function send(call, form, output) {
  const request = requestOf(call, form);
  const button = form.querySelector("button");
  output.replaceChildren();
  if (request.missing.length) {
    output.append(make("p", { className: "quiet" }, `Fill in ${request.missing.join(" and ")} first.`));
    form.elements[`path.${request.missing[0]}`]?.focus();
    return;
  }
  const why = changes(call);
  if (why && !(await ask(why, request))) return;
  button.disabled = true;
  const started = performance.now();
  try {
    const { method, headers, body } = request;
    const answer = await fetch(request.target, { method, headers, body, cache: "no-store", redirect: "manual" });
    const text = await answer.text();
    const type = answer.headers.get("content-type") || "";
    const kind = make("span", { className: `status ${answer.ok ? "good" : "bad"}` }, `${answer.status} ${answer.statusText}`);
    const after = answer.headers.get("retry-after");
    const rest = [type, `${Math.round(performance.now() - started)} ms`, after && `try again after ${after} s`];
    output.append(make("p", {}, kind, " ", make("span", { className: "quiet" }, rest.filter(Boolean).join(" · "))));
    const code = !answer.ok && /"code":"([a-z_]+)"/.exec(text)?.[1];
    const remedy = code && byId(`code-${code}`)?.lastElementChild.cloneNode(true).childNodes;
    if (remedy) output.append(make("p", {}, ...prose("`" + code + "`"), ": ", ...remedy));
    const whole = pretty(text, type);
    const cut = whole.length > SHOWN_MAX ? `${whole.slice(0, SHOWN_MAX)}\n… ${whole.length - SHOWN_MAX} more characters` : whole;
    if (cut) output.append(make("pre", { className: "sample", tabIndex: 0 }, cut));
  } catch (error) {
    output.append(make("p", { className: "status bad" }, `No answer: ${error.message}. Is the server still running?`));
  } finally {
    button.disabled = false;
    button.focus();
  }
}

// One labelled control of a form.
function field(id, label, note, control, wide) {
  control.id = id;
  const text = make("label", { htmlFor: id }, label, note ? make("span", { className: "quiet" }, ` ${note}`) : null);
  return make("div", { className: wide ? "field wide" : "field" }, text, control);
}

// The example for a parameter that is not filled in.
const standIn = (path, name) => name === "space" ? spaceOf(path) : SAMPLES[name] ?? name;

function controlOf(path, parameter) {
  const schema = resolve(parameter.schema);
  const name = `${parameter.in}.${parameter.name}`;
  const options = schema.enum || (typesOf(schema).includes("boolean") ? ["true", "false"] : null);
  if (options) {
    const all = parameter.required ? options : ["", ...options];
    return make("select", { name }, ...all.map(value => make("option", { value }, value === "" ? "(not sent)" : value)));
  }
  const input = make("input", { name, autocomplete: "off", spellcheck: false, required: Boolean(parameter.required) });
  // A number is typed as text, so that the reader can try a wrong value and see the error.
  if (typesOf(schema).includes("integer")) input.inputMode = "numeric";
  const example = standIn(path, parameter.name);
  input.placeholder = parameter.required ? `such as ${example}` : "(not sent)";
  // A call that works when it is sent as it is, where that is possible.
  const works = parameter.name === "count" || (parameter.required && example === SAMPLES.space);
  if (works) input.value = example;
  return input;
}

function formOf(call, id) {
  const form = make("form", { noValidate: true, autocomplete: "off" });
  for (const parameter of call.parameters.filter(({ in: place }) => place === "path" || place === "query")) {
    form.append(field(`${id}.${parameter.in}.${parameter.name}`, parameter.name, "", controlOf(call.path, parameter)));
  }
  const good = Object.entries(call.operation.responses).find(([status]) => status < 300);
  const types = Object.keys((good && resolve(good[1]).content) || {});
  if (types.length > 1) {
    const select = make("select", { name: "accept" }, ...types.map(type => make("option", { value: type }, type)));
    form.append(field(`${id}.accept`, "Accept", "", select));
  }
  if (call.bodyType) {
    const example = call.bodyType.includes("json") ? JSON.stringify(call.bodyExample ?? sampleBody(call.bodySchema)) : `${SAMPLES.key}\nb0RtY7m`;
    // What can also be in the query is sent there, because twice is refused.
    const isDouble = fieldsOf(call.bodySchema).some(({ name }) => call.parameters.some(parameter => parameter.name === name));
    const area = make("textarea", { name: "body", spellcheck: false, value: isDouble ? "" : example, rows: 3 });
    if (isDouble) area.placeholder = `(not sent) such as ${example}, instead of the query`;
    form.append(field(`${id}.body`, "body", call.bodyType, area, true));
  }
  const note = changes(call) ? make("span", { className: "quiet" }, "You will be asked to confirm.") : null;
  form.append(make("div", { className: "buttons" }, make("button", { type: "submit", className: "strong" }, "Send"), note));
  return form;
}

function callOf(path, method, node, shared) {
  const operation = resolve(node);
  const parameters = [...(shared || []), ...(operation.parameters || [])].map(resolve);
  const [bodyType, body] = Object.entries(resolve(operation.requestBody).content || {})[0] || [];
  const bodyExample = body?.example ?? resolve(Object.values(body?.examples || {})[0]).value;
  return { path, method, operation, parameters, bodyType, bodySchema: body?.schema, bodyExample };
}

// Fills an operation when it is opened for the first time.
function fill(inside, call, id) {
  const { operation } = call;
  const body = resolve(operation.requestBody);
  const left = make("div", {}, operation.description ? make("p", {}, ...prose(operation.description)) : null);
  if (call.parameters.length) left.append(make("h3", {}, "Parameters"), describeParameters(call.parameters));
  if (call.bodyType) {
    left.append(make("h3", {}, body.required ? "Body" : "Body, optional"),
      make("p", {}, ...prose(body.description || ""), " ", make("span", { className: "quiet" }, call.bodyType)));
    const fields = fieldList(call.bodySchema);
    if (fields.children.length) left.append(fields);
  }
  left.append(make("h3", {}, "Answers"), describeAnswers(operation));

  const form = formOf(call, id);
  const request = make("pre", { className: "sample", tabIndex: 0, ariaLabel: "Example request" });
  const output = make("div", { className: "answer" });
  output.setAttribute("aria-live", "polite");
  const show = () => {
    const now = requestOf(call, form);
    // In the command, fields that are not filled in have example values.
    for (const name of now.missing) now.target = now.target.replace(`{${name}}`, standIn(call.path, name));
    request.textContent = curl(now);
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", event => {
    event.preventDefault();
    send(call, form, output);
  });
  show();
  const right = make("div", {}, make("h3", {}, "Example request"), request);
  const example = exampleAnswer(call);
  if (example) right.append(make("h3", {}, "Example answer"), make("pre", { className: "sample", tabIndex: 0, ariaLabel: "Example answer" }, example));
  right.append(make("h3", {}, "Try it"), form, output);
  inside.append(left, right);
}

function show(call) {
  const id = `${call.method}${call.path.replaceAll(/[^a-z0-9]+/g, "-")}`.replace(/-$/, "");
  const verb = make("span", { className: `method ${call.method}` }, call.method.toUpperCase());
  const parts = call.path.split(/(\{[^}]*\})/).map(part => part.startsWith("{") ? make("i", {}, part) : part);
  const head = make("summary", {}, verb, make("span", { className: "path" }, ...parts),
    make("span", { className: "summary" }, ...prose(call.operation.summary)));
  const inside = make("div", { className: "inside" });
  const all = make("details", { className: "operation", id }, head, inside);
  all.addEventListener("toggle", () => {
    if (all.open && !inside.children.length) fill(inside, call, id);
  });
  return all;
}

// Opens what the address points to.
function openTarget() {
  const target = byId(decodeURIComponent(location.hash.slice(1)));
  if (target?.matches("details.operation")) {
    target.open = true;
    target.scrollIntoView();
  }
}

function showAll() {
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, node] of Object.entries(methods)) {
      if (!["get", "put", "post", "delete", "patch"].includes(method)) continue;
      const call = callOf(path, method, node, methods.parameters);
      const group = call.operation.tags?.[0] || "other";
      groups.set(group, [...(groups.get(group) || []), call]);
    }
  }
  const rank = group => (GROUPS.includes(group) ? GROUPS.indexOf(group) : GROUPS.length);
  const contents = byId("contents");
  const link = (id, text) => contents.append(make("li", {}, make("a", { href: `#${id}` }, text)));
  for (const group of [...groups.keys()].sort((one, other) => rank(one) - rank(other))) {
    const title = group[0].toUpperCase() + group.slice(1);
    // Taking keys comes first: it is what most readers are here for.
    const order = call => (call.path === "/v1/spaces/{space}/keys" ? 0 : call.path === "/get-key" ? 1 : 2);
    const calls = groups.get(group).sort((one, other) => order(one) - order(other));
    byId("operations").append(make("section", { id: `group-${group}` }, make("h2", {}, title), ...calls.map(show)));
    link(`group-${group}`, title);
  }
  link("errors", "Errors");
  byId("about").append(` Version ${api.info.version}.`);
  byId("state").textContent = "";
  openTarget();
  addEventListener("hashchange", openTarget);
}

byId("first").textContent = `curl ${location.origin}/get-key\ncurl -X POST '${location.origin}/v1/spaces/default/keys?count=3'`;
fetch("/openapi.json").then(answer => {
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer.json();
}).then(description => {
  api = description;
  showAll();
}).catch(error => {
  byId("state").textContent = `The description at /openapi.json could not be read: ${error.message}. Reload the page to try again.`;
});
