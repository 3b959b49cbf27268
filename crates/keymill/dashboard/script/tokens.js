// Tokens: list, create, rotate, revoke; and what administrators did.

const tokens = { list: [], required: false };

function setUpTokens() {
  onSubmit(byId("token-form"), createToken);
}

async function pollTokens() {
  const list = [];
  let after = null, page;
  try {
    do {
      page = await get(`/v1/tokens?${new URLSearchParams({ limit: 500, ...(after ? { after } : {}) })}`, "admin:*");
      list.push(...page.tokens);
      after = page.next;
    } while (after);
  } catch (error) {
    showState("tokens", make("div", { class: "note bad" }, ...refusalNote(error)));
    byId("acts").hidden = true;
    showState("acts", "They are shown to administrators.");
    throw error;
  }
  Object.assign(tokens, { list, required: page.required });
  showTokens();
  const acts = await recentActs();
  showState("acts", acts.length ? null : "Nothing yet. What is created, changed, filled or revoked with a token is listed here.");
  sync(byId("acts-rows"), acts, act => act.id, act => make("tr", {}, make("th", { scope: "row" }, timeOf(act.at)), cell("Token", { text: act.by || "–" }), cell("From", { class: "soft", text: act.from || "–" }), cell("What", {}, make("code", { text: act.what }))),
    (row, act) => setText(row.firstChild.firstChild, agoText(act.at)));
}

function showTokens() {
  setText(byId("tokens-count"), tokens.list.length ? exact(tokens.list.length) : "");
  byId("token-first").hidden = tokens.required;
  showState("tokens", tokens.list.length ? null : tokens.required
    ? "There is no token left, and callers still need one. Create one here, or on the machine of the store: keymill token create."
    : [make("p", {}, make("strong", { text: "No tokens: everybody who can reach this server may do everything." })), make("p", { text: "That is fine on one machine. Before others can reach it, create a token." })]);
  sync(byId("tokens-rows"), tokens.list, ({ name }) => name, tokenRow, (row, token) => {
    setText(row.children[3].firstChild, token.expired ? "expired" : token.expires_at ? `in ${untilText(token.expires_at)}` : "never");
    setText(row.children[3].lastChild, token.old_text_until ? `old text valid for ${untilText(token.old_text_until)}` : "");
  });
}

function tokenRow(token) {
  const limits = [token.rate && `${exact(token.rate)} keys/s`, token.quota && `${exact(token.quota)} keys/day`, token.certificate && `certificate ${token.certificate}`].filter(Boolean);
  const isOurs = token.source === "store";
  return make("tr", {},
    make("th", { scope: "row" }, make("code", { text: token.name }), make("span", { class: "soft", text: isOurs ? (token.created_by ? `created by ${token.created_by}` : "") : "in the settings" })),
    cell("May", { class: "rights" }, ...token.allow.map(right => make("code", { text: right }))), cell("Limits", { text: limits.join(", ") || "none" }),
    cell("Expires", {}, make("span"), make("span", { class: "soft" })),
    cell("", { class: "right" }, ...(isOurs ? [make("button", { type: "button", class: "quiet", text: "Rotate", "aria-label": `Rotate ${token.name}`, on: { click: () => rotateToken(token.name) } }), " ",
      make("button", { type: "button", class: "quiet danger", text: "Revoke", "aria-label": `Revoke ${token.name}`, on: { click: () => revokeToken(token.name) } })] : [make("span", { class: "soft", text: "change it there" })])));
}

// The text of a token: shown this once.
function showText(place, { name, token }) {
  note(place, "good", make("p", {}, make("strong", { text: `The text of ${name}, shown this once:` })),
    make("div", { class: "mend" }, make("code", { class: "secret", text: token }), copyButton(token, "the token")),
    make("p", { class: "soft", text: "It is not stored and cannot be shown again." }));
}

async function createToken(data, place) {
  const rights = data.getAll("right"), spaces = data.get("spaces").replace(/\s/g, "") || "*", days = Number(data.get("expires"));
  if (!rights.length) return note(place, "bad", "Choose at least one right.");
  // From the first one on, every caller needs a token: somebody must be able to create the next.
  if (!tokens.required && !(rights.includes("admin") && spaces === "*")) return note(place, "bad", "The first token needs the right admin in all keyspaces. From then on every caller needs a token, and only an administrator can create more.");
  const body = { name: data.get("name").trim(), allow: rights.map(right => `${right}:${spaces}`) };
  if (days) body.expires_at = new Date(serverNow() + days * 86400000).toISOString();
  if (data.get("rate")) body.rate = Number(data.get("rate"));
  const made = await call("POST", "/v1/tokens", { body, need: "admin:*" });
  byId("token-form").reset();
  showText(place, made);
  if (!tokens.required) {
    // From now on this page needs one as well: without it, the text would be gone with the view.
    server.session = await call("POST", "/v1/session", { body: { token: made.token } });
    showSession();
    note(byId("tokens-result"), "", "Callers need a token from now on. You are signed in with this one.");
  }
  await pollTokens();
}

async function rotateToken(name) {
  const place = byId("tokens-result");
  if (!await ask({ title: `Rotate ${name}?`, why: "It gets a new text. The old one stays valid for a day.", action: "Rotate it" })) return;
  try {
    showText(place, await call("POST", pathOf("tokens", name, "rotate"), { body: {}, need: "admin:*" }));
    await pollTokens();
  } catch (error) {
    showRefusal(place, error);
  }
}

async function revokeToken(name) {
  const place = byId("tokens-result");
  if (!await ask({ title: `Revoke ${name}?`, why: "Whoever uses it is refused: at once here, and within a heartbeat on every other instance. This cannot be undone.", action: "Revoke it" })) return;
  try {
    await call("DELETE", pathOf("tokens", name), { need: "admin:*" });
    note(place, "good", make("code", { text: name }), " is revoked.");
    await pollTokens();
  } catch (error) {
    showRefusal(place, error);
  }
}
