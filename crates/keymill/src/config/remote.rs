//! Working through a server: its address, whom to trust, and the token.
//!
//! `cli` asks for it first. Where a server is named, nothing else is resolved: a store, secrets and files of a server
//! are no concern of somebody who only has a token. The token is never a flag, because the arguments of a process are
//! readable for everybody on its machine.

use std::net::IpAddr;
use std::path::PathBuf;

use hyper::Uri;
use keymill_engine::space::check_name;
use zeroize::Zeroizing;

use super::origin::WrongUsage;
use super::redaction::redact_servers;
use super::secrets::{Source, TOKEN};
use super::{Config, Flags};
use crate::access::secret_text;

const SERVER: &str = "KEYMILL_SERVER";
const SERVER_CA: &str = "KEYMILL_SERVER_CA";

/// What a command needs to work through a server.
pub struct Remote {
    /// Its URL; several, if any of some servers on one store will do.
    pub servers: Vec<String>,
    /// A file with the authorities that its certificate is trusted by, instead of those of the system.
    pub ca_file: Option<PathBuf>,
    /// The token, if there is one.
    pub token: Option<Zeroizing<String>>,
    /// The keyspace that is used when none is named.
    pub default_space: String,
}

impl Remote {
    /// The server that a flag or a variable names; `None` where a command works on a store.
    pub fn load(flags: &Flags) -> anyhow::Result<Option<Remote>> {
        let on_store = [
            ("--store", flags.store.is_some()),
            ("--data-dir", flags.data_dir.is_some()),
            ("--new-store", flags.new_store),
            ("--allow-unsafe-store", flags.allow_unsafe_store),
        ];
        let names_store = flags.store.is_some() || flags.data_dir.is_some();
        let on_store = on_store.iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag);
        let urls = match (&flags.server, on_store) {
            (Some(_), Some(flag)) => {
                let problem = format!(
                    "--server and {flag} contradict each other: a command works through a server or on a store"
                );
                return Err(WrongUsage(problem).into());
            }
            (Some(urls), None) => urls.clone(),
            // It does not say which store is meant, so it would be a surprise that it wins.
            (None, Some(flag)) if !names_store && Remote::in_environment().is_some() => {
                let problem = format!(
                    "{flag} is for a store, but {SERVER} names a server; unset {SERVER}, or name the store with \
                     --store or --data-dir"
                );
                return Err(WrongUsage(problem).into());
            }
            // A flag wins over a variable.
            (None, Some(_)) => return Ok(None),
            (None, None) => match Remote::in_environment() {
                Some(urls) => urls,
                None => return Ok(None),
            },
        };
        let is_set = |name: &&str| std::env::var_os(name).is_some();
        let store = ["KEYMILL_STORE", "KEYMILL_STORE_FILE"].into_iter().find(is_set);
        if let Some(store) = store.filter(|_| flags.server.is_none()) {
            let problem = format!(
                "{SERVER} and {store} are both set, so it is unclear where to work; unset one of them, or pass \
                 --server or --store"
            );
            return Err(WrongUsage(problem).into());
        }
        let (settings, _) = Config::read(flags)?;
        check_name(&settings.default_space)?;
        let ca_file = std::env::var_os(SERVER_CA).filter(|path| !path.is_empty());
        let token = TOKEN.find_in_environment()?.as_ref().map(token).transpose()?;
        let servers: Vec<String> = urls.split(',').map(|url| url.trim().to_owned()).collect();
        check_servers(&servers, token.is_some())?;
        Ok(Some(Remote {
            servers,
            ca_file: flags.server_ca.clone().or(ca_file.map(PathBuf::from)),
            token,
            default_space: settings.default_space,
        }))
    }

    /// The first server that the token is sent to without TLS over a network.
    pub fn readable_token(&self) -> Option<&str> {
        self.token.as_ref()?;
        let is_readable = |url: &&String| {
            let uri: Option<Uri> = url.parse().ok();
            let Some(uri) = uri.filter(|uri| uri.scheme_str() == Some("http")) else {
                return false;
            };
            let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
            let is_loopback =
                host.parse().map_or(host == "localhost", |ip: IpAddr| ip.is_loopback());
            !is_loopback
        };
        self.servers.iter().find(is_readable).map(String::as_str)
    }

    /// The servers that the variable names. An empty one names none.
    pub(crate) fn in_environment() -> Option<String> {
        std::env::var(SERVER).ok().filter(|urls| !urls.trim().is_empty())
    }
}

/// Refuses servers that are never asked, before anything is said about them: what is wrong with them may be a secret.
fn check_servers(servers: &[String], has_token: bool) -> anyhow::Result<()> {
    let on_network = || servers.iter().filter(|url| !url.starts_with("unix:"));
    if on_network().any(|url| url.contains(['@', '?', '#'])) {
        let problem = "the URL of a server has no user name, password or query; set KEYMILL_TOKEN to a token instead";
        return Err(WrongUsage(problem.to_owned()).into());
    }
    let has = |scheme: &[&str]| {
        on_network().any(|url| scheme.iter().any(|scheme| url.starts_with(scheme)))
    };
    if has_token && has(&["https://", "rediss://"]) && has(&["http://", "redis://"]) {
        let problem = "some of the servers are asked with TLS and some without, so the network could read the token; \
                       use https:// for all of them";
        return Err(WrongUsage(problem.to_owned()).into());
    }
    Ok(())
}

/// The text of a token. What is wrong with one names where it comes from, and does not repeat it.
fn token(source: &Source) -> anyhow::Result<Zeroizing<String>> {
    let text = Zeroizing::new(source.read()?.trim().to_owned());
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let problem = "the token is empty, or has characters that no token has; it looks like km_…";
        return Err(WrongUsage(format!("{}: {problem}", source.label())).into());
    }
    // Where a path was mistaken, it may be the master secret, which no server must see.
    if secret_text::hash(text.as_bytes()).is_none() {
        let problem = "this is not a token, so it is not sent: it is mistyped or cut off, or another secret; a token \
                       looks like km_…";
        return Err(WrongUsage(format!("{}: {problem}", source.label())).into());
    }
    Ok(text)
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let has_token = self.token.is_some();
        let mut it = f.debug_struct("Remote");
        it.field("servers", &redact_servers(&self.servers.join(",")))
            .field("ca_file", &self.ca_file);
        it.field("has_token", &has_token).finish_non_exhaustive()
    }
}
