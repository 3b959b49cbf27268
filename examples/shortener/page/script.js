// The page: makes links with the API, and lists those of this user.

const $ = (id) => document.getElementById(id);
const form = $("make");

// What each code of a problem is about.
const places = { bad_url: "url", bad_alias: "alias", alias_taken: "alias" };

async function call(method, path, body) {
  const headers = body && { "content-type": "application/json" };
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  } catch {
    throw { detail: "The server cannot be reached. Try again in a moment." };
  }
  if (answer.status === 204) return null;
  const json = await answer.json().catch(() => ({ detail: `The server answered with status ${answer.status}.` }));
  if (!answer.ok) throw json;
  return json;
}

function showProblem(problem) {
  const place = places[problem.code];
  $(place ? `${place}-problem` : "problem").textContent = sentence(problem.detail);
  if (place) {
    $(place).setAttribute("aria-invalid", "true");
    $(place).focus();
  }
}

// Problems are written for programs' logs; people get a sentence.
function sentence(detail) {
  const quoted = detail.replace(/`([^`]*)`/g, "\u201c$1\u201d");
  return quoted[0].toUpperCase() + quoted.slice(1) + (quoted.endsWith(".") ? "" : ".");
}

function clearProblems() {
  for (const place of document.querySelectorAll(".problem")) place.textContent = "";
  for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
}

// What people type need not begin with a scheme.
const withScheme = (text) => (/^[a-z][a-z0-9+.-]*:/i.test(text) && !/^[^/]*:\d/.test(text) ? text : `https://${text}`);

const withoutScheme = (url) => url.replace(/^https?:\/\//, "");

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Copy failed";
  }
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

function showMade(link) {
  $("made-link").href = link.short_url;
  $("made-link").textContent = withoutScheme(link.short_url);
  $("made-note").textContent = `Leads to ${withoutScheme(link.url)}${expiry(link)}`;
  $("made-copy").onclick = () => copy(link.short_url, $("made-copy"));
  $("made").hidden = false;
}

function expiry(link) {
  if (!link.expires_at) return "";
  const time = new Date(link.expires_at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  return link.expired ? `, expired ${time}` : `, expires ${time}`;
}

function row(link) {
  const item = $("row").content.cloneNode(true).firstElementChild;
  const [short, target] = item.querySelectorAll("a");
  item.classList.toggle("expired", link.expired);
  short.href = link.short_url;
  short.textContent = withoutScheme(link.short_url);
  target.href = target.title = link.url;
  target.textContent = withoutScheme(link.url);
  item.querySelector(".note").textContent = expiry(link).replace(", ", "");
  const [copier, remover] = item.querySelectorAll("button");
  copier.setAttribute("aria-label", `Copy ${short.textContent}`);
  remover.setAttribute("aria-label", `Remove ${short.textContent}`);
  copier.onclick = () => copy(link.short_url, copier);
  remover.onclick = () => remove(link);
  return item;
}

async function remove(link) {
  if (!confirm(`Remove ${withoutScheme(link.short_url)}? It will lead nowhere, and its key cannot be used again.`)) return;
  try {
    await call("DELETE", `/api/links/${encodeURIComponent(link.key)}`);
    $("made").hidden = true;
    await list();
  } catch (problem) {
    showProblem(problem);
  }
}

async function list() {
  const { links } = await call("GET", "/api/links");
  $("links").replaceChildren(...links.map(row));
  $("mine").hidden = links.length === 0;
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  clearProblems();
  const fields = Object.fromEntries(new FormData(form));
  const url = fields.url.trim();
  if (!url) return showProblem({ code: "bad_url", detail: "enter a URL" });
  const link = { url: withScheme(url) };
  if (fields.alias.trim()) link.alias = fields.alias.trim();
  if (fields.expiry) link.expires_in_seconds = Number(fields.expiry);
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    showMade(await call("POST", "/api/links", link));
    form.reset();
    // What comes next, mostly.
    $("made-copy").focus();
    await list();
  } catch (problem) {
    showProblem(problem);
  } finally {
    button.disabled = false;
  }
});

$("prefix").textContent = `${location.host}/`;
list().catch(showProblem);
