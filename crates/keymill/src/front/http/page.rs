//! Pages of lists: `limit` and `after` on the way in, `next` and a `Link` header on the way out.
//!
//! Every list uses this, so that all are bounded and paged in the same way.

use std::borrow::Cow;

use axum::Json;
use axum::response::{IntoResponse, Response};
use hyper::{Uri, header};
use serde::Serialize;

use super::Problem;
use super::params::whole_number;

/// The size of a page if no limit is given.
pub(in crate::front) const LIMIT_DEFAULT: u32 = 100;
/// The most that a page can have.
pub(in crate::front) const LIMIT_MAX: u32 = 1_000;
/// The longest `after`, in bytes.
pub(super) const AFTER_LEN_MAX: usize = 255;

/// One page of a list, and where the next one is.
#[derive(Debug)]
pub(super) struct Page<T> {
    body: T,
    link: Option<header::HeaderValue>,
}

impl<T> Page<T> {
    /// The answer to a request for a page; `next` is what `after` must be for the following one.
    pub(super) fn new(uri: &Uri, next: Option<&str>, body: T) -> Page<T> {
        Page { body, link: next.and_then(|next| link(uri, next)) }
    }
}

impl<T: Serialize> IntoResponse for Page<T> {
    fn into_response(self) -> Response {
        let mut answer = Json(self.body).into_response();
        if let Some(link) = self.link {
            answer.headers_mut().insert(header::LINK, link);
        }
        answer
    }
}

/// How many to list.
pub(super) fn limit(value: Option<&str>) -> Result<u32, Problem> {
    let Some(text) = value else { return Ok(LIMIT_DEFAULT) };
    whole_number(text, 1..=LIMIT_MAX).ok_or_else(|| {
        Problem::bad_parameter(format!("`limit` must be a whole number from 1 to {LIMIT_MAX}"))
    })
}

/// Reads an `after` that may be any name.
pub(in crate::front) fn after(value: Option<Cow<'_, str>>) -> Result<Option<String>, Problem> {
    let Some(after) = value else { return Ok(None) };
    let fits = (1..=AFTER_LEN_MAX).contains(&after.len()) && !after.contains(char::is_control);
    if fits { Ok(Some(after.into_owned())) } else { Err(bad_after()) }
}

/// The error for an `after` that no page has returned.
pub(super) fn bad_after() -> Problem {
    Problem::bad_parameter("`after` must be the `next` value of a page".to_owned())
}

/// The `after` of the next page; `None` if this one is not full, because then it is the last.
pub(in crate::front) fn next<T>(
    items: &[T],
    limit: u32,
    name: impl Fn(&T) -> String,
) -> Option<String> {
    items.last().filter(|_| items.len() == limit as usize).map(name)
}

/// The same request for the page that follows, as RFC 8288 writes it.
fn link(uri: &Uri, next: &str) -> Option<header::HeaderValue> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        if name != "after" {
            query.append_pair(&name, &value);
        }
    }
    query.append_pair("after", next);
    let link = format!("<{}?{}>; rel=\"next\"", uri.path(), query.finish());
    header::HeaderValue::try_from(link).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_keeps_what_was_asked_for_and_replaces_after() {
        let uri = Uri::from_static("/v1/leases?space=a&after=a%2F1&limit=2");
        let link = link(&uri, "a/3").unwrap();
        assert_eq!(link, "</v1/leases?space=a&limit=2&after=a%2F3>; rel=\"next\"");
    }
}
