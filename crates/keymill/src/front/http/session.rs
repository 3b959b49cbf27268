//! `/v1/session`: a page signs in with a token, asks who it is, and signs out.
//!
//! `Http` gives these handlers what only the connection knows ([`Seen`]). The answer to a sign-in is a cookie, which
//! `admission` accepts from pages of this server alone. Nothing of a session is stored.

use std::net::IpAddr;

use axum::extract::State as Shared;
use axum::response::{AppendHeaders, IntoResponse};
use axum::{Extension, Json};
use bytes::Bytes;
use hyper::header::{self, HeaderName};
use hyper::{Request, StatusCode, Uri};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use zeroize::Zeroizing;

use super::admission::{self, Sender, Shown};
use super::body::{Undescribed, no_body};
use super::origin::Origin;
use super::params::no_query;
use super::{Problem, State, body, cookie};
use crate::access::session::Session;
use crate::access::{Caller, Denied, secret_text};
use crate::front;
use crate::front::addresses::counted_as;
use crate::front::admission::Refused;

/// What a page shows to sign in.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignIn {
    /// A token. It is not stored.
    token: String,
}

/// Who sends a request, and what they may do.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionView {
    /// Whether callers need a token.
    needs_token: bool,
    /// The name of the token that is in use; null without one.
    token: Option<String>,
    /// The rights of that token, or else of callers without one.
    allow: Vec<String>,
    /// When the session ends; null if there is none.
    #[schema(value_type = Option<String>)]
    expires_at: Option<Timestamp>,
}

/// What these handlers have to know of the connection that a request came over.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// Whether the browser uses TLS.
    is_secure: bool,
    /// When the session that it has shown ends.
    expires_at: Option<Timestamp>,
    /// Whom it is counted as.
    address: Option<IpAddr>,
}

impl Seen {
    /// That of a request.
    pub(super) fn of<B>(state: &State, origin: &Origin, request: &Request<B>) -> Seen {
        let (headers, rules) = (request.headers(), state.address_rules.load());
        let is_session = !headers.contains_key(header::AUTHORIZATION);
        let shown = is_session.then(|| admission::shown(state, origin, request));
        Seen {
            is_secure: origin.is_secure(headers, &rules),
            expires_at: match shown {
                Some(Shown::Session(session)) => Some(session.expires_at),
                _ => None,
            },
            address: origin.client(headers, &rules).map(|client| counted_as(client.0)),
        }
    }
}

/// Shows which token is in use, and what it allows. It is answered without a token as well.
#[utoipa::path(get, path = "/v1/session", tag = "tokens", operation_id = "get_session",
    responses((status = 200, description = "Who sends the request", body = SessionView)))]
pub(super) async fn show(
    Shared(state): Shared<State>,
    sender: Sender,
    Extension(seen): Extension<Seen>,
    uri: Uri,
) -> Result<impl IntoResponse, Problem> {
    no_query(&uri)?;
    let expires_at = seen.expires_at.filter(|_| sender.token_name().is_some());
    Ok((no_store(), Json(SessionView::new(&state, &sender, expires_at))))
}

/// Begins a session with a token. The answer sets a cookie that stands for it in the browser, for 12 hours at most.
///
/// The cookie counts only in requests of the server's own pages, and ends when the token does. If the server has no
/// tokens, no cookie is set.
#[utoipa::path(post, path = "/v1/session", tag = "tokens", operation_id = "create_session",
    request_body(content = SignIn, description = "The token"),
    responses(
        (status = 200, description = "Signed in", body = SessionView,
            headers(("Set-Cookie" = String, description = "The session"))),
        (status = 401, description = "`unauthorized`: the token is mistyped, unknown, expired or revoked"),
    ))]
pub(super) async fn create(
    Shared(state): Shared<State>,
    Extension(seen): Extension<Seen>,
    uri: Uri,
    body: Bytes,
) -> Result<impl IntoResponse, Problem> {
    no_query(&uri)?;
    let SignIn { token } = body::object(&body)?;
    let token = Zeroizing::new(token);
    // A guess is counted like any request without a token.
    let counted = state.access.allow(&Caller::nobody(false), None, || seen.address);
    counted.map_err(|denied| Refused::new(denied, None))?;
    let hash = secret_text::hash(token.trim().as_bytes());
    let ask = |_| {
        if state.access.is_on() && hash.is_none() {
            return Err(Refused::new(Denied::NotAToken, None));
        }
        state.access.recognize(hash.as_ref(), &[]).map_err(|denied| Refused::new(denied, None))
    };
    let caller = front::admission::admit(&state.access, &state.service, true, ask).await?;
    let Some(hash) = hash.filter(|_| caller.token_name().is_some()) else {
        // There are no tokens, so there is nothing to sign in to.
        let view = SessionView::new(&state, &caller, None);
        return Ok((no_store(), None, Json(view)));
    };
    let now = state.service.now();
    let session = Session::begin(hash, now, state.access.end_of(&hash));
    let seconds = session.expires_at.as_second().saturating_sub(now.as_second()).max(0);
    let cookie = cookie::set(&state.session_key.sign(&session), seconds, seen.is_secure);
    let view = SessionView::new(&state, &caller, Some(session.expires_at));
    Ok((no_store(), Some(AppendHeaders([(header::SET_COOKIE, cookie)])), Json(view)))
}

/// Ends the session in this browser: the answer clears its cookie.
///
/// A copy of the cookie stays valid until it expires; revoke or rotate the token to end that, too.
#[utoipa::path(delete, path = "/v1/session", tag = "tokens", operation_id = "delete_session",
    responses(
        (status = 204, description = "Signed out",
            headers(("Set-Cookie" = String, description = "Clears the cookie"))),
        (status = 400, description = "`bad_body`: it takes no body"),
        (status = 408, description = "`body_too_slow`"),
        (status = 413, description = "`body_too_large`"),
    ))]
pub(super) async fn delete(
    Extension(seen): Extension<Seen>,
    uri: Uri,
    body: Undescribed,
) -> Result<impl IntoResponse, Problem> {
    no_query(&uri)?;
    no_body(&body, "the cookie says which session")?;
    let cookie = cookie::clear(seen.is_secure);
    Ok((StatusCode::NO_CONTENT, no_store(), AppendHeaders([(header::SET_COOKIE, cookie)])))
}

/// What is answered is for one browser alone.
fn no_store() -> [(HeaderName, &'static str); 1] {
    [(header::CACHE_CONTROL, "no-store")]
}

impl SessionView {
    fn new(state: &State, caller: &Caller, expires_at: Option<Timestamp>) -> SessionView {
        SessionView {
            needs_token: state.access.is_on(),
            token: caller.token_name().map(str::to_owned),
            allow: state.access.allowed(caller),
            expires_at,
        }
    }
}
