//! The page where links are made, its files, and the page where a link would be.

use axum::extract::Path;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

const HOME: &str = include_str!("../../page/index.html");
const NOT_HERE: &str = include_str!("../../page/not-here.html");

/// Names, types and contents.
const FILES: [(&str, &str, &str); 3] = [
    ("style.css", "text/css; charset=utf-8", include_str!("../../page/style.css")),
    ("script.js", "text/javascript; charset=utf-8", include_str!("../../page/script.js")),
    ("icon.svg", "image/svg+xml", include_str!("../../page/icon.svg")),
];

/// Pages load nothing from elsewhere, run nothing that is written into them, and cannot be framed.
const HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-cache"),
];

pub(super) async fn home() -> Response {
    (HEADERS, Html(HOME)).into_response()
}

pub(super) async fn file(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => (HEADERS, [(header::CONTENT_TYPE, *kind)], *text).into_response(),
        None => not_here(StatusCode::NOT_FOUND),
    }
}

/// The page for a link that is unknown, or has ended.
pub(super) fn not_here(status: StatusCode) -> Response {
    let (title, text) = match status {
        StatusCode::GONE => ("This link has ended", "It has expired, or was removed by its owner."),
        _ => ("There is no such link", "Check the address: upper and lower case matter."),
    };
    let page = NOT_HERE.replace("{title}", title).replace("{text}", text);
    // An alias that is unknown may be a link the next moment.
    (status, HEADERS, [(header::CACHE_CONTROL, "no-store")], Html(page)).into_response()
}
