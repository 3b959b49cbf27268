//! `keymill store`: is this store safe to lease from, and is its schema up to date.

use std::process::ExitCode;

use comfy_table::{ContentArrangement, Table, presets};
use keymill_engine::operations::ServiceError;
use keymill_engine::store::{Opening, Verdict};

use super::args::StoreCommand;
use super::open_store;
use crate::config::Config;

pub(super) async fn run(config: Config, command: StoreCommand) -> anyhow::Result<ExitCode> {
    match command {
        StoreCommand::Check { json } => check(&config, json).await,
        StoreCommand::Migrate => migrate(&config).await,
        StoreCommand::Identity => identity(&config).await,
    }
}

/// Prints the store's identity, and creates the store where there is none: an export is for one store.
async fn identity(config: &Config) -> anyhow::Result<ExitCode> {
    let opening = Opening { allow_unsafe: true, ..Opening::default() };
    let store = open_store(config, opening).await?;
    let identity = store.admin.identity().await.map_err(ServiceError::from)?;
    println!("{identity}");
    Ok(ExitCode::SUCCESS)
}

async fn migrate(config: &Config) -> anyhow::Result<ExitCode> {
    let opening = Opening { allow_unsafe: true, migrate: false, ..Opening::default() };
    let store = open_store(config, opening).await?;
    let applied = store.admin.migrate().await.map_err(ServiceError::from)?;
    if applied.is_empty() {
        eprintln!("keymill: the schema of {} is up to date", store.admin.place().location);
    }
    for name in applied {
        println!("{name}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Looks at the store as it is: nothing is created or changed, not even the data directory.
async fn check(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let existing = config.require_existing;
    let secret_given = config.secret.is_some() && !config.new_store && !existing;
    let create = !existing && !secret_given;
    let opening = Opening { create, secret_given, allow_unsafe: true, migrate: false };
    let checked = keymill_engine::store::check(&config.store, opening).await;
    let (place, findings) = checked.map_err(ServiceError::from)?;
    let safe = findings.iter().all(|finding| finding.verdict != Verdict::Unsafe);
    if json {
        println!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        println!("{} {}", place.kind, place.location);
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(["SETTING", "FOUND", "WANTED", "VERDICT"]);
        for finding in &findings {
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
