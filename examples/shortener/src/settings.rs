//! The settings, from flags or `SHORTENER_*` variables.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use axum::http::HeaderName;
use clap::{Parser, ValueEnum};
use url::Url;

/// A URL shortener on keymill.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Settings {
    /// Address to listen on
    #[arg(long, env = "SHORTENER_LISTEN", default_value = "127.0.0.1:8000")]
    pub(crate) listen: SocketAddr,

    /// What short links begin with, such as https://sho.rt/ [default: the address it listens on]
    #[arg(long, env = "SHORTENER_PUBLIC_URL")]
    public_url: Option<Url>,

    /// Servers of keymill, separated by commas
    #[arg(
        long,
        env = "SHORTENER_KEYMILL",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:8080"
    )]
    pub(crate) keymill: Vec<String>,

    /// Keyspace that keys and aliases are from
    #[arg(long, env = "SHORTENER_KEYSPACE", default_value = "default")]
    pub(crate) keyspace: String,

    /// Token for keymill, with the rights `take`, `name` and `read` in the keyspace; @FILE reads it from a file
    #[arg(long, env = "SHORTENER_TOKEN", hide_env_values = true, value_parser = text_or_file)]
    pub(crate) token: Option<String>,

    /// Database of links: sqlite:FILE or postgres://USER:PASSWORD@HOST/DATABASE; @FILE reads it from a file
    #[arg(long, env = "SHORTENER_LINKS", hide_env_values = true, value_parser = text_or_file, default_value = "sqlite:links.db")]
    pub(crate) links: String,

    /// What to answer when a short link is unknown or has ended: a page with status 404 or 410, or a redirect to `/`
    #[arg(long, env = "SHORTENER_UNKNOWN", default_value = "page")]
    pub(crate) unknown: Unknown,

    /// Header in which a proxy names the signed-in user. Whoever reaches this server without the proxy can be any user
    /// [default: none; browsers are told apart by a cookie]
    #[arg(long, env = "SHORTENER_USER_HEADER")]
    pub(crate) user_header: Option<HeaderName>,

    /// How long a request waits for keymill or the database while they are restarted
    #[arg(long, env = "SHORTENER_PATIENCE_SECONDS", default_value = "20")]
    patience_seconds: u32,
}

/// What becomes of a request for a link that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Unknown {
    /// A page that says so.
    Page,
    /// The page where links are made.
    Home,
}

impl Settings {
    /// What short links begin with: a URL without a path, so that a link is as short as can be.
    pub(crate) fn public_url(&self, address: SocketAddr) -> anyhow::Result<Url> {
        let url = match &self.public_url {
            Some(url) => url.clone(),
            None => Url::parse(&format!("http://{address}/")).context("no address to listen on")?,
        };
        let is_plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        ensure!(
            ["http", "https"].contains(&url.scheme()) && is_plain,
            "the public URL must be like https://sho.rt/, not `{url}`"
        );
        Ok(url)
    }

    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.patience_seconds.into())
    }
}

/// A value as it is, or the contents of `@FILE`, where a secret belongs.
fn text_or_file(value: &str) -> Result<String, String> {
    let Some(path) = value.strip_prefix('@') else { return Ok(value.to_owned()) };
    let read =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"));
    read.map(|text| text.trim().to_owned())
}
