//! The arguments: the commands, and the settings that every command takes.
//!
//! `cli.rs` reads them here. A command with subcommands has those in its own file.

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use clap_complete::Shell;

use super::alias::AliasCommand;
use super::audit::AuditCommand;
use super::bench::BenchArgs;
use super::config::ConfigCommand;
use super::digest::DigestArgs;
use super::pool::PoolCommand;
use super::secret::SecretCommand;
use super::space::args::SpaceCommand;
use super::store::StoreCommand;
use super::token::TokenCommand;
use super::values;
use crate::config::Flags;

const EXAMPLES: &str = "\
Examples:
  keymill take                      take one key, with no server and no set-up
  keymill take -n 5                 take five keys
  keymill serve                     serve keys on http://127.0.0.1:8080
  curl localhost:8080/get-key       take a key from the server
  keymill explain default 4fXk2Qz   explain where a key came from
  keymill --server https://keys.example take -n 5    through a server, with KEYMILL_TOKEN

Exit codes:
  0  success; also if the reader of the output, such as `head`, has ended
  1  failed, or refused by the store or the keyspace
  2  wrong usage
  3  the store or the server is unreachable, or there are no keys right now: try again later
  4  the keyspace is used up or sealed
  5  the store was rolled back to an earlier state, see `keymill space advance`
  6  the key is already issued, or owned by someone else

Data goes to standard output and everything else to standard error. If output cannot be written,
for example because a disk is full, the exit code is 1.";

