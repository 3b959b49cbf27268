//! The files of the page, which are part of the binary: stylesheet, script and mark.
//!
//! The script is written in parts, one concept each, and served as one file. Each file has a tag made of its content,
//! which is part of its address, so that browsers can keep it for good.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

/// A file of the page.
#[derive(Debug)]
pub struct PageFile {
    /// Where it is.
    path: &'static str,
    /// What it is, for browsers.
    pub content_type: &'static str,
    /// What is in it.
    pub text: &'static str,
    /// Tells one content from another.
    pub tag: String,
}

/// The stylesheet.
pub static STYLE: LazyLock<PageFile> = LazyLock::new(|| {
    let text = concat!(
        include_str!("../../dashboard/style/base.css"),
        include_str!("../../dashboard/style/parts.css"),
        include_str!("../../dashboard/style/views.css"),
    );
    PageFile::new("/page/style.css", "text/css; charset=utf-8", text)
});

/// The script: its parts, in the order in which they use each other.
pub static SCRIPT: LazyLock<PageFile> = LazyLock::new(|| {
    let text = concat!(
        include_str!("../../dashboard/script/document.js"),
        include_str!("../../dashboard/script/numbers.js"),
        include_str!("../../dashboard/script/server.js"),
        include_str!("../../dashboard/script/activity.js"),
        include_str!("../../dashboard/script/chart.js"),
        include_str!("../../dashboard/script/pictures.js"),
        include_str!("../../dashboard/script/tails.js"),
        include_str!("../../dashboard/script/problems.js"),
        include_str!("../../dashboard/script/keys.js"),
        include_str!("../../dashboard/script/keyspaces.js"),
        include_str!("../../dashboard/script/instances.js"),
        include_str!("../../dashboard/script/keyspace.js"),
        include_str!("../../dashboard/script/aliases.js"),
        include_str!("../../dashboard/script/pool.js"),
        include_str!("../../dashboard/script/create.js"),
        include_str!("../../dashboard/script/tokens.js"),
        include_str!("../../dashboard/script/session.js"),
        include_str!("../../dashboard/script/start.js"),
    );
    PageFile::new("/page/script.js", "text/javascript; charset=utf-8", text)
});

/// The mark, for the tab of the browser.
pub static MARK: LazyLock<PageFile> = LazyLock::new(|| {
    PageFile::new("/page/mark.svg", "image/svg+xml", include_str!("../../dashboard/page/mark.svg"))
});

impl PageFile {
    fn new(path: &'static str, content_type: &'static str, text: &'static str) -> PageFile {
        PageFile { path, content_type, text, tag: tag_of(text) }
    }

    /// Its address, which changes with its content.
    pub(super) fn address(&self) -> String {
        format!("{}?v={}", self.path, self.tag)
    }
}

/// Tells one content from another.
pub fn tag_of(text: &str) -> String {
    hex::encode(&Sha256::digest(text.as_bytes())[..8])
}
