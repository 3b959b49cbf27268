//! Headers that tell browsers what an answer must not be used for.
//!
//! `Http` adds them to the router's answers; all other answers already carry theirs.

use hyper::header::{self, HeaderMap, HeaderValue};

/// For `/docs`: nothing from other hosts, nothing inline, no frames, no forms.
const DOCS_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// For the page: the same, but for images of its own and forms that its script sends.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                           connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
                           require-trusted-types-for 'script'";

/// Browsers must not guess a type other than the one that an answer states.
pub(super) static NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// Adds them to an answer, with the policy of a page.
pub(super) fn add(headers: &mut HeaderMap, policy: Option<&'static str>) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF.clone());
    if let Some(policy) = policy {
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    }
}

/// What a path that is a page for people may do in a browser.
pub(super) fn policy(path: &str) -> Option<&'static str> {
    match path {
        "/" => Some(PAGE_POLICY),
        "/docs" => Some(DOCS_POLICY),
        _ if path.starts_with("/page/") => Some(PAGE_POLICY),
        _ if path.starts_with("/docs/") => Some(DOCS_POLICY),
        _ => None,
    }
}
