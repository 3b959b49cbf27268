//! Headers that tell browsers what an answer must not be used for.
//!
//! `Http` adds them to the router's answers; all other answers already carry theirs.

use hyper::header::{self, HeaderMap, HeaderValue};

/// Nothing from other hosts, nothing inline, no frames, no forms.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Browsers must not guess a type other than the one that an answer states.
pub(super) static NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// Adds them to the answer for a path.
pub(super) fn add(headers: &mut HeaderMap, is_page: bool) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF.clone());
    if is_page {
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    }
}

/// Whether a path is a page for people.
pub(super) fn is_page(path: &str) -> bool {
    path == "/" || path == "/docs" || path.starts_with("/docs/")
}