/// Short keys that cannot repeat and cannot be guessed, with nothing stored until used.
#[derive(Debug, Parser)]
#[command(name = "keymill", version, after_help = EXAMPLES, propagate_version = true)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,

    /// The settings file [default: keymill.toml in this folder, if it exists] [env: KEYMILL_CONFIG]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Settings")]
    config: Option<PathBuf>,

    /// The store: sqlite:PATH, or postgres://, mysql://, redis://, etcd:// with user, host and name;
    /// see docs/stores.md [env: KEYMILL_STORE]
    #[arg(long, global = true, value_name = "URL", help_heading = "Settings")]
    store: Option<String>,

    /// The folder for the default database and for the files used to detect a rolled-back store
    /// [env: KEYMILL_DATA_DIR]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Settings")]
    data_dir: Option<PathBuf>,

    /// Create an empty store although KEYMILL_SECRET or secret_file is set, or for `store identity`; only for
    /// the first start, when no key was ever handed out [env: KEYMILL_NEW_STORE]
    #[arg(long, global = true, help_heading = "Settings")]
    new_store: bool,

    /// Use a store that `keymill store check` calls unsafe [env: KEYMILL_ALLOW_UNSAFE_STORE]
    #[arg(long, global = true, help_heading = "Settings")]
    allow_unsafe_store: bool,

    /// Work through this server instead of a store: https://HOST:PORT or unix:PATH, with the token in KEYMILL_TOKEN
    /// or in the file that KEYMILL_TOKEN_FILE names; several, separated by commas, are tried in turn
    /// [env: KEYMILL_SERVER]
    #[arg(long, global = true, value_name = "URL", help_heading = "Settings")]
    server: Option<String>,

    /// Trust the server by the authorities in this file, in PEM, instead of those that the system trusts
    /// [env: KEYMILL_SERVER_CA]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Settings")]
    server_ca: Option<PathBuf>,

    /// Print only data and errors: no notes and no progress bars
    #[arg(long, short, global = true)]
    pub(super) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Take keys, one per line; works with no server and no set-up
    #[command(
        after_help = "Examples:\n  keymill take\n  keymill take -n 5\n  keymill take orders -n 1000 > keys.txt\n  keymill take orders -n 3 --json"
    )]
    Take {
        /// The keyspace [default: default]
        space: Option<String>,
        /// How many keys
        #[arg(short = 'n', long, default_value_t = 1, allow_negative_numbers = true, value_parser = values::count)]
        count: u64,
        /// Who the keys are for; recorded in a keyspace with audit `key`
        #[arg(long, default_value = "", value_parser = values::caller)]
        caller: String,
        /// Print one JSON object with the keyspace and its keys
        #[arg(long)]
        json: bool,
    },
    /// Serve keys over HTTP and gRPC, and with --redis-listen over the Redis protocol
    #[command(
        after_help = "Examples:\n  keymill serve\n  keymill serve --port 9000\n  keymill serve --listen :80 --store sqlite:/srv/keys.db    once there is a token\n  keymill serve --listen 127.0.0.1:8080 --listen unix:/run/keymill.sock\n  keymill serve --redis-listen 127.0.0.1:6380\n  KEYMILL_STORE=postgres://keymill:password@db1,db2/keymill keymill serve"
    )]
    Serve {
        /// Where to listen: ADDRESS:PORT, or unix:PATH; can be repeated [default: 127.0.0.1:8080]
        /// [env: KEYMILL_LISTEN]
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen: Vec<String>,
        /// The port to listen on; the address stays as it is set [default: 8080]
        #[arg(long, conflicts_with = "listen")]
        port: Option<u16>,
        /// Where to listen for administration and metrics, which are then answered only there
        /// [env: KEYMILL_ADMIN_LISTEN]
        #[arg(long, value_name = "ADDRESS:PORT")]
        admin_listen: Option<String>,
        /// Where to speak the Redis protocol: ADDRESS:PORT, or unix:PATH; can be repeated; off by default
        /// [env: KEYMILL_REDIS_LISTEN]
        #[arg(long, value_name = "ADDRESS:PORT")]
        redis_listen: Vec<String>,
        /// Use TLS, with this certificate and those between it and its authority, in PEM
        /// [env: KEYMILL_TLS_CERTIFICATE]
        #[arg(long, value_name = "FILE")]
        tls_certificate: Option<PathBuf>,
        /// The private key of the certificate, in PEM [env: KEYMILL_TLS_KEY]
        #[arg(long, value_name = "FILE")]
        tls_key: Option<PathBuf>,
        /// Ask clients for certificates of these authorities, in PEM [env: KEYMILL_TLS_CLIENT_CA]
        #[arg(long, value_name = "FILE")]
        tls_client_ca: Option<PathBuf>,
        /// Create neither keyspaces nor a secret: fail if anything is missing
        #[arg(long)]
        require_existing: bool,
        /// Listen on addresses other than loopback although there are no tokens: whoever reaches them can
        /// do everything
        #[arg(long)]
        insecure_no_auth: bool,
    },
    /// Explain where a key came from
    #[command(
        after_help = "Keys of a shuffled, pooled or digest keyspace can be explained only with the secret; the others\nneed none. For a key that cannot belong to the keyspace, the exit code is 1.\n\nExamples:\n  keymill explain default 4fXk2Qz\n  keymill explain orders ord_2HQX-9DNV-C --json"
    )]
    Explain {
        /// The keyspace
        space: String,
        /// The key; it may begin with a hyphen
        #[arg(allow_hyphen_values = true)]
        key: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Create, show, change, grow, move and seal keyspaces
    #[command(subcommand)]
    Space(SpaceCommand),
    /// Manage aliases: keys of your choice
    #[command(subcommand)]
    Alias(AliasCommand),
    /// Fill, import and export pools of prepared keys
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Export the log of used keys
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Check the store, back it up, print its identity, update its schema
    #[command(subcommand)]
    Store(StoreCommand),
    /// Create, list, rotate and revoke the tokens that callers need
    #[command(subcommand)]
    Token(TokenCommand),
    /// Export the secret behind the keys
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Check or show the settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Measure servers: load, latency, and whether every key is unique
    #[command(after_help = super::bench::EXAMPLES)]
    Bench(Box<BenchArgs>),
    /// Check whether a server is ready, for health checks: exit code 0 or 1
    #[command(after_help = super::health::EXAMPLES)]
    Health {
        /// Only check that it is running
        #[arg(long)]
        live: bool,
    },
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  keymill completions bash > /etc/bash_completion.d/keymill")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write one page per command
    #[command(
        after_help = "Examples:\n  keymill man | man -l -\n  keymill man --dir /usr/local/share/man/man1"
    )]
    Man {
        /// Write a page for each command into this folder
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Get the key of an input, such as a URL; the same input always gets the same key
    #[command(after_help = super::digest::EXAMPLES)]
    Digest(DigestArgs),
}

