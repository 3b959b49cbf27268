//! `/` and `/page/…`: the web page, with its stylesheet, its script and its mark.
//!
//! What they are is in `page`; here they become answers. Stylesheet and script are addressed by their content, so
//! browsers keep them until another version of the server names others. The page itself is revalidated each time.

use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{StatusCode, Uri};

use super::State;
use crate::page::{self, MARK, PageFile, SCRIPT, STYLE};

/// For an address that names the content.
const FOREVER: &str = "public, max-age=31536000, immutable";
/// For one that does not.
const REVALIDATE: &str = "no-cache";

pub(super) async fn home(Shared(state): Shared<State>, headers: HeaderMap) -> Response {
    let html = page::html(&state.default_space.name);
    answer(&headers, "text/html; charset=utf-8", REVALIDATE, &page::tag_of(&html), html)
}

pub(super) async fn style(uri: Uri, headers: HeaderMap) -> Response {
    file(&uri, &headers, &STYLE)
}

pub(super) async fn script(uri: Uri, headers: HeaderMap) -> Response {
    file(&uri, &headers, &SCRIPT)
}

pub(super) async fn mark(uri: Uri, headers: HeaderMap) -> Response {
    file(&uri, &headers, &MARK)
}

fn file(uri: &Uri, headers: &HeaderMap, file: &'static PageFile) -> Response {
    let is_named = uri.query().is_some_and(|query| query.strip_prefix("v=") == Some(&file.tag));
    let caching = if is_named { FOREVER } else { REVALIDATE };
    answer(headers, file.content_type, caching, &file.tag, file.text)
}

/// The text, unless the browser has it already.
fn answer(
    headers: &HeaderMap,
    content_type: &'static str,
    caching: &'static str,
    tag: &str,
    text: impl IntoResponse,
) -> Response {
    let tag = format!("\"{tag}\"");
    let known = headers.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let is_known = known
        .is_some_and(|known| known.split(',').any(|it| it.trim().trim_start_matches("W/") == tag));
    let mut answer =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { text.into_response() };
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.extend(HeaderValue::try_from(tag).ok().map(|tag| (header::ETAG, tag)));
    answer
}
