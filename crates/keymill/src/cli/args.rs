//! What can be typed.

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use clap_complete::Shell;

use super::digest::DigestArgs;
use super::space::set::{SET_EXAMPLES, SetArgs};
use crate::config::Flags;
use crate::front::space_settings::SpaceSettings;
use crate::front::time;

const EXAMPLES: &str = "\
Examples:
  keymill take                      take one key, with no server and no set-up
  keymill take -n 5                 take five keys
  keymill serve                     serve keys on http://127.0.0.1:8080
  curl localhost:8080/get-key       take a key from the server
  keymill explain default 4fXk2Qz   explain where a key came from

Exit codes:
  0  done; also when the reader of the output, such as `head`, has ended
  1  failed, or refused by the store or the keyspace
  2  wrong usage
  3  the store is unreachable, or there are no keys right now: try again later
  4  the keyspace is used up or sealed
  5  the store was rolled back to an earlier state, see `keymill space advance`
  6  the key is already issued, or owned by someone else

Data goes to standard output and everything else to standard error. Output that cannot be written,
such as to a full disk, is a failure (1).";

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

    /// The folder for the default database and for what this machine has seen of the store
    /// [env: KEYMILL_DATA_DIR]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Settings")]
    data_dir: Option<PathBuf>,

    /// Create an empty store although KEYMILL_SECRET or secret_file is set; only for the first start,
    /// when no key was ever handed out [env: KEYMILL_NEW_STORE]
    #[arg(long, global = true, help_heading = "Settings")]
    new_store: bool,

    /// Use a store that `keymill store check` calls unsafe [env: KEYMILL_ALLOW_UNSAFE_STORE]
    #[arg(long, global = true, help_heading = "Settings")]
    allow_unsafe_store: bool,

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
        #[arg(short = 'n', long, default_value_t = 1, allow_negative_numbers = true, value_parser = parse_count)]
        count: u64,
        /// Who the keys are for; recorded in a keyspace with audit `key`
        #[arg(long, default_value = "", value_parser = parse_caller)]
        caller: String,
        /// Print one JSON object with the keyspace and its keys
        #[arg(long)]
        json: bool,
    },
    /// Serve keys over HTTP
    #[command(
        after_help = "Examples:\n  keymill serve\n  keymill serve --port 9000\n  keymill serve --listen :80 --store sqlite:/srv/keys.db\n  KEYMILL_STORE=postgres://keymill:password@db1,db2/keymill keymill serve"
    )]
    Serve {
        /// Where to listen [default: 127.0.0.1:8080] [env: KEYMILL_LISTEN]
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen: Option<String>,
        /// The port to listen on, at the address that is set [default: 8080]
        #[arg(long, conflicts_with = "listen")]
        port: Option<u16>,
        /// Create neither keyspaces nor a secret: fail if anything is missing
        #[arg(long)]
        require_existing: bool,
    },
    /// Explain where a key came from
    #[command(
        after_help = "Keys of a shuffled, pooled or digest keyspace can be explained only with the secret; the others\nneed none. A key that cannot be of the keyspace ends with exit code 1.\n\nExamples:\n  keymill explain default 4fXk2Qz\n  keymill explain orders ord_0007K3 --json"
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
    /// Keys that are written out in advance, in a keyspace of kind `pooled`
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Export the log of used keys
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Look at the store, and update its schema
    #[command(subcommand)]
    Store(StoreCommand),
    /// Export the secret behind the keys
    #[command(subcommand)]
    Secret(SecretCommand),
    /// The settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  keymill completions bash > /etc/bash_completion.d/keymill")]
    Completions {
        /// Which shell
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

#[derive(Debug, Subcommand)]
pub(super) enum SpaceCommand {
    /// Create a keyspace; its key format cannot change later
    #[command(
        after_help = "What is marked as changeable can be changed later with `keymill space set`.\n\nExamples:\n  keymill space create links\n  keymill space create orders --alphabet base32 --length 8 --prefix ord_ --group 4 --check\n  keymill space create tickets --kind sequential --length 0    plain integers: 0, 1, 2\n  keymill space create ids --kind snowflake --layout javascript\n  keymill space create ids --kind snowflake --layout twitter --epoch 2010-11-04T01:42:54.657Z\n  keymill space create events --kind uuid\n  keymill space create links --start 1500000    moved here from another store, where it was sealed"
    )]
    Create {
        /// Its name, never used before: a-z, 0-9, `-`, `_`
        name: String,
        #[command(flatten)]
        spec: Box<SpaceSettings>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List all keyspaces
    #[command(after_help = "Examples:\n  keymill space list\n  keymill space list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a keyspace's settings and usage
    #[command(
        after_help = "Examples:\n  keymill space show links\n  keymill space show links --json"
    )]
    Show {
        /// Its name
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Give a keyspace longer keys, for when the present ones are used up
    #[command(
        after_help = "Takes continue with the longer keys when the last of the present ones is handed out, on every\ninstance and without a restart. This cannot be undone.\n\nExample:\n  keymill space grow links --length 8"
    )]
    Grow {
        /// Its name
        name: String,
        /// The length of the new keys in characters, without prefix and check character; it must be
        /// above the present length
        #[arg(long)]
        length: u8,
    },
    /// Skip past every key that may be in use, after the store was rolled back to an earlier state
    #[command(
        after_help = "After a backup was restored, run this before anything else. The keys that are skipped are never\nhanded out; keys that were returned unused are discarded, and so are the keys of a pool.\n\nIt skips to the highest ordinal that this data directory or a running instance has seen. If\nneither has seen anything, pass --to, or the keys in use with --beyond-keys.\n\nExamples:\n  keymill space advance links\n  keymill space advance links --to 1500000\n  psql -Atc 'SELECT key FROM links' | keymill space advance links --beyond-keys - --yes"
    )]
    Advance {
        /// Its name
        name: String,
        /// Skip at least to this ordinal; in a snowflake keyspace, to this tick
        #[arg(long, value_name = "ORDINAL")]
        to: Option<u64>,
        /// Skip past the keys in this file, one per line; - for standard input
        #[arg(long, value_name = "FILE")]
        beyond_keys: Option<PathBuf>,
        /// Ignore keys in that file that are longer than any key of the keyspace
        #[arg(long, requires = "beyond_keys")]
        ignore_longer: bool,
        /// With kind digest: confirm that all inputs since the backup will be digested again first
        #[arg(long)]
        inputs_again: bool,
        /// Skip the confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Write a keyspace with all its records to standard output, to move it to another store
    #[command(
        after_help = "The keyspace is sealed first: from then on the old store hands out no more of its keys. The\nfile can be imported only into the store that --for names. It does not contain the secret; the\nnew store needs the same one (`keymill secret export`).\n\nExample:\n  keymill --store postgres://db/keymill store identity\n  keymill space export links --for 1f0c2a77d1e04b9a --seal > links.ndjson\n  keymill --store postgres://db/keymill space import links.ndjson"
    )]
    Export {
        /// Its name
        name: String,
        /// The identity of the new store, as `keymill store identity` prints it
        #[arg(long = "for", value_name = "IDENTITY")]
        for_store: String,
        /// Seal the keyspace first; this cannot be undone
        #[arg(long)]
        seal: bool,
        /// Export it for another store than before; the earlier file must never have been imported
        #[arg(long)]
        replace_target: bool,
    },
    /// Import a keyspace that `space export` wrote; it hands out keys once the import is complete
    #[command(
        after_help = "If an import is interrupted, run it again with the same file.\n\nExample:\n  keymill --store postgres://db/keymill space import links.ndjson"
    )]
    Import {
        /// The file
        file: PathBuf,
    },
    /// Import keys that are already in use, so that they are never handed out
    #[command(
        after_help = "One key a line; blank lines are skipped. Lines that cannot be imported are reported by line\nnumber, and the rest is imported.\n\nExample:\n  psql -Atc 'SELECT key FROM links' | keymill space import-used links -"
    )]
    ImportUsed {
        /// The keyspace
        name: String,
        /// The file, or - for standard input
        file: PathBuf,
    },
    /// Show the lowest and highest key of a period, for range queries: snowflake IDs, UUIDs of version
    /// 7, and the keys of a sequential keyspace that were leased in it
    #[command(
        after_help = "Examples:\n  keymill space bounds ids --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --json\n  keymill space bounds tickets --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z"
    )]
    Bounds {
        /// Its name
        name: String,
        /// Made or leased at this time or later
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        from: jiff::Timestamp,
        /// Made or leased before this time
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        to: jiff::Timestamp,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Seal a keyspace: it never hands out keys again
    #[command(after_help = "Example:\n  keymill space seal links")]
    Seal {
        /// Its name
        name: String,
        /// Skip the confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Change how a keyspace is served; its key format cannot change
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// Its name
        name: String,
        #[command(flatten)]
        settings: SetArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum AliasCommand {
    /// Reserve a key of your choice
    #[command(after_help = "Example:\n  keymill alias add links summer-sale --owner marketing")]
    Add {
        /// The keyspace
        space: String,
        /// 1 to 16 letters, digits, `-`, `_`, `.`, `~`
        alias: String,
        /// Owner; repeating the command is safe
        #[arg(long, default_value = "")]
        owner: String,
    },
    /// List the aliases of a keyspace, with their owners and when they were added
    #[command(
        after_help = "Examples:\n  keymill alias list links\n  keymill alias list links --json"
    )]
    List {
        /// The keyspace
        space: String,
        /// Print JSON, one alias per line
        #[arg(long)]
        json: bool,
    },
    /// Show an alias, with its owner and when it was added
    #[command(after_help = "Example:\n  keymill alias show links summer-sale")]
    Show {
        /// The keyspace
        space: String,
        /// The alias
        alias: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove an alias; its key stays reserved and is never handed out
    #[command(after_help = "Example:\n  keymill alias remove links summer-sale --owner marketing")]
    Remove {
        /// The keyspace
        space: String,
        /// The alias
        alias: String,
        /// Owner
        #[arg(long, default_value = "")]
        owner: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum PoolCommand {
    /// Write new keys into a pool
    #[command(
        after_help = "An interrupted fill has written whole batches; the same --up-to goes on from there.\n\nExamples:\n  keymill pool fill links --count 1000000\n  keymill pool fill links --up-to 10000000"
    )]
    Fill {
        /// The keyspace
        space: String,
        /// How many to add
        #[arg(long, value_name = "KEYS", value_parser = parse_count, required_unless_present = "up_to")]
        count: Option<u64>,
        /// Fill up to this many keys
        #[arg(long, value_name = "KEYS", conflicts_with = "count")]
        up_to: Option<u64>,
    },
    /// Put keys of your own into a pool
    #[command(
        after_help = "One key a line; blank lines are skipped. Lines that cannot be imported are reported by line\nnumber, and the rest is imported.\n\nExample:\n  keymill pool import coupons codes.txt"
    )]
    Import {
        /// The keyspace
        space: String,
        /// The file, or - for standard input
        file: PathBuf,
    },
    /// List the keys that are available, in the order in which they will be handed out
    #[command(after_help = "Example:\n  keymill pool export coupons > available.txt")]
    Export {
        /// The keyspace
        space: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum AuditCommand {
    /// List used keys by time: those of pools, and of keyspaces with audit `key`
    #[command(
        after_help = "A keyspace with audit `batch` records no single keys; `keymill space set SPACE --audit key`\nrecords them from then on.\n\nExamples:\n  keymill audit export links > used.ndjson\n  keymill audit export links --format csv --from 2026-01-01T00:00:00Z --caller shop"
    )]
    Export {
        /// The keyspace
        space: String,
        /// Used at this time or later
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        from: Option<jiff::Timestamp>,
        /// Used before this time
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        to: Option<jiff::Timestamp>,
        /// Handed out to this caller
        #[arg(long, value_parser = parse_wanted_caller)]
        caller: Option<String>,
        /// One JSON object per line, or comma-separated values
        #[arg(long, value_enum, default_value_t = ExportFormat::Ndjson)]
        format: ExportFormat,
    },
}

