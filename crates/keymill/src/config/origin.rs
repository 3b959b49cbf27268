//! Where each setting comes from: a default, the file, a variable, a credential of systemd's or a flag.
//!
//! `Config::load` records it while it applies one over the other; `config show` prints it, and an error
//! about a value names the flag, variable or setting that it came from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::Flags;

/// Where a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It is not set.
    Default,
    /// The settings file.
    File,
    /// The variable of this name.
    Variable(String),
    /// The credential of this name, which systemd passes on.
    Credential(String),
    /// This flag.
    Flag(&'static str),
}

/// Where all settings come from.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    file: Option<PathBuf>,
    by_path: BTreeMap<String, Origin>,
}

/// Arguments that cannot be right, whatever the other settings are: wrong usage, not a failure.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongUsage(pub String);

impl Origins {
    /// Where a setting comes from, such as `limits.count_max`.
    pub fn of(&self, path: &str) -> Origin {
        self.by_path.get(path).cloned().unwrap_or(Origin::Default)
    }

    /// The settings file that was read, as an absolute path.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Records the settings of a file.
    pub(super) fn add_file(&mut self, path: PathBuf, content: &toml::Table) {
        self.file = Some(path);
        self.add_table("", content);
    }

    /// Records the settings that flags set.
    pub(super) fn add_flags(&mut self, flags: &Flags) {
        for (path, flag, is_set) in [
            ("listen", "--listen", !flags.listen.is_empty()),
            ("listen", "--port", flags.port.is_some()),
            ("admin_listen", "--admin-listen", flags.admin_listen.is_some()),
            ("redis_listen", "--redis-listen", !flags.redis_listen.is_empty()),
            ("tls_certificate", "--tls-certificate", flags.tls_certificate.is_some()),
            ("tls_key", "--tls-key", flags.tls_key.is_some()),
            ("tls_client_ca", "--tls-client-ca", flags.tls_client_ca.is_some()),
            ("store", "--store", flags.store.is_some()),
            ("data_dir", "--data-dir", flags.data_dir.is_some()),
            ("new_store", "--new-store", flags.new_store),
            ("require_existing", "--require-existing", flags.require_existing),
            ("allow_unsafe_store", "--allow-unsafe-store", flags.allow_unsafe_store),
        ] {
            if is_set {
                self.set(path, Origin::Flag(flag));
            }
        }
    }

    pub(super) fn set(&mut self, path: &str, origin: Origin) {
        self.by_path.insert(path.to_owned(), origin);
    }

    /// An error about the value of a setting, with the flag, variable or setting that it came from.
    pub(super) fn blame(&self, path: &str, error: anyhow::Error) -> anyhow::Error {
        match self.of(path) {
            Origin::Flag(flag) => WrongUsage(format!("{flag}: {error:#}")).into(),
            Origin::Variable(name) => error.context(name),
            origin @ Origin::Credential(_) => error.context(format!("the {origin}")),
            Origin::Default | Origin::File => error.context(path.to_owned()),
        }
    }

    fn add_table(&mut self, section: &str, table: &toml::Table) {
        for (name, value) in table {
            let path = super::variables::path(section, name);
            match value {
                toml::Value::Table(below) => self.add_table(&path, below),
                _ => self.set(&path, Origin::File),
            }
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File => f.write_str("file"),
            Origin::Variable(name) => write!(f, "variable {name}"),
            Origin::Credential(name) => write!(f, "credential {name}"),
            Origin::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}
