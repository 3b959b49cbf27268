//! Admission: whether a request may go on, and who sends it.
//!
//! `Http` asks before anything is routed. What a request needs is told by `needs`, what its token allows by
//! `access`, and whether a web page may have sent it by `browser`. Nothing here waits.

use std::sync::Arc;

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::browser::{BrowserRules, Foreign};
use super::needs::{self, Need};
use super::origin::Origin;
use super::single::Paid;
use super::{Body, Problem, State, full};
use crate::access::limits::Exceeded;
use crate::access::rights::Right;
use crate::access::{Caller, Denied};
use crate::front::addresses::counted_as;

/// How long a browser may remember what a preflight was answered.
const PREFLIGHT_SECONDS: &str = "600";

/// Why a request does not go on.
#[derive(Debug)]
pub(super) enum Refused {
    /// Its token is unknown here, and may just have been made elsewhere.
    UnknownToken,
    /// For good.
    Problem(Problem),
}

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
    admitted.map_err(|denied| match denied {
        Denied::UnknownToken => Refused::UnknownToken,
        Denied::NotAllowed => Refused::Problem(Problem::forbidden(&in_words(wanted))),
        denied => Refused::Problem(problem(denied)),
    })
}

/// The right that a request needs. It follows from the request alone, so that it tells nothing about what
/// exists.
fn in_words(wanted: Option<(Right, Option<&str>)>) -> String {
    match wanted {
        Some((right, Some(space))) => {
            format!("`{}` for the keyspace `{}`", right.name(), space.escape_default())
        }
        Some((right, None)) => format!("`{}` for all keyspaces", right.name()),
        None => "another right or keyspace".to_owned(),
    }
}

/// The refusal of a token that is unknown for good.
pub(super) fn unknown_token() -> Problem {
    Problem::unauthorized("the token is not valid: it is unknown, expired or revoked")
}

/// What a limit says.
pub(super) fn exceeded(exceeded: Exceeded) -> Problem {
    match exceeded {
        Exceeded::Burst { max } => Problem::bad_request(
            "above_burst",
            format!("this token may take at most {max} keys at once; ask for fewer"),
        ),
        Exceeded::Rate { rate, wait } => Problem::rate_limited(
            format!("more than {rate} a second; try again after `Retry-After`"),
            wait,
            u64::from(rate),
            1,
        ),
        Exceeded::Quota { quota, left, wait } => Problem::rate_limited(
            format!("{left} of the {quota} keys of this token are left today (UTC)"),
            wait,
            quota,
            86_400,
        ),
    }
}

fn problem(denied: Denied) -> Problem {
    match denied {
        Denied::NoToken => Problem::unauthorized(
            "this request needs a token: send it as `Authorization: Bearer km_…`",
        ),
        Denied::NotAToken => {
            Problem::unauthorized("what was sent is not a token: it is mistyped or cut off")
        }
        Denied::UnknownToken => unknown_token(),
        Denied::NotAllowed => Problem::forbidden(&in_words(None)),
        Denied::Stale => Problem::tokens_stale(),
        Denied::Exceeded(what) => exceeded(what),
    }
}

fn check_browser<B>(rules: &BrowserRules, request: &Request<B>) -> Result<(), Refused> {
    let host = host_of(request);
    let checked = rules.check_host(host).and_then(|()| {
        if needs::changes(request.method(), request.uri().path()) {
            rules.check_origin(request.headers(), host)
        } else {
            Ok(())
        }
    });
    checked.map_err(|foreign| {
        Refused::Problem(match foreign {
            Foreign::Host => Problem::foreign_host(host.unwrap_or_default()),
            Foreign::Origin => Problem::foreign_origin(),
        })
    })
}

/// The host that a request names, in its header or, over HTTP/2, as its authority.
fn host_of<B>(request: &Request<B>) -> Option<&str> {
    let header = request.headers().get(header::HOST);
    let authority = || request.uri().authority().map(hyper::http::uri::Authority::as_str);
    header.map(|host| host.to_str().unwrap_or_default()).or_else(authority)
}

/// The token of a request, if it has one.
fn bearer(headers: &HeaderMap) -> Result<Option<&[u8]>, Problem> {
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
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE"),
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
