//! Admission over HTTP: whether a request may go on, and who sends it.
//!
//! `Http` asks before anything is routed. What a request needs is told by `needs`, what its token allows by
//! `access`, and whether a web page may have sent it by `browser`. Nothing here waits.

use std::sync::Arc;

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::browser::{self, BrowserRules, Foreign};
use super::needs::{self, Need};
use super::origin::Origin;
use super::single::Paid;
use super::{Body, Problem, State, full};
use crate::access::Caller;
use crate::front::addresses::counted_as;
use crate::front::admission::Refused;

/// How long a browser may remember what a preflight was answered.
const PREFLIGHT_SECONDS: &str = "600";

/// Who sends a request, if it may go on.
pub(super) fn admit<B>(
    state: &State,
    origin: &Origin,
    request: &Request<B>,
) -> Result<Caller, Refused> {
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    let default = &state.default_space.name;
    let need = needs::of(method, uri.path(), uri.query(), default);
    let is_on = state.access.is_on();
    // Where no token is needed, the header may be for somebody else, such as a proxy that asks for a password.
    let is_needed = is_on && !matches!(need, Need::Nothing | Need::Page);
    let bearer = match bearer(headers) {
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
    let wanted = match &need {
        // Whoever has a token is told more. With a wrong one, a probe is still answered: an instance must not
        // be restarted because a token has expired.
        Need::Nothing if is_on && (bearer.is_some() || !certificate.is_empty()) => {
            let known = state.access.admit(bearer, certificate, None, address);
            return Ok(known.unwrap_or_else(|_| Caller::nobody(is_on)));
        }
        // By another name, it may be a page that asks: it is told no more than a stranger.
        Need::Nothing if check_browser(&state.browser_rules.load(), request).is_err() => {
            return Ok(Caller::nobody(true));
        }
        Need::Nothing | Need::Page => return Ok(Caller::nobody(is_on)),
        Need::Token => None,
        Need::Right(right, space) => Some((*right, space.as_deref())),
    };
    let admitted = state.access.admit(bearer, certificate, wanted, address);
    admitted.map_err(|denied| Refused::new(denied, wanted))
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
        admit(state, &self.origin, &self.head)?;
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
