//! `/docs`: the description of the HTTP interface, for people. Programs read `/openapi.json`.
//!
//! The page shows the operations with a script that reads `/openapi.json`; the table of error codes is put in here, so
//! that it is shown without a script as well. Page, stylesheet and script are part of the binary. They load nothing
//! from other hosts, and the policy that `guard` puts on them forbids it.

use std::sync::LazyLock;

use axum::response::IntoResponse;
use hyper::header;

use super::codes::{CODES, Entry};

/// The page with its table of codes.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    let rows: String = CODES.iter().map(row).collect();
    include_str!("../../../dashboard/docs.html").replacen("<!-- codes -->", &rows, 1)
});

pub(super) async fn page() -> impl IntoResponse {
    file("text/html; charset=utf-8", PAGE.as_str())
}

pub(super) async fn style() -> impl IntoResponse {
    file("text/css; charset=utf-8", include_str!("../../../dashboard/docs.css"))
}

pub(super) async fn script() -> impl IntoResponse {
    file("text/javascript; charset=utf-8", include_str!("../../../dashboard/docs.js"))
}

/// A part of the page. Another version of the server may have another one, so browsers revalidate it each time.
fn file(content_type: &'static str, text: &'static str) -> impl IntoResponse {
    let headers = [(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, "no-cache")];
    (headers, text)
}

fn row(entry: &Entry) -> String {
    let Entry { code, status, meaning, remedy } = entry;
    let (meaning, remedy) = (markup(meaning), markup(remedy));
    format!(
        "<tr id=\"code-{code}\"><th scope=\"row\"><code>{code}</code></th><td>{status}</td>\
         <td>{meaning}</td><td>{remedy}</td></tr>\n"
    )
}

/// Text as HTML, with what stands in backticks as code.
fn markup(text: &str) -> String {
    let safe = text.replace('&', "&amp;").replace('<', "&lt;");
    let set = |(at, part): (usize, &str)| match at % 2 {
        0 => part.to_owned(),
        _ => format!("<code>{part}</code>"),
    };
    safe.split('`').enumerate().map(set).collect()
}
