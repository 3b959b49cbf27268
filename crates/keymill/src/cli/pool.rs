//! `keymill pool …`: fill a pool, import into it, list what is in it.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use keymill_engine::operations::{Filling, ImportInto};

use super::figures::counted;
use super::output::Data;
use super::site::{Site, Via};
use super::{import, progress, unknown, values};

#[derive(Debug, Subcommand)]
pub(super) enum PoolCommand {
    /// Write new keys into a pool
    #[command(
        after_help = "Keys are written in batches, and an interrupted fill keeps those it has written: run it again with\nthe same --up-to to continue.\n\nExamples:\n  keymill pool fill links --count 1000000\n  keymill pool fill links --up-to 10000000"
    )]
    Fill {
        /// The keyspace
        space: String,
        /// How many keys to add
        #[arg(long, value_name = "KEYS", value_parser = values::count, required_unless_present = "up_to")]
        count: Option<u64>,
        /// Fill up to this many keys
        #[arg(long, value_name = "KEYS", conflicts_with = "count")]
        up_to: Option<u64>,
    },
    /// Import keys of your own into a pool
    #[command(
        after_help = "One key per line; blank lines are skipped. Lines that cannot be imported are reported by line\nnumber, and the rest is imported.\n\nExample:\n  keymill pool import coupons codes.txt"
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

pub(super) async fn run(via: &Via, command: PoolCommand) -> anyhow::Result<ExitCode> {
    let site = via.open_safe().await?;
    unknown::advised(&site, run_on(&site, command)).await
}

async fn run_on(site: &Site, command: PoolCommand) -> anyhow::Result<ExitCode> {
    match command {
        PoolCommand::Fill { space, count, up_to } => {
            let filling = match (count, up_to) {
                (Some(count), _) => Filling::Add(count),
                (None, up_to) => Filling::UpTo(up_to.unwrap_or(0)),
            };
            fill(site, &space, filling).await
        }
        PoolCommand::Import { space, file } => {
            import::run(site, &space, &file, ImportInto::Pool).await
        }
        PoolCommand::Export { space } => {
            export(site, &space).await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn fill(site: &Site, space: &str, filling: Filling) -> anyhow::Result<ExitCode> {
    let bar = progress::of_keys();
    let mut wanted = match filling {
        Filling::Add(count) => count,
        Filling::UpTo(_) => 0,
    };
    let filled = site.fill_pool(space, filling, |added, left| {
        wanted = bar.position() + added + left;
        // The length before the position, because every change may draw a frame.
        bar.set_length(wanted);
        bar.inc(added);
    });
    let added = filled.await?;
    bar.finish_and_clear();
    note!("keymill: wrote {} into the pool of `{space}`", counted(added, "key", "keys"));
    if added < wanted {
        eprintln!("keymill: the keyspace `{space}` is used up: it has no more keys to write");
        return Ok(ExitCode::from(4));
    }
    Ok(ExitCode::SUCCESS)
}

async fn export(site: &Site, space: &str) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, Data);
    let each = |keys: Vec<String>| Ok(keys.iter().try_for_each(|key| writeln!(out, "{key}"))?);
    site.available_keys(space, each).await?;
    Ok(out.flush()?)
}
