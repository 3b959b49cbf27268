//! Working through a server: its address, whom to trust, and the token.
//!
//! `cli` asks for it first. Where a server is named, nothing else is resolved: a store, secrets and files of a server
//! are no concern of somebody who only has a token. The token is never a flag, because the arguments of a process are
//! readable for everybody on its machine.

use std::path::PathBuf;

use anyhow::bail;
use keymill_engine::space::check_name;
use zeroize::Zeroizing;

use super::origin::WrongUsage;
use super::secrets::TOKEN;
use super::{Config, Flags};

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
        let on_store = on_store.iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag);
        let urls = match (&flags.server, on_store) {
            (Some(_), Some(flag)) => {
                let problem = format!(
                    "--server and {flag} contradict each other: a command works through a server or on a store"
                );
                return Err(WrongUsage(problem).into());
            }
            (Some(urls), None) => urls.clone(),
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
            bail!(
                "{SERVER} and {store} are both set, so it is unclear where to work; unset one of them, or pass \
                 --server or --store"
            );
        }
        let (settings, _) = Config::read(flags)?;
        check_name(&settings.default_space)?;
        let ca_file = std::env::var_os(SERVER_CA).filter(|path| !path.is_empty());
        let token = TOKEN.find_in_environment()?.map(|source| source.read()).transpose()?;
        Ok(Some(Remote {
            servers: urls.split(',').map(|url| url.trim().to_owned()).collect(),
            ca_file: flags.server_ca.clone().or(ca_file.map(PathBuf::from)),
            token: token.map(|text| Zeroizing::new(text.trim().to_owned())),
            default_space: settings.default_space,
        }))
    }

    /// The servers that the variable names. An empty one names none.
    pub(crate) fn in_environment() -> Option<String> {
        std::env::var(SERVER).ok().filter(|urls| !urls.trim().is_empty())
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let has_token = self.token.is_some();
        let mut it = f.debug_struct("Remote");
        it.field("servers", &self.servers).field("ca_file", &self.ca_file);
        it.field("has_token", &has_token).finish_non_exhaustive()
    }
}
