// The page of keymill. It asks this server for everything, and no other host.
// This part: small words for the document. Nothing is ever set as HTML.
"use strict";

const byId = id => document.getElementById(id);

// An element with attributes; `text` is its text, `on` its listeners. What is null or false is left out.
function make(tag, attributes, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}
// The same within an SVG.
function shape(tag, attributes, ...children) {
  return furnish(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}
function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter(child => child !== null && child !== undefined));
  return element;
}

// Sets a text, if it is another one: screen readers and layout are left alone otherwise.
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// Makes the children of an element those of a list, and keeps the ones that are there: focus and hover stay.
function sync(parent, items, keyOf, create, update) {
  const old = new Map([...parent.children].map(child => [child.dataset.key, child]));
  items.forEach((item, index) => {
    const key = String(keyOf(item));
    let child = old.get(key);
    if (child) old.delete(key);
    else {
      child = create(item);
      child.dataset.key = key;
    }
    update?.(child, item);
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] || null);
  });
  for (const child of old.values()) child.remove();
}

// Text with `code` in backticks.
const prose = text => (text || "").split("`").map((part, at) => (at % 2 ? make("code", { text: part }) : part));

// Tells screen readers.
function say(text) {
  byId("said").textContent = text;
}

// A button that copies a text.
function copyButton(text, what, label = "Copy") {
  const button = make("button", { type: "button", class: "copy", "aria-label": `Copy ${what}`, text: label });
  const show = (word, name) => {
    button.textContent = word;
    button.setAttribute("aria-label", name);
  };
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      show("Copied", `Copied ${what}`);
      say(`Copied ${what}`);
    } catch {
      // Without TLS, browsers forbid it.
      show("Select it", `Select it: ${what} cannot be copied here`);
      getSelection().selectAllChildren(button.parentElement.querySelector("code") || button);
    }
    setTimeout(() => show(label, `Copy ${what}`), 1500);
  });
  return button;
}

// Asks before something that cannot be undone; with `typed`, that text must be typed.
function ask({ title, why, action, typed }) {
  const dialog = byId("ask");
  byId("ask-title").textContent = title;
  byId("ask-why").replaceChildren(...prose(why));
  byId("ask-yes").textContent = action;
  byId("ask-typed").hidden = !typed;
  byId("ask-typed-label").textContent = typed ? `Type ${typed} to confirm` : "";
  byId("ask-text").value = "";
  byId("ask-yes").disabled = Boolean(typed);
  return new Promise(resolve => {
    const end = answer => {
      dialog.close();
      byId("ask-text").oninput = byId("ask-yes").onclick = byId("ask-no").onclick = dialog.oncancel = dialog.onsubmit = null;
      resolve(answer);
    };
    byId("ask-text").oninput = () => (byId("ask-yes").disabled = byId("ask-text").value !== typed);
    byId("ask-yes").onclick = () => end(true);
    byId("ask-no").onclick = () => end(false);
    dialog.oncancel = () => end(false);
    // Enter in the field.
    dialog.onsubmit = event => {
      event.preventDefault();
      if (!byId("ask-yes").disabled) end(true);
    };
    dialog.showModal();
    (typed ? byId("ask-text") : byId("ask-no")).focus();
  });
}

// What a list says in place of its rows; without a text, the rows are shown.
function showState(id, content) {
  const state = byId(`${id}-state`), list = byId(id);
  state.hidden = !content;
  const next = [].concat(content || []).map(part => (part instanceof Node ? part : document.createTextNode(part)));
  // What says the same stays: a click or the focus on it is not lost.
  const isSame = next.length === state.childNodes.length && next.every((part, at) => part.isEqualNode(state.childNodes[at]));
  if (content && !isSame) state.replaceChildren(...next);
  if (list && list.tagName === "TABLE") list.hidden = Boolean(content);
}

// A note in a place for results.
function note(place, kind, ...children) {
  place.replaceChildren(make("div", { class: `note ${kind}` }, ...children));
}

// Runs what a form does: its button waits, its result shows what went wrong.
function onSubmit(form, run) {
  form.addEventListener("submit", async event => {
    event.preventDefault();
    const button = form.querySelector("button.strong"), place = form.querySelector(".result");
    if (button.disabled) return;
    button.disabled = true;
    try {
      await run(new FormData(form), place);
    } catch (error) {
      showRefusal(place, error);
    } finally {
      button.disabled = false;
    }
  });
}

// A cell of a table; `label` is its column, for phones, where rows become cards.
const cell = (label, attributes, ...children) => make("td", { "data-label": label, ...attributes }, ...children);