/// Adds a suggestion for a number that no argument takes: it was probably meant as a count or a port.
pub(super) fn suggest(told: &mut clap::Error) {
    let Some(ContextValue::String(number)) = told.get(ContextKind::InvalidArg) else { return };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if told.kind() != ErrorKind::UnknownArgument || !is_number {
        return;
    }
    let usage = told.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let tip = if usage.contains(" take ") {
        format!("to take {number} keys, use `-n {number}`")
    } else if usage.contains(" serve ") {
        format!("to listen on port {number}, use `--port {number}`")
    } else {
        return;
    };
    told.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
}

impl Args {
    /// The settings among the arguments.
    pub(super) fn flags(&self) -> Flags {
        let mut flags = Flags {
            config: self.config.clone(),
            store: self.store.clone(),
            data_dir: self.data_dir.clone(),
            new_store: self.new_store,
            allow_unsafe_store: self.allow_unsafe_store,
            server: self.server.clone(),
            server_ca: self.server_ca.clone(),
            ..Flags::default()
        };
        if let Command::Serve {
            listen,
            port,
            admin_listen,
            redis_listen,
            tls_certificate,
            tls_key,
            tls_client_ca,
            require_existing,
            insecure_no_auth,
        } = &self.command
        {
            flags.listen.clone_from(listen);
            flags.port = *port;
            flags.admin_listen.clone_from(admin_listen);
            flags.redis_listen.clone_from(redis_listen);
            flags.tls_certificate.clone_from(tls_certificate);
            flags.tls_key.clone_from(tls_key);
            flags.tls_client_ca.clone_from(tls_client_ca);
            flags.require_existing = *require_existing;
            flags.insecure_no_auth = *insecure_no_auth;
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::{CommandFactory, Parser};

    #[test]
    fn the_arguments_are_consistent() {
        super::Args::command().debug_assert();
    }

    /// What problems, alerts and the page say to run can be run as it stands, once names and lengths are filled in.
    #[test]
    fn every_command_that_is_said_to_mend_something_can_be_run() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for (path, quote, count_min) in [
            ("../keymill-engine/src/operations/health.rs", '`', 2),
            ("../../deploy/prometheus/alerts.yml", '`', 8),
            ("src/page/remedies.rs", '"', 8),
        ] {
            let text = std::fs::read_to_string(root.join(path)).unwrap();
            let text = text.replace("{{ $labels.space }}", "links").replace("{}", "links");
            let start = format!("{quote}keymill ");
            let commands =
                text.split(&start).skip(1).filter_map(|it| Some(it.split_once(quote)?.0));
            // A test of the remedies has the name of the program alone.
            let commands: Vec<&str> = commands.filter(|it| !it.is_empty()).collect();
            assert!(
                commands.len() >= count_min,
                "{path}: the search finds too little: {commands:?}"
            );
            for command in commands {
                let words = command.split_whitespace().map(|word| match word {
                    "SPACE" => "links",
                    "LENGTH" | "N" => "8",
                    word => word,
                });
                let parsed = super::Args::try_parse_from(["keymill"].into_iter().chain(words));
                assert!(parsed.is_ok(), "{path}: `keymill {command}`: {}", parsed.unwrap_err());
            }
        }
    }
}
