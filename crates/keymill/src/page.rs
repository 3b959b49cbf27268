//! The web page at `/`: what is wrong, what happens, what is left, and what can be done about it.
//!
//! The HTML is rendered here and holds nothing secret: no figure, no name but that of the default keyspace. Its script
//! asks the HTTP interface for everything else, as the reader, so that rights are decided in one place. `front/http/web_page`
//! serves it. Nothing here knows a protocol, and nothing is loaded from another host.

mod files;
mod remedies;

use askama::Template;

pub use files::{MARK, PageFile, SCRIPT, STYLE, tag_of};
use remedies::{REMEDIES, Remedy};

/// The page, as its template sees it.
#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    version: &'static str,
    default_space: &'a str,
    style: String,
    script: String,
    mark: String,
    remedies: &'static [Remedy],
}

/// The page of a server whose `/get-key` takes from `default_space`.
pub fn html(default_space: &str) -> String {
    let page = Page {
        version: env!("CARGO_PKG_VERSION"),
        default_space,
        style: STYLE.address(),
        script: SCRIPT.address(),
        mark: MARK.address(),
        remedies: REMEDIES,
    };
    page.render().expect("a template without I/O cannot fail")
}
