//! Listeners as requests see them: the public one, and the admin one where it is configured.
//!
//! With an admin listener, what only admins and monitoring need is answered there, and is not found on the
//! public one. `Http::answer` checks this before it routes a request. Takes are answered on both, so that the
//! hot path need not ask.

use hyper::body::Incoming;
use hyper::{Method, Request};

use super::State;
use super::needs::{self, Need};
use super::origin::Origin;
use super::problem::{self, Problem};
use crate::access::rights::Right;

/// Which listener a connection came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// One of `listen`.
    Public,
    /// `admin_listen`
    Admin,
}

/// Whether a request is answered only on the admin listener, where there is one: everything that needs the
/// right `admin`, metrics, and the pages with their sessions. Health checks are answered everywhere.
pub fn is_admin_only(method: &Method, path: &str) -> bool {
    match needs::of(method, path, None, "") {
        Need::Page | Need::Session | Need::Right(Right::Admin, _) => true,
        _ => path == "/metrics",
    }
}

/// Refuses on the public listener what is answered on the admin one, as if it were not there.
pub(super) fn check(
    state: &State,
    origin: &Origin,
    request: &Request<Incoming>,
) -> Result<(), Problem> {
    let (method, path) = (request.method(), request.uri().path());
    let is_elsewhere = state.has_admin_listener && origin.listener == Listener::Public;
    if is_elsewhere && is_admin_only(method, path) {
        let detail = format!("{path} is not answered on this address");
        return Err(problem::not_here(detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admins_and_monitoring_have_paths_of_their_own() {
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/docs"),
            ("GET", "/docs/style.css"),
            ("GET", "/page/script.js"),
            ("GET", "/openapi.json"),
            ("GET", "/v1/session"),
            ("POST", "/v1/session"),
            ("GET", "/metrics"),
            ("POST", "/metrics"),
            ("PUT", "/v1/spaces/links"),
            ("PATCH", "/v1/spaces/links"),
            ("PUT", "/v1/spaces/links/"),
            ("POST", "/v1/spaces/links/pool"),
            ("GET", "/v1/spaces/links/pool"),
            ("POST", "/v1/spaces//pool"),
            ("POST", "/v1/spaces/links/seal"),
            ("POST", "/v1/spaces/links/advance"),
            ("POST", "/v1/import"),
            ("GET", "/v1/spaces/links/later"),
            ("GET", "/v1/tokens"),
            ("DELETE", "/v1/tokens/shop"),
            ("GET", "/v1/acts"),
        ] {
            check(method, path, true);
        }
        for (method, path) in [
            ("GET", "/healthz"),
            ("GET", "/readyz"),
            ("GET", "/get-key"),
            ("POST", "/v1/spaces/links/keys"),
            ("GET", "/v1/spaces/links/keys/abc"),
            ("DELETE", "/v1/spaces/links/keys/abc"),
            ("PUT", "/v1/spaces/links/aliases/pool"),
            ("GET", "/v1/spaces/links/used"),
            ("GET", "/v1/spaces/links/bounds"),
            ("GET", "/v1/store"),
            ("GET", "/v1/activity"),
            ("POST", "/v1/preview"),
            ("POST", "/v1/spaces/links/digests"),
            ("GET", "/v1/spaces"),
            ("GET", "/v1/spaces/links"),
            ("HEAD", "/v1/spaces/links"),
            ("GET", "/v1/leases"),
            ("GET", "/v1/instances"),
            ("GET", "/v1/tokensx"),
            ("GET", "/nowhere"),
        ] {
            check(method, path, false);
        }
    }

    #[track_caller]
    fn check(method: &str, path: &str, expected: bool) {
        assert_eq!(is_admin_only(&method.parse().unwrap(), path), expected, "{method} {path}");
    }
}
