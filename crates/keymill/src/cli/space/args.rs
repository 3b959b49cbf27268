//! The arguments of `keymill space`.

use std::path::PathBuf;

use clap::Subcommand;

use super::set::SET_EXAMPLES;
use crate::cli::values;
use crate::front::space_settings::{SpaceChange, SpaceSettings};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum SpaceCommand {
    /// Create a keyspace; its key format cannot change later
    #[command(
        after_help = "Settings that are marked as changeable can be changed later with `keymill space set`.\n\nExamples:\n  keymill space create links\n  keymill space create orders --alphabet base32 --length 8 --prefix ord_ --group 4 --check\n  keymill space create tickets --kind sequential --length 0    plain integers: 0, 1, 2\n  keymill space create ids --kind snowflake --layout javascript\n  keymill space create ids --kind snowflake --layout twitter --epoch 2010-11-04T01:42:54.657Z\n  keymill space create events --kind uuid\n  keymill space create links --start 1500000    continues a keyspace that was sealed in another store"
    )]
    Create {
        /// A name that was never used before: a-z, 0-9, `-`, `_`
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
        /// The keyspace
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Add longer keys to a keyspace, for when the current ones are used up
    #[command(
        after_help = "Takes continue with the longer keys when the last of the current ones is handed out, on every\ninstance and without a restart. This cannot be undone.\n\nExample:\n  keymill space grow links --length 8"
    )]
    Grow {
        /// The keyspace
        name: String,
        /// The length of the new keys in characters, without prefix and check character; they must be
        /// longer than the current ones
        #[arg(long)]
        length: u8,
    },
    /// Skip past every key that may be in use, after the store was rolled back to an earlier state
    #[command(
        after_help = "After a backup was restored, run this before anything else. The keys that are skipped are never\nhanded out; keys that were returned unused are discarded, and so are the keys of a pool.\n\nIt skips to the highest ordinal that this data directory or a running instance has seen. If\nneither has seen anything, pass --to, or the keys in use with --beyond-keys.\n\nExamples:\n  keymill space advance links\n  keymill space advance links --to 1500000\n  psql -Atc 'SELECT key FROM links' | keymill space advance links --beyond-keys - --yes"
    )]
    Advance {
        /// The keyspace
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
        after_help = "The keyspace is sealed first: from then on the old store hands out no more of its keys. The\nfile can be imported only into the store that --for names. It does not contain the secret; the\nnew store needs the same one (`keymill secret export`).\n\nExample:\n  keymill --store postgres://db/keymill --new-store store identity\n  keymill space export links --for 1f0c2a77d1e04b9a --seal > links.ndjson\n  keymill --store postgres://db/keymill space import links.ndjson"
    )]
    Export {
        /// The keyspace
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
        after_help = "One key per line; blank lines are skipped. Lines that cannot be imported are reported by line\nnumber, and the rest is imported.\n\nExample:\n  psql -Atc 'SELECT key FROM links' | keymill space import-used links -"
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
        /// The keyspace
        name: String,
        /// Made or leased at this time or later
        #[arg(long, value_name = "TIME", value_parser = values::time)]
        from: jiff::Timestamp,
        /// Made or leased before this time
        #[arg(long, value_name = "TIME", value_parser = values::time)]
        to: jiff::Timestamp,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Seal a keyspace: it never hands out keys again
    #[command(after_help = "Example:\n  keymill space seal links")]
    Seal {
        /// The keyspace
        name: String,
        /// Skip the confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Change how a keyspace is served; its key format cannot change
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// The keyspace
        name: String,
        #[command(flatten)]
        settings: SpaceChange,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
