// Who is signed in. The session is a cookie that this script cannot read.

async function loadSession() {
  try {
    server.session = await get("/v1/session");
  } catch (error) {
    // A server without sessions, or one that is being started.
    if (!(error instanceof Refusal)) throw error;
  }
  showSession();
}

function showSession() {
  const { token, needs_token, allow } = server.session;
  byId("session").hidden = !token;
  setText(byId("session-name"), token || "");
  // Callers without a token may have some rights.
  server.isSignInNeeded = Boolean(needs_token && !token && !allow.length);
  byId("sign-in-link").hidden = !needs_token || Boolean(token) || server.isSignInNeeded;
}

// A call was refused for lack of a token.
function needSignIn() {
  const { token, needs_token, allow } = server.session;
  // Who may do something without a token is told about the rest where it is refused.
  if (server.isSignInNeeded || (needs_token && !token && allow.length)) return;
  server.session = { needs_token: true, token: null, allow: [], expires_at: null };
  showSession();
  if (token) note(byId("sign-in-result"), "bad", "The session of ", make("code", { text: token }), " has ended: its 12 hours are over, or the token has expired or was revoked. Sign in again.");
  showRoute();
}

function setUpSession() {
  onSubmit(byId("sign-in"), async (data, place) => {
    try {
      server.session = await call("POST", "/v1/session", { body: { token: data.get("token").trim() } });
    } catch (error) {
      if (error.status === 401) return note(place, "bad", ...prose(`${sentence(error.message)} Check that it was copied as a whole, and that it was not revoked: \`keymill token list\``));
      throw error;
    }
    byId("sign-in").reset();
    place.replaceChildren();
    showSession();
    server.isSignInNeeded = false;
    showRoute();
  });
  byId("sign-in-link").addEventListener("click", () => {
    server.isSignInNeeded = true;
    showRoute();
  });
  byId("sign-out").addEventListener("click", async () => {
    try {
      await call("DELETE", "/v1/session");
    } catch (error) {
      // A session that has ended already is no failure.
      if (error.status !== 401) return note(byId("session-result"), "bad", make("strong", { text: "You are still signed in." }), " ", ...refusalNote(error));
    }
    // Figures of the one who was signed in are not for the next one.
    location.reload();
  });
}
