//! What the command line says of the settings: the flags, and what the command does with the secret.
//!
//! `cli` fills it in; `settings` lays it over the file and the variables.

use std::path::PathBuf;

use serde::Serialize;

/// Settings given as flags.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Flags {
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--store`
    pub store: Option<String>,
    /// `--data-dir`
    pub data_dir: Option<PathBuf>,
    /// `--new-store`
    pub new_store: bool,
    /// `--listen`
    pub listen: Option<String>,
    /// `--port`
    pub port: Option<u16>,
    /// `--require-existing`
    pub require_existing: bool,
    /// `--allow-unsafe-store`
    pub allow_unsafe_store: bool,
    /// What the command does with the secret.
    pub secret_use: SecretUse,
}

/// What a command does with the secret.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum SecretUse {
    /// It makes keys: there has to be one, and the first command makes it.
    #[default]
    Needed,
    /// It needs the secret of some keyspaces only.
    IfGiven,
    /// It neither makes nor reads keys, and need not be able to read the file with the secret.
    Unneeded,
}
