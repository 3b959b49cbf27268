//! What can be typed.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::config::Flags;
use crate::space::SpaceSpec;

const EXAMPLES: &str = "\
Examples:
  keymill take                      one key, with no server and no set-up
  keymill serve                     serve keys on http://127.0.0.1:8080
  curl localhost:8080/get-key       take one from it
  keymill explain default 4fXk2Qz   what is known of a key

Exit codes:
  0 done   1 failed   2 wrong usage   3 no store or no keys right now, try again later
  4 the keyspace is used up or sealed   5 the store went back in time, see `space advance`
  6 the key is taken";

/// Short keys that cannot repeat and cannot be guessed, with nothing stored until used.
#[derive(Debug, Parser)]
#[command(name = "keymill", version, after_help = EXAMPLES, propagate_version = true)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,

    /// The settings file [default: keymill.toml here, if there is one] [env: KEYMILL_CONFIG]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Settings")]
    config: Option<PathBuf>,

    /// The store: sqlite:PATH, or postgres://, mysql://, redis://, etcd:// with user, host and name;
    /// see docs/stores.md [env: KEYMILL_STORE]
    #[arg(long, global = true, value_name = "URL", help_heading = "Settings")]
    store: Option<String>,

    /// The folder for the default database and the floors [env: KEYMILL_DATA_DIR]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Settings")]
    data_dir: Option<PathBuf>,

    /// Create an empty store although KEYMILL_SECRET or secret_file is set: no key of it was ever
    /// handed out; for the first start only [env: KEYMILL_NEW_STORE]
    #[arg(long, global = true, help_heading = "Settings")]
    new_store: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Take keys, one per line; works with no server and no set-up
    #[command(after_help = "Examples:\n  keymill take\n  keymill take orders -n 1000 > keys.txt")]
    Take {
        /// The keyspace [default: default]
        space: Option<String>,
        /// How many
        #[arg(short = 'n', long, default_value_t = 1, allow_negative_numbers = true, value_parser = parse_count)]
        count: u64,
        /// For whom, in a keyspace with audit `key`
        #[arg(long, default_value = "", value_parser = parse_caller)]
        caller: String,
    },
    /// Serve keys over HTTP
    #[command(
        after_help = "Examples:\n  keymill serve\n  keymill serve --listen :80 --store sqlite:/srv/keys.db\n  KEYMILL_STORE=postgres://keymill:password@db1,db2/keymill keymill serve"
    )]
    Serve {
        /// Where to listen [default: 127.0.0.1:8080] [env: KEYMILL_LISTEN]
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen: Option<String>,
        /// Create neither keyspaces nor a secret: start only on what is there
        #[arg(long)]
        require_existing: bool,
        /// Serve from a store that `store check` calls unsafe
        #[arg(long)]
        allow_unsafe_store: bool,
    },
    /// Tell what is known of a key
    #[command(
        after_help = "Examples:\n  keymill explain default 4fXk2Qz\n  keymill explain orders ord_0007K3 --json"
    )]
    Explain {
        /// The keyspace
        space: String,
        /// The key; it may begin with a hyphen
        #[arg(allow_hyphen_values = true)]
        key: String,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Make, show, grow, advance and end keyspaces
    #[command(subcommand)]
    Space(SpaceCommand),
    /// Keys that somebody chose
    #[command(subcommand)]
    Alias(AliasCommand),
    /// Keys that are written out in advance, in a keyspace of kind `pooled`
    #[command(subcommand)]
    Pool(PoolCommand),
    /// The record of single keys
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Look at the store, and update its schema
    #[command(subcommand)]
    Store(StoreCommand),
    /// The master secret
    #[command(subcommand)]
    Secret(SecretCommand),
    /// The settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Completions for a shell
    #[command(after_help = "Example:\n  keymill completions bash > /etc/bash_completion.d/keymill")]
    Completions {
        /// Which shell
        shell: Shell,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum SpaceCommand {
    /// Make a keyspace; what its keys look like is permanent
    #[command(
        after_help = "Examples:\n  keymill space create links\n  keymill space create orders --alphabet base32 --length 8 --prefix ord_ --group 4 --check\n  keymill space create tickets --kind sequential --alphabet decimal --length 0\n  keymill space create ids --kind snowflake --layout javascript\n  keymill space create ids --kind snowflake --layout twitter --epoch 2010-11-04T01:42:54.657Z\n  keymill space create events --kind uuid\n  keymill space create links --start 1500000    moved here from another store, where it was sealed"
    )]
    Create {
        /// Its name, never used before: a-z, 0-9, `-`, `_`
        name: String,
        #[command(flatten)]
        spec: Box<SpaceSpec>,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// List all keyspaces
    List {
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one keyspace in figures
    Show {
        /// Its name
        name: String,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Give a keyspace longer keys, for when the present ones are used up
    #[command(
        after_help = "Takes move on to the longer keys when the last of the present ones is handed out, on every\ninstance and without a stop. This cannot be undone.\n\nExample:\n  keymill space grow links --length 8"
    )]
    Grow {
        /// Its name
        name: String,
        /// How many characters the new keys' numbers take: more than the present ones
        #[arg(long)]
        length: u8,
    },
    /// Move a keyspace beyond everything seen, after its store went back in time
    #[command(
        after_help = "After a backup was restored, run this before anything else. Keys between are never\nhanded out; keys that were returned unused are dropped, and so are the keys of a pool.\n\nHow far it goes is the highest that this data directory, or a running instance, has seen.\nWhere neither has seen anything, say how far, or name the keys in use.\n\nExamples:\n  keymill space advance links\n  keymill space advance links --to 1500000\n  psql -Atc 'SELECT key FROM links' | keymill space advance links --beyond-keys - --yes"
    )]
    Advance {
        /// Its name
        name: String,
        /// At least to this ordinal, or tick of a snowflake keyspace
        #[arg(long, value_name = "ORDINAL")]
        to: Option<u64>,
        /// Beyond the keys in this file, one a line; - for standard input
        #[arg(long, value_name = "FILE")]
        beyond_keys: Option<PathBuf>,
        /// Keys in that file that are longer than any of the keyspace are none of its own
        #[arg(long, requires = "beyond_keys")]
        ignore_longer: bool,
        /// Of a digest keyspace: inputs digested since the backup will be digested again first
        #[arg(long)]
        inputs_again: bool,
        /// Skip the confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Write a keyspace with everything on record of it to standard output, to move it to another store
    #[command(
        after_help = "The keyspace is sealed first: from then on the old store hands out no more of its keys. The\nfile is for the one store that --for names. It holds no secret: the new store needs the same\none (`keymill secret export`).\n\nExample:\n  keymill --store postgres://db/keymill store identity\n  keymill space export links --for 1f0c2a77d1e04b9a --seal > links.ndjson\n  keymill --store postgres://db/keymill space import links.ndjson"
    )]
    Export {
        /// Its name
        name: String,
        /// The identity of the store that it is for
        #[arg(long = "for", value_name = "IDENTITY")]
        for_store: String,
        /// Seal it first, for good
        #[arg(long)]
        seal: bool,
        /// Export it for another store than before, whose file was never imported
        #[arg(long)]
        replace_target: bool,
    },
    /// Read a keyspace that `space export` wrote; it hands out keys once the last line is there
    #[command(
        after_help = "An import that was interrupted is run again with the same file.\n\nExample:\n  keymill --store postgres://db/keymill space import links.ndjson"
    )]
    Import {
        /// The file
        file: PathBuf,
    },
    /// Import keys that are in use already, so that they are never handed out
    #[command(
        after_help = "One key a line. Lines that cannot be imported are told by number, and the rest is imported.\n\nExample:\n  psql -Atc 'SELECT key FROM links' | keymill space import-used links -"
    )]
    ImportUsed {
        /// The keyspace
        name: String,
        /// The file, or - for standard input
        file: PathBuf,
    },
    /// Show the lowest and the highest key of a time, for the range of a query: snowflake IDs, UUIDs
    /// of version 7, and the keys of a sequential keyspace that were leased then
    #[command(
        after_help = "Examples:\n  keymill space bounds ids --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --json\n  keymill space bounds tickets --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z"
    )]
    Bounds {
        /// Its name
        name: String,
        /// Made or leased at this time or later
        #[arg(long, value_name = "TIME")]
        from: jiff::Timestamp,
        /// Made or leased before this time
        #[arg(long, value_name = "TIME")]
        to: jiff::Timestamp,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// End a keyspace: it hands out no more keys, for good
    Seal {
        /// Its name
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum AliasCommand {
    /// Take a key by name; it is never handed out to anybody else
    #[command(after_help = "Example:\n  keymill alias add links summer-sale --owner marketing")]
    Add {
        /// The keyspace
        space: String,
        /// 1 to 16 letters, digits, `-`, `_`, `.`, `~`
        alias: String,
        /// Whose it is; the same owner may ask again
        #[arg(long, default_value = "")]
        owner: String,
    },
    /// List the aliases of a keyspace, with their owners and since when
    #[command(
        after_help = "Examples:\n  keymill alias list links\n  keymill alias list links --json"
    )]
    List {
        /// The keyspace
        space: String,
        /// Print JSON, one alias a line
        #[arg(long)]
        json: bool,
    },
    /// Show an alias, with its owner and since when
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
        /// Whose it is
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
        /// Add as many as are missing until so many are available
        #[arg(long, value_name = "KEYS", conflicts_with = "count")]
        up_to: Option<u64>,
    },
    /// Put keys of your own into a pool
    #[command(
        after_help = "One key a line. Lines that cannot be imported are told by number, and the rest is imported.\n\nExample:\n  keymill pool import coupons codes.txt"
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
        after_help = "Examples:\n  keymill audit export links > used.ndjson\n  keymill audit export links --format csv --from 2026-01-01T00:00:00Z --caller shop"
    )]
    Export {
        /// The keyspace
        space: String,
        /// Used at this time or later
        #[arg(long, value_name = "TIME")]
        from: Option<jiff::Timestamp>,
        /// Used before this time
        #[arg(long, value_name = "TIME")]
        to: Option<jiff::Timestamp>,
        /// Handed out to this caller
        #[arg(long)]
        caller: Option<String>,
        /// One JSON object a line, or comma-separated values
        #[arg(long, value_enum, default_value_t = ExportFormat::Ndjson)]
        format: ExportFormat,
    },
}

