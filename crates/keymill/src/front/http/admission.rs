//! Admission over HTTP: whether a request may go on, and who sends it.
//!
//! `Http` asks before anything is routed. What a request needs is told by `needs`, what its token allows by
//! `access`, and whether a web page may have sent it by `browser`. Nothing here waits.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::browser::{self, BrowserRules, Foreign};
use super::needs::{self, Need};
use super::origin::Origin;
use super::single::Paid;
use super::{Body, Problem, State, cookie, full};
use crate::access::session::Session;
use crate::access::{Access, Caller, Denied, secret_text};
use crate::front::addresses::counted_as;
use crate::front::admission::{Refused, Wanted};

/// How long a browser may remember what a preflight was answered.
const PREFLIGHT_SECONDS: &str = "600";

/// What a request shows of a session.
pub(super) enum Shown {
    /// Nothing that counts.
    Nothing,
    /// A cookie that is not a session, or no longer one.
    Ended,
    /// A session. Its token may have ended.
    Session(Session),
}

/// What a request says of who sends it.
struct Credentials<'a> {
    bearer: Option<&'a [u8]>,
    certificate: &'a [String],
    /// Who its session is of, where it has one.
    by_session: Option<Result<Caller, Denied>>,
    /// Whether it has one that does not count any more.
    has_ended: bool,
}

/// Who sends a request, if it may go on. A token that is unknown here is reported as that, also that of a session. When
/// this is asked for the last time, a session of such a token counts as none.
pub(super) fn admit<B>(
    state: &State,
    origin: &Origin,
    request: &Request<B>,
    is_last: bool,
) -> Result<Caller, Refused> {
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    let default = &state.default_space.name;
    let need = needs::of(method, uri.path(), uri.query(), default);
    let is_on = state.access.is_on();
    let sent = bearer(headers);
    let (by_session, has_ended) = match sent {
        Ok(None) if is_on && need != Need::Page => by_session(state, origin, request, is_last),
        _ => (None, false),
    };
    // Where no token is needed, the header may be for somebody else, such as a proxy that asks for a password.
    let is_needed = is_on && !matches!(need, Need::Nothing | Need::Page | Need::Session);
    let bearer = match sent {
        Err(problem) if is_needed => return Err(Refused::Problem(problem)),
        sent => sent.unwrap_or_default(),
    };
    // A browser adds no token by itself: who has one was not sent here by a page. But pages, health checks
    // and callers without a token may have been.
    if need != Need::Nothing && (bearer.is_none() || !is_on) {
        check_browser(&state.browser_rules.load(), request)?;
    }
    // A take that could not be answered at once comes here a second time, and is counted once.
    let is_counted = request.extensions().get::<Paid>().is_some();
    let address = || {
        if is_counted {
            return None;
        }
        let client = origin.client(headers, &state.address_rules.load())?;
        Some(counted_as(client.0))
    };
    let certificate = origin.certificate_names();
    let shown = Credentials { bearer, certificate, by_session, has_ended };
    let wanted = match &need {
        // By another name, it may be a page that asks: it is told no more than a stranger.
        Need::Nothing if shown.is_empty() || !is_on => {
            let is_own = check_browser(&state.browser_rules.load(), request).is_ok();
            return Ok(Caller::nobody(is_on || !is_own));
        }
        // Whoever has a token is told more. With a wrong one, a probe is still answered: an instance must not
        // be restarted because a token has expired.
        Need::Nothing => {
            let known = shown.admit(&state.access, None, address);
            return Ok(known.unwrap_or_else(|_| Caller::nobody(is_on)));
        }
        Need::Page => return Ok(Caller::nobody(is_on)),
        Need::Session => return shown.recognize(&state.access),
        Need::Token => None,
        Need::Right(right, space) => Some((*right, space.as_deref())),
    };
    let has_ended = shown.has_ended;
    shown.admit(&state.access, wanted, address).map_err(|denied| match denied {
        Denied::NoToken if has_ended => Refused::Problem(Problem::unauthorized(
            "the session has ended, or its token has; sign in again with a token",
        )),
        denied => Refused::new(denied, wanted),
    })
}

impl Credentials<'_> {
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.bearer.is_none() && self.certificate.is_empty() && self.by_session.is_none()
    }

    /// Who shows them, if they may do what they want.
    fn admit(
        self,
        access: &Access,
        wanted: Wanted<'_>,
        address: impl Fn() -> Option<IpAddr>,
    ) -> Result<Caller, Denied> {
        match self.by_session {
            Some(known) => known.and_then(|it| access.allow(&it, wanted, address).map(|()| it)),
            None => access.admit(self.bearer, self.certificate, wanted, address),
        }
    }

    /// Who shows them, to tell them so. Nobody is refused for a wrong token, which they are about to replace, but a
    /// session must not seem to have ended because its token is not known yet.
    fn recognize(self, access: &Access) -> Result<Caller, Refused> {
        match self.by_session {
            Some(known) => known.map_err(|denied| Refused::new(denied, None)),
            None => {
                let hash = self.bearer.and_then(secret_text::hash);
                let known = access.recognize(hash.as_ref(), self.certificate);
                Ok(known.unwrap_or_else(|_| Caller::nobody(access.is_on())))
            }
        }
    }
}

