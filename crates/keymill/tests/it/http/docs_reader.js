// A reader of the documentation page: loads its script from a running server into a document with no more than
// the script needs, opens every operation, and sends calls. `docs.rs` runs it with node, and the address of the server.
"use strict";

const assert = require("node:assert/strict");
const vm = require("node:vm");

class Element {
  constructor(tag) {
    Object.assign(this, { tag, childNodes: [], dataset: {}, listeners: {}, id: "", name: "", className: "" });
    this.selectedIndex = 0;
    this.isOpen = false;
    this.ownValue = "";
  }

  get children() { return this.childNodes.filter(child => child instanceof Element); }
  get lastElementChild() { return this.children.at(-1); }
  get textContent() { return this.childNodes.map(child => child.textContent ?? child).join(""); }
  set textContent(text) { this.childNodes = text === "" ? [] : [text]; }
  append(...children) { this.childNodes.push(...children); }
  replaceChildren(...children) { this.childNodes = children; }
  cloneNode() { return Object.assign(new Element(this.tag), { childNodes: [...this.childNodes] }); }

  get all() { return this.children.flatMap(child => [child, ...child.all]); }
  querySelector(tag) { return this.all.find(element => element.tag === tag); }
  matches(selector) { return selector === `${this.tag}.${this.className}`; }
  // The controls of a form, by name.
  get elements() { return Object.fromEntries(this.all.filter(({ name }) => name).map(element => [element.name, element])); }

  get value() { return this.tag === "select" ? this.children[this.selectedIndex].ownValue : this.ownValue; }
  set value(text) {
    if (this.tag !== "select") this.ownValue = String(text);
    else this.selectedIndex = this.children.findIndex(option => option.ownValue === text);
  }

  get open() { return this.isOpen; }
  set open(open) { this.isOpen = open; this.dispatch("toggle"); }
  showModal() { this.isOpen = true; }
  close() { this.isOpen = false; this.onclose(); }
  addEventListener(event, listener) { (this.listeners[event] ??= []).push(listener); }
  dispatch(event) { for (const listener of this.listeners[event] ?? []) listener({ preventDefault() {} }); }
  setAttribute(name, value) { this[name] = value; }
  focus() {}
  scrollIntoView() {}
}

// The parts of the page that have a name, and its table of error codes.
function load(page) {
  const root = new Element("body");
  for (const [row, tag, id] of page.matchAll(/<(\w+)[^>]* id="([^"]+)"[^>]*>/g)) {
    const element = Object.assign(new Element(tag), { id });
    if (id.startsWith("code-")) {
      const cells = page.slice(page.indexOf(row)).split("</tr>")[0].split("<td>").slice(1);
      element.append(...cells.map(text => Object.assign(new Element("td"), { childNodes: [text.replaceAll(/<[^>]*>/g, "")] })));
    }
    root.append(element);
  }
  return root;
}

async function until(what, isSo) {
  for (const begin = Date.now(); !isSo();) {
    assert.ok(Date.now() - begin < 20000, `not in time: ${what}`);
    await new Promise(later => setTimeout(later, 5));
  }
}

async function main(base) {
  const root = load(await (await fetch(`${base}/docs`)).text());
  const script = await (await fetch(`${base}/docs/script.js`)).text();
  const byId = id => root.all.find(element => element.id === id) ?? null;
  const sent = [];
  vm.runInNewContext(script, {
    document: { getElementById: byId, createElement: tag => new Element(tag) },
    location: { origin: base, hash: "#post-v1-spaces-space-keys" },
    fetch: (target, options) => { sent.push(target); return fetch(base + target, options); },
    addEventListener() {}, performance, URLSearchParams,
  }, { filename: "docs.js" });
  await until("the description is read", () => sent.length && (byId("state").textContent || byId("operations").children.length));
  assert.equal(byId("state").textContent, "");

  const operations = byId("operations").all.filter(element => element.matches("details.operation"));
  assert.ok(operations.length > 15, `${operations.length} operations`);
  const take = byId("post-v1-spaces-space-keys");
  assert.ok(take.open, "the one that the address points to is open");
  for (const operation of operations) {
    operation.open = true;
    assert.ok(operation.querySelector("form") && operation.querySelector("pre").textContent.startsWith("curl "), operation.id);
  }

  const form = take.querySelector("form");
  const output = take.all.find(element => element.className === "answer");
  // Fills in and sends; `decide` is the button of the dialog.
  const send = async (values, decide) => {
    for (const [name, value] of Object.entries(values)) form.elements[name].value = value;
    form.dispatch("input");
    form.dispatch("submit");
    await until("it asks", () => byId("ask").open);
    assert.match(byId("ask-why").textContent, /hands out keys/);
    const before = sent.length;
    byId(decide).onclick();
    await until("it is done", () => decide === "ask-no" || (output.children.length && !form.querySelector("button").disabled));
    return sent.slice(before);
  };
  form.elements["path.space"].value = "";
  form.dispatch("submit");
  await until("it says what is missing", () => output.textContent.includes("space"));
  assert.deepEqual(sent, ["/openapi.json"]);

  assert.deepEqual(await send({ "path.space": "default", "query.count": "3" }, "ask-no"), []);
  assert.deepEqual(await send({}, "ask-yes"), ["/v1/spaces/default/keys?count=3"]);
  assert.match(take.textContent, /curl -X POST '[^']*\/v1\/spaces\/default\/keys\?count=3'/);
  assert.match(output.textContent, /^200 OK application\/json · \d+ ms/);
  assert.equal(JSON.parse(output.querySelector("pre").textContent).keys.length, 3);

  await send({ accept: "text/plain" }, "ask-yes");
  assert.match(output.textContent, /^200 OK text\/plain/);
  assert.equal(output.querySelector("pre").textContent.trim().split("\n").length, 3);

  await send({ "query.count": "", body: '{"count": 2}', accept: "application/json" }, "ask-yes");
  assert.equal(JSON.parse(output.querySelector("pre").textContent).keys.length, 2);

  await send({ "path.space": "no where", body: "" }, "ask-yes");
  assert.equal(sent.at(-1), "/v1/spaces/no%20where/keys");
  assert.match(output.textContent, /^404 Not Found/);
  const remedy = byId("code-unknown_space").lastElementChild.textContent;
  assert.ok(remedy && output.textContent.includes(remedy), `what to do: ${remedy}`);
}

main(process.argv[2]);
