//! What a request needs: which right, in which keyspace. Decided by method, path and query alone, before
//! anything is routed, so that a refusal tells nothing about what exists.
//!
//! A path that is not listed here needs a token, and is then not found. A test has a row for every route.

use std::borrow::Cow;

use hyper::Method;
use percent_encoding::percent_decode_str;

use super::params::query_value;
use crate::access::rights::Right;

/// What a request needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Need<'a> {
    /// Nothing: health checks come by address and have no token.
    Nothing,
    /// No token, but a name of the server in `Host`: pages hold nothing secret, and browsers cannot send a
    /// token along.
    Page,
    /// The same, and whoever has a token or a session is recognized: to sign in, nobody can have one.
    Session,
    /// A token, whatever it allows.
    Token,
    /// A right in a keyspace, or in all of them.
    Right(Right, Option<Cow<'a, str>>),
}

/// What a request needs. `default` is the keyspace of `/get-key`.
pub(super) fn of<'a>(
    method: &Method,
    path: &'a str,
    query: Option<&'a str>,
    default: &'a str,
) -> Need<'a> {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let all = |right| Need::Right(right, None);
    match path {
        "/healthz" | "/readyz" => return Need::Nothing,
        "/" | "/docs" | "/openapi.json" => return Need::Page,
        "/v1/session" => return Need::Session,
        "/metrics" | "/v1/spaces" | "/v1/instances" | "/v1/store" => {
            return all(Right::Read);
        }
        // It changes nothing, and shows no more than a keyspace does.
        "/v1/preview" => return all(Right::Read),
        // An import makes the keyspace that its file names.
        "/v1/acts" | "/v1/import" => return all(Right::Admin),
        // Without a keyspace, they tell of all of them.
        "/v1/activity" | "/v1/leases" => {
            let space = query.and_then(|query| query_value(query, "space"));
            return Need::Right(Right::Read, space);
        }
        "/get-key" => {
            let space = query.and_then(|query| query_value(query, "space"));
            return Need::Right(Right::Take, Some(space.unwrap_or(default.into())));
        }
        _ => {}
    }
    if path.starts_with("/docs/") || path.starts_with("/page/") {
        return Need::Page;
    }
    if path == "/v1/tokens" || path.starts_with("/v1/tokens/") {
        return all(Right::Admin);
    }
    let Some(rest) = path.strip_prefix("/v1/spaces/") else { return Need::Token };
    let (space, what) = rest.split_once('/').unwrap_or((rest, ""));
    let space = percent_decode_str(space).decode_utf8_lossy();
    let what = what.split('/').next().unwrap_or_default();
    let right = match (what, is_read) {
        ("" | "keys" | "aliases" | "used" | "bounds", true) => Right::Read,
        ("keys", false) if *method == Method::POST => Right::Take,
        ("keys" | "aliases" | "digests", _) => Right::Name,
        // Keyspaces themselves, pools, and whatever comes later.
        _ => Right::Admin,
    };
    Need::Right(right, Some(space))
}