/// Who the session of a request is of, where it has one; and whether it has one that has ended.
fn by_session<B>(
    state: &State,
    origin: &Origin,
    request: &Request<B>,
    is_last: bool,
) -> (Option<Result<Caller, Denied>>, bool) {
    match shown(state, origin, request) {
        Shown::Nothing => (None, false),
        Shown::Ended => (None, true),
        Shown::Session(session) => match state.access.recognize(Some(&session.hash), &[]) {
            Err(Denied::UnknownToken) if is_last => (None, true),
            known => (Some(known), false),
        },
    }
}

/// The session of a request that has no token, if it comes from a page of this server.
pub(super) fn shown<B>(state: &State, origin: &Origin, request: &Request<B>) -> Shown {
    let headers = request.headers();
    if !headers.contains_key(header::COOKIE) {
        return Shown::Nothing;
    }
    let is_secure = origin.is_secure(headers, &state.address_rules.load());
    let changes = needs::changes(request.method(), request.uri().path());
    let mut values = cookie::values(headers, is_secure).peekable();
    if values.peek().is_none()
        || !browser::is_own_page(headers, host_of(request), changes, is_secure)
    {
        return Shown::Nothing;
    }
    let now = state.service.now();
    let session = values.find_map(|value| state.session_key.open(value, now));
    session.map_or(Shown::Ended, Shown::Session)
}

pub(in crate::front) fn check_browser<B>(
    rules: &BrowserRules,
    request: &Request<B>,
) -> Result<(), Refused> {
    let host = host_of(request);
    let checked = rules.check_host(host).and_then(|()| {
        if !needs::changes(request.method(), request.uri().path()) {
            return Ok(());
        }
        if request.method() == Method::GET {
            browser::check_purpose(request.headers())?;
        }
        rules.check_origin(request.headers(), host)
    });
    checked.map_err(|foreign| {
        Refused::Problem(match foreign {
            Foreign::Host => Problem::foreign_host(host.unwrap_or_default()),
            Foreign::Origin => Problem::foreign_origin(),
            Foreign::Prefetch => Problem::prefetch(),
        })
    })
}

/// The head of a request whose body is read for long: whether its sender may still send it. A token may be revoked or
/// expire meanwhile.
pub(super) struct Standing {
    head: Request<()>,
    origin: Arc<Origin>,
}

impl Standing {
    /// That of a request, on the connection that it came over.
    pub(super) fn new<B>(origin: &Arc<Origin>, request: &Request<B>) -> Standing {
        let mut head = Request::new(());
        head.method_mut().clone_from(request.method());
        head.uri_mut().clone_from(request.uri());
        head.headers_mut().clone_from(request.headers());
        // It is one request, however often it is looked at.
        head.extensions_mut().insert(Paid);
        Standing { head, origin: origin.clone() }
    }

    /// Refuses what may no longer go on.
    pub(super) fn check(&self, state: &State) -> Result<(), Problem> {
        admit(state, &self.origin, &self.head, false)?;
        Ok(())
    }
}

/// The host that a request names, in its header or, over HTTP/2, as its authority.
fn host_of<B>(request: &Request<B>) -> Option<&str> {
    let header = request.headers().get(header::HOST);
    let authority = || request.uri().authority().map(hyper::http::uri::Authority::as_str);
    header.map(|host| host.to_str().unwrap_or_default()).or_else(authority)
}

/// The token of a request, if it has one.
pub(in crate::front) fn bearer(headers: &HeaderMap) -> Result<Option<&[u8]>, Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::unauthorized("the request has more than one `Authorization` header"));
    }
    let text = value.as_bytes();
    match text.split_at_checked(7) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => {
            Ok(Some(token.trim_ascii()))
        }
        _ => Err(Problem::unauthorized("`Authorization` must be `Bearer` and a token")),
    }
}

/// Answers what a browser asks before it lets a page of an allowed origin send a request; `None` where it
/// is something else.
pub(super) fn preflight<B>(rules: &BrowserRules, request: &Request<B>) -> Option<Response<Body>> {
    let headers = request.headers();
    if request.method() != Method::OPTIONS
        || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        || allowed_origin(rules, headers).is_none()
    {
        return None;
    }
    let mut answer = full("text/plain; charset=utf-8", "");
    *answer.status_mut() = StatusCode::NO_CONTENT;
    let add = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, PATCH, DELETE"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, x-request-id"),
        (header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS),
    ];
    for (name, value) in add {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Some(answer)
}

/// The origin of a request, if its pages may read answers.
pub(super) fn allowed_origin(rules: &BrowserRules, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    rules.is_allowed(origin.to_str().ok()?).then(|| origin.clone())
}

/// Lets the pages of an origin read an answer.
pub(super) fn allow_reading(origin: HeaderValue, answer: &mut Response<Body>) {
    let headers = answer.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    let exposed =
        HeaderValue::from_static("link, retry-after, ratelimit, ratelimit-policy, x-request-id");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
}

/// The caller of a request, as handlers find it.
pub(super) type Sender = axum::Extension<Arc<Caller>>;