/// How used keys are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ExportFormat {
    /// One JSON object per line.
    Ndjson,
    /// Comma-separated values (RFC 4180), with a header.
    Csv,
}

#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Check the store's safety settings; fails if one is unsafe
    #[command(
        after_help = "Nothing is created or changed.\n\nExample:\n  keymill store check --store postgres://keymill@db1,db2/keymill"
    )]
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Bring the schema up to date, as `serve` does when it starts: for instances that run as a
    /// database user who may not change it
    #[command(
        after_help = "Example:\n  keymill store migrate --store postgres://owner@db1/keymill"
    )]
    Migrate,
    /// Print the store's identity, for `space export --for`; creates the store if it is empty
    #[command(after_help = "Example:\n  keymill --store postgres://db/keymill store identity")]
    Identity,
}

#[derive(Debug, Subcommand)]
pub(super) enum SecretCommand {
    /// Write the secret that was created at the first start to a file; with --forget, also remove it
    /// from the store
    #[command(
        after_help = "Examples:\n  keymill secret export /etc/keymill/secret\n  keymill secret export /etc/keymill/secret --forget    and remove it from the store"
    )]
    Export {
        /// The file to create; - for standard output
        file: PathBuf,
        /// Then remove the secret from the store: from then on `secret_file` must name the file
        #[arg(long)]
        forget: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Check the settings and report what is wrong with them
    #[command(after_help = "Example:\n  keymill config check --config /etc/keymill/keymill.toml")]
    Check,
    /// Show the settings in force and where each of them comes from
    #[command(
        after_help = "The output can be used as a settings file. Passwords and the secret are not shown.\n\nExamples:\n  keymill config show\n  keymill config show --json\n  keymill config show --default > keymill.toml"
    )]
    Show {
        /// Print the annotated file of all defaults instead
        #[arg(long)]
        default: bool,
        /// Print JSON
        #[arg(long, conflicts_with = "default")]
        json: bool,
    },
}