/// Whether a request takes or changes something.
pub(super) fn changes(method: &Method, path: &str) -> bool {
    path == "/get-key" || !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_needs_its_right() {
        let in_links = |right| Need::Right(right, Some("links".into()));
        for (method, path, query, need) in [
            ("GET", "/healthz", None, Need::Nothing),
            ("GET", "/readyz", None, Need::Nothing),
            ("GET", "/", None, Need::Page),
            ("GET", "/docs", None, Need::Page),
            ("GET", "/docs/script.js", None, Need::Page),
            ("GET", "/page/script.js", None, Need::Page),
            ("GET", "/openapi.json", None, Need::Page),
            ("GET", "/v1/session", None, Need::Session),
            ("POST", "/v1/session", None, Need::Session),
            ("DELETE", "/v1/session", None, Need::Session),
            ("GET", "/v1/session/x", None, Need::Token),
            ("GET", "/metrics", None, Need::Right(Right::Read, None)),
            ("GET", "/v1/spaces", None, Need::Right(Right::Read, None)),
            ("GET", "/v1/leases", None, Need::Right(Right::Read, None)),
            ("GET", "/v1/leases", Some("space=links&limit=60"), in_links(Right::Read)),
            ("GET", "/v1/leases", Some("after=links/1"), Need::Right(Right::Read, None)),
            ("GET", "/v1/instances", None, Need::Right(Right::Read, None)),
            ("POST", "/v1/preview", None, Need::Right(Right::Read, None)),
            ("GET", "/v1/acts", None, Need::Right(Right::Admin, None)),
            ("GET", "/v1/tokens", None, Need::Right(Right::Admin, None)),
            ("POST", "/v1/tokens", None, Need::Right(Right::Admin, None)),
            ("DELETE", "/v1/tokens/shop", None, Need::Right(Right::Admin, None)),
            ("POST", "/v1/tokens/shop/rotate", None, Need::Right(Right::Admin, None)),
            ("GET", "/get-key", None, Need::Right(Right::Take, Some("default".into()))),
            ("GET", "/get-key", Some("space=links"), in_links(Right::Take)),
            ("GET", "/get-key", Some("space=%6cinks"), in_links(Right::Take)),
            ("HEAD", "/get-key", Some("space=links"), in_links(Right::Take)),
            ("POST", "/v1/spaces/links/keys", None, in_links(Right::Take)),
            ("POST", "/v1/spaces/%6cinks/keys", None, in_links(Right::Take)),
            ("GET", "/v1/spaces/links/keys/abc", None, in_links(Right::Read)),
            ("DELETE", "/v1/spaces/links/keys/abc", None, in_links(Right::Name)),
            ("GET", "/v1/spaces/links", None, in_links(Right::Read)),
            ("HEAD", "/v1/spaces/links", None, in_links(Right::Read)),
            ("PUT", "/v1/spaces/links", None, in_links(Right::Admin)),
            ("PATCH", "/v1/spaces/links", None, in_links(Right::Admin)),
            ("POST", "/v1/spaces/links/grow", None, in_links(Right::Admin)),
            ("POST", "/v1/spaces/links/seal", Some("confirm=links"), in_links(Right::Admin)),
            ("POST", "/v1/spaces/links/advance", None, in_links(Right::Admin)),
            ("POST", "/v1/spaces/links/export", None, in_links(Right::Admin)),
            ("POST", "/v1/import", None, Need::Right(Right::Admin, None)),
            ("GET", "/v1/store", None, Need::Right(Right::Read, None)),
            ("GET", "/v1/activity", None, Need::Right(Right::Read, None)),
            ("GET", "/v1/activity", Some("space=links"), in_links(Right::Read)),
            ("GET", "/v1/spaces/links/bounds", None, in_links(Right::Read)),
            ("GET", "/v1/spaces/links/aliases", None, in_links(Right::Read)),
            ("GET", "/v1/spaces/links/aliases/a", None, in_links(Right::Read)),
            ("PUT", "/v1/spaces/links/aliases/a", None, in_links(Right::Name)),
            ("DELETE", "/v1/spaces/links/aliases/a", None, in_links(Right::Name)),
            ("POST", "/v1/spaces/links/digests", None, in_links(Right::Name)),
            ("POST", "/v1/spaces/links/pool", None, in_links(Right::Admin)),
            ("GET", "/v1/spaces/links/pool", None, in_links(Right::Admin)),
            ("POST", "/v1/spaces/links/pool/fill", None, in_links(Right::Admin)),
            ("POST", "/v1/spaces/links/used-keys", None, in_links(Right::Admin)),
            ("GET", "/v1/spaces/links/used", None, in_links(Right::Read)),
            ("GET", "/v1/spaces/links/later", None, in_links(Right::Admin)),
            ("POST", "/v1/spaces/links/bounds", None, in_links(Right::Admin)),
            ("GET", "/v2/anything", None, Need::Token),
            ("GET", "/nowhere", None, Need::Token),
        ] {
            let method: Method = method.parse().unwrap();
            assert_eq!(of(&method, path, query, "default"), need, "{method} {path} {query:?}");
        }
    }
}