/// How used keys are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ExportFormat {
    /// One JSON object a line.
    Ndjson,
    /// Comma-separated values (RFC 4180), with a header.
    Csv,
}

#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Look at the store, setting by setting; fails when one of them is unsafe
    #[command(
        after_help = "Example:\n  keymill store check --store postgres://keymill@db1,db2/keymill"
    )]
    Check {
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Bring the schema up to date, as `serve` does at its start: for those whose instances run as
    /// a user who may not change it
    #[command(
        after_help = "Example:\n  keymill store migrate --store postgres://owner@db1/keymill"
    )]
    Migrate,
    /// Print the store's identity, which `space export --for` names; makes the store where it is empty
    #[command(after_help = "Example:\n  keymill --store postgres://db/keymill store identity")]
    Identity,
}

#[derive(Debug, Subcommand)]
pub(super) enum SecretCommand {
    /// Write the secret that was made at first start to a file, and with --forget remove it from
    /// the store
    #[command(
        after_help = "Examples:\n  keymill secret export /etc/keymill/secret\n  keymill secret export /etc/keymill/secret --forget    and remove it from the store"
    )]
    Export {
        /// The file to make; `-` is standard output
        file: PathBuf,
        /// Remove the secret from the store afterwards: from then on `secret_file` must name the file
        #[arg(long)]
        forget: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Check the settings and say where they are wrong
    Check,
    /// Show the settings in force, or all defaults with what they mean
    Show {
        /// The annotated file of all defaults
        #[arg(long)]
        default: bool,
    },
}

/// Reads how many keys are wanted.
fn parse_count(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("must be a whole number, 1 or more".to_owned()),
    }
}

/// Reads for whom keys are taken.
fn parse_caller(text: &str) -> Result<String, String> {
    match crate::service::check_caller(text) {
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
            ..Flags::default()
        };
        if let Command::Serve { listen, require_existing, allow_unsafe_store } = &self.command {
            flags.listen.clone_from(listen);
            flags.require_existing = *require_existing;
            flags.allow_unsafe_store = *allow_unsafe_store;
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        super::Args::command().debug_assert();
    }
}
