//! `keymill alias …`: keys that somebody chose.

use std::io::Write;
use std::process::ExitCode;

use super::args::AliasCommand;
use super::{check_safety, open_service};
use crate::config::Config;
use crate::front::http::AliasRecordView;
use crate::service::Service;
use crate::store::NameRecord;

/// How many aliases are read at once.
const PAGE: u32 = 1_000;

pub(super) async fn run(config: Config, command: AliasCommand) -> anyhow::Result<ExitCode> {
    let reads = matches!(command, AliasCommand::List { .. } | AliasCommand::Show { .. });
    let service = open_service(&config, reads || config.allow_unsafe_store).await?;
    if !reads {
        check_safety(service.store(), config.allow_unsafe_store).await?;
    }
    match command {
        AliasCommand::Add { space, alias, owner } => {
            if !service.add_alias(&space, &alias, &owner).await? {
                eprintln!("keymill: `{alias}` was taken by the same owner already");
            }
            println!("{alias}");
        }
        AliasCommand::List { space, json } => list(&service, &space, json).await?,
        AliasCommand::Show { space, alias, json } => {
            let found = service.alias(&space, &alias).await?;
            print(&mut std::io::stdout().lock(), found, json)?;
        }
        AliasCommand::Remove { space, alias, owner } => {
            service.remove_alias(&space, &alias, &owner).await?;
            eprintln!("keymill: `{alias}` is removed; it stays reserved and is never handed out");
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(service: &Service, space: &str, json: bool) -> anyhow::Result<()> {
    let mut after = None;
    loop {
        let page = service.aliases(space, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.key.clone());
        let mut out = std::io::stdout().lock();
        for alias in page {
            print(&mut out, alias, json)?;
        }
    }
}

fn print(out: &mut impl Write, alias: NameRecord, json: bool) -> anyhow::Result<()> {
    if json {
        writeln!(out, "{}", serde_json::to_string(&AliasRecordView::from(alias))?)?;
    } else {
        writeln!(out, "{:<24} {:<24} {}", alias.key, alias.owner, alias.created_at)?;
    }
    Ok(())
}
