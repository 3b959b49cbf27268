//! Settings from the command line: the flags, and how the command uses the secret.
//!
//! `cli` fills them in; `settings` applies them over the file and the variables.

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
    pub listen: Vec<String>,
    /// `--port`
    pub port: Option<u16>,
    /// `--admin-listen`
    pub admin_listen: Option<String>,
    /// `--redis-listen`
    pub redis_listen: Vec<String>,
    /// `--tls-certificate`
    pub tls_certificate: Option<PathBuf>,
    /// `--tls-key`
    pub tls_key: Option<PathBuf>,
    /// `--tls-client-ca`
    pub tls_client_ca: Option<PathBuf>,
    /// `--require-existing`
    pub require_existing: bool,
    /// `--allow-unsafe-store`
    pub allow_unsafe_store: bool,
    /// `--server`
    pub server: Option<String>,
    /// `--server-ca`
    pub server_ca: Option<PathBuf>,
    /// `--insecure-no-auth`
    pub insecure_no_auth: bool,
    /// How the command uses the secret.
    pub secret_use: SecretUse,
}

/// How a command uses the secret.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum SecretUse {
    /// It makes keys, so there must be a secret; the first command creates one if none is set.
    #[default]
    Needed,
    /// It needs the secret for some keyspaces only.
    IfGiven,
    /// It neither makes nor reads keys, and need not be able to read the file with the secret.
    Unneeded,
}
