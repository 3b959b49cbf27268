//! `keymill store`: whether a store is safe to lease from, its backup, its schema, and its identity.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use comfy_table::{ContentArrangement, Table, presets};
use keymill_engine::operations::{Finding, OpenedStore, Opening, Verdict};

use super::open_store;
use super::site::{Server, Via};
use crate::config::Config;
use crate::front::http::views::StoreView;

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
    /// Update the schema, as `serve` does when it starts; needed if instances run as a database user
    /// who may not change it
    #[command(
        after_help = "Example:\n  keymill store migrate --store postgres://owner@db1/keymill"
    )]
    Migrate,
    /// Copy a SQLite store into a new file, while instances use it
    #[command(
        after_help = "The file must not exist yet. It contains the secret, if the store keeps it. The schema is not updated.\n\nAfter a restore, run `keymill space advance NAME` for every keyspace before you start an instance: keys\nthat were handed out since the backup would be repeated otherwise. docs/stores.md has every step.\n\nExample:\n  keymill store backup /backup/keymill-2026-11-16.db"
    )]
    Backup {
        /// The file to create
        file: PathBuf,
    },
    /// Print the store's identity, for `space export --for`; with --new-store, creates a store that is empty
    #[command(
        after_help = "Example:\n  keymill --store postgres://db/keymill --new-store store identity"
    )]
    Identity,
}

pub(super) async fn run(via: &Via, command: StoreCommand) -> anyhow::Result<ExitCode> {
    match (command, via) {
        (StoreCommand::Check { json }, Via::Store(config)) => check(config, json).await,
        (StoreCommand::Check { json }, Via::Server(remote)) => {
            let StoreView { kind, location, findings, .. } = Server::new(remote)?.store().await?;
            print(&kind, &location, &findings, json)
        }
        (StoreCommand::Identity, Via::Store(config)) => identity(config).await,
        (StoreCommand::Identity, Via::Server(remote)) => {
            println!("{}", Server::new(remote)?.store().await?.identity);
            Ok(ExitCode::SUCCESS)
        }
        (StoreCommand::Backup { file }, via) => back_up(via.config()?, &file).await,
        (StoreCommand::Migrate, via) => migrate(via.config()?).await,
    }
}

/// Copies the store into a file, and says what to do once that is restored.
async fn back_up(config: &Config, file: &Path) -> anyhow::Result<ExitCode> {
    OpenedStore::back_up(&config.store, file).await?;
    note!("keymill: wrote a backup to {}; keep it as safe as the store itself", file.display());
    note!(
        "keymill: after restoring it, run `keymill space advance NAME` for every keyspace before you start an \
         instance; see \"Backup and restore\" in docs/stores.md"
    );
    Ok(ExitCode::SUCCESS)
}

/// Prints the store's identity.
async fn identity(config: &Config) -> anyhow::Result<ExitCode> {
    let opening = Opening { allow_unsafe: true, ..Opening::default() };
    let store = open_store(config, opening).await?;
    let identity = store.identity().await?;
    println!("{identity}");
    Ok(ExitCode::SUCCESS)
}

async fn migrate(config: &Config) -> anyhow::Result<ExitCode> {
    let opening = Opening { allow_unsafe: true, migrate: false, ..Opening::default() };
    let store = open_store(config, opening).await?;
    let applied = store.migrate().await?;
    if applied.is_empty() {
        eprintln!("keymill: the schema of {} is up to date", store.describe().location);
    }
    for name in applied {
        println!("{name}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks the store as it is: nothing is created or changed, not even the data directory.
async fn check(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let existing = config.require_existing;
    let secret_given = config.secret.is_some() && !config.new_store && !existing;
    let create = !existing && !secret_given;
    let opening =
        Opening { create, secret_given, allow_unsafe: true, migrate: false, ..Opening::default() };
    let (place, findings) = OpenedStore::look(&config.store, opening).await?;
    print(place.kind, &place.location, &findings, json)
}

fn print(kind: &str, location: &str, findings: &[Finding], json: bool) -> anyhow::Result<ExitCode> {
    let safe = findings.iter().all(|finding| finding.verdict != Verdict::Unsafe);
    if json {
        println!("{}", serde_json::to_string_pretty(findings)?);
    } else {
        println!("{kind} {location}");
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(["SETTING", "FOUND", "WANTED", "VERDICT"]);
        for finding in findings {
            let verdict = match finding.verdict {
                Verdict::Safe => "safe",
                Verdict::Warning => "warning",
                Verdict::Unsafe => "UNSAFE",
            };
            table.add_row([&finding.setting, &finding.found, &finding.wanted, &verdict.to_owned()]);
        }
        println!("{table}");
    }
    Ok(if safe { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
