//! What every request must satisfy before it is routed, and what every answer carries.
//!
//! `Http::answer` calls these around whatever the routes do. Nothing here reads a body or asks the
//! service.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, Version};

use super::origin::{Origin, REQUEST_ID};
use super::{Body, Problem, State};
use crate::front::addresses::ClientAddress;

/// The longest `Host`: a name of 253 characters, and a port.
const HOST_LEN_MAX: usize = 260;

/// Which bytes a `Host` may have. It is looked at for every request.
static FITS_HOST: [bool; 256] = {
    let mut fits = [false; 256];
    let others = b"-._~:[]%!$&'()*+,;=";
    let mut byte = 0_u8;
    loop {
        fits[byte as usize] = byte.is_ascii_alphanumeric();
        if byte == u8::MAX {
            break;
        }
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        fits[others[at] as usize] = true;
        at += 1;
    }
    fits
};

/// The paths that are answered even if all connections are in use: health checks and metrics.
const STILL_ANSWERED: [&str; 4] =
    ["/healthz", "/readyz", "/metrics", "/grpc.health.v1.Health/Check"];

/// What the answer to a request, and the log, need to know about it.
pub(super) struct Asked {
    id: HeaderValue,
    version: Version,
    /// For the log, where requests are logged.
    shown: Option<(Method, String)>,
    client: Option<ClientAddress>,
}

impl Asked {
    /// Records what is needed about a request, before it is routed.
    pub(super) fn new(state: &State, origin: &Origin, request: &Request<Incoming>) -> Asked {
        let shown =
            logs_requests().then(|| (request.method().clone(), request.uri().path().to_owned()));
        let rules = state.address_rules.load();
        Asked {
            id: origin.request_id(request.headers()),
            version: request.version(),
            shown,
            client: origin.client(request.headers(), &rules),
        }
    }

    /// Completes an answer: adds the request ID, to problems as well, and a line to the log.
    pub(super) fn finish(self, origin: &Origin, answer: &mut Response<Body>) {
        let id = self.id.to_str().unwrap_or_default();
        if let Some(problem) = answer.extensions_mut().remove::<Problem>() {
            if let Some(cause) = problem.cause() {
                log_failure(id, self.client, problem.code(), cause);
            }
            problem.write(id, answer);
        }
        if let Some((method, path)) = &self.shown {
            let status = answer.status().as_u16();
            let client = self.client.map(tracing::field::display);
            tracing::debug!(request_id = id, client, %method, path, status, "answered");
        }
        // HTTP/2 has no such header: there the connection ends by its time limit.
        if origin.is_reserved && self.version <= Version::HTTP_11 {
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            // Otherwise hyper would add `keep-alive` where a client of HTTP/1.0 asked for it.
            *answer.version_mut() = self.version;
        }
        answer.headers_mut().insert(&REQUEST_ID, self.id);
    }
}

/// Whether every request gets a line in the log.
pub(in crate::front) fn logs_requests() -> bool {
    tracing::enabled!(tracing::Level::DEBUG)
}

/// Refuses a request that no route may see.
pub(in crate::front) fn check(origin: &Origin, request: &Request<Incoming>) -> Result<(), Problem> {
    if origin.is_reserved && !STILL_ANSWERED.contains(&request.uri().path()) {
        return Err(Problem::too_many_connections());
    }
    check_host(request)
}

/// Refuses a request that does not name exactly one host (RFC 9112, 3.2): HTTP/1.1 without `Host`, two of
/// them, one that cannot be a host, or one that differs from the URL's. What a proxy in front has checked must be
/// what counts here.
fn check_host(request: &Request<Incoming>) -> Result<(), Problem> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (_, Some(_)) => return Err(bad_host("has more than one `Host` header")),
        (None, None) if request.version() == Version::HTTP_11 => {
            return Err(bad_host("has no `Host` header, which HTTP/1.1 requires"));
        }
        (None, None) => return Ok(()),
        (Some(host), None) => host.as_bytes(),
    };
    if host.len() > HOST_LEN_MAX || !host.iter().all(|byte| FITS_HOST[usize::from(*byte)]) {
        return Err(bad_host("has a `Host` header that is not a valid host name"));
    }
    // Over HTTP/1, only a proxy's request has a host in its URL; over HTTP/2, few have a `Host` header beside it.
    let authority = request.uri().authority();
    if authority.is_some_and(|it| !it.as_str().as_bytes().eq_ignore_ascii_case(host)) {
        return Err(bad_host("names one host in its URL and another one in its `Host` header"));
    }
    Ok(())
}

fn bad_host(problem: &str) -> Problem {
    Problem::bad_request("bad_host", format!("the request {problem}"))
}

/// Writes the cause of a failure to the log: as a warning at most once a second, because all requests fail
/// while a store is unreachable, and otherwise at level `debug`.
pub(in crate::front) fn log_failure(
    request_id: &str,
    client: Option<ClientAddress>,
    code: &str,
    cause: &str,
) {
    static STARTED: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    // The second in which the last warning was written, counted from 1.
    static WARNED: AtomicU64 = AtomicU64::new(0);
    let client = client.map(tracing::field::display);
    let second = STARTED.elapsed().as_secs() + 1;
    if WARNED.swap(second, Ordering::Relaxed) == second {
        tracing::debug!(request_id, client, code, "a request failed: {cause}");
    } else {
        tracing::warn!(request_id, client, code, "a request failed: {cause}");
    }
}
