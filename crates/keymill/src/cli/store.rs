//! `keymill store`: is this store safe to lease from, and is its schema up to date.

use std::process::ExitCode;

use comfy_table::{ContentArrangement, Table, presets};

use super::args::StoreCommand;
use super::open_store;
use crate::config::Config;
use crate::service::ServiceError;
use crate::store::{Opening, Verdict};

pub(super) async fn run(config: Config, command: StoreCommand) -> anyhow::Result<ExitCode> {
    match command {
        StoreCommand::Check { json } => check(&config, json).await,
        StoreCommand::Migrate => migrate(&config).await,
        StoreCommand::Identity => identity(&config).await,
    }
}

/// Tells the store's identity, making the store where there is none: an export is for one store.
async fn identity(config: &Config) -> anyhow::Result<ExitCode> {
    let opening = Opening { allow_unsafe: true, ..Opening::default() };
    let store = open_store(config, opening).await?;
    println!("{}", store.identity().await.map_err(ServiceError::from)?);
    Ok(ExitCode::SUCCESS)
}

async fn migrate(config: &Config) -> anyhow::Result<ExitCode> {
    let opening = Opening { allow_unsafe: true, migrate: false, ..Opening::default() };
    let store = open_store(config, opening).await?;
    let applied = store.migrate().await.map_err(ServiceError::from)?;
    if applied.is_empty() {
        eprintln!("keymill: the schema of {} is up to date", store.place().location);
    }
    for name in applied {
        println!("{name}");
    }
    Ok(ExitCode::SUCCESS)
}

async fn check(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    // Looked at as it is: nothing is made or changed.
    let opening = Opening { allow_unsafe: true, migrate: false, ..Opening::default() };
    let store = open_store(config, opening).await?;
    let findings = store.check().await.map_err(ServiceError::from)?;
    let safe = findings.iter().all(|finding| finding.verdict != Verdict::Unsafe);
    if json {
        println!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        let place = store.place();
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