/// Adds what was probably meant by a number that no argument takes: a count, or a port.
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

/// Reads how many keys are wanted.
fn parse_count(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("must be a whole number, 1 or more".to_owned()),
    }
}

/// Reads whose keys are wanted.
fn parse_wanted_caller(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("must not be empty; leave it out for the keys of all callers".to_owned());
    }
    parse_caller(text)
}

/// Reads who keys are for.
fn parse_caller(text: &str) -> Result<String, String> {
    match keymill_engine::operations::check_caller(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

impl Args {
    /// The settings among what was typed.
    pub(super) fn flags(&self) -> Flags {
        let mut flags = Flags {
            config: self.config.clone(),
            store: self.store.clone(),
            data_dir: self.data_dir.clone(),
            new_store: self.new_store,
            allow_unsafe_store: self.allow_unsafe_store,
            ..Flags::default()
        };
        if let Command::Serve { listen, port, require_existing } = &self.command {
            flags.listen.clone_from(listen);
            flags.port = *port;
            flags.require_existing = *require_existing;
        }
        flags
    }
}

/// Reads the beginning or the end of a period.
fn parse_time(text: &str) -> Result<jiff::Timestamp, String> {
    time::read_bound(text).ok_or_else(|| format!("must be {}", time::TIME))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        super::Args::command().debug_assert();
    }
}
