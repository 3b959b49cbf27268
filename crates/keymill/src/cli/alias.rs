//! `keymill alias …`: keys that users choose.

use std::process::ExitCode;

use clap::Subcommand;
use keymill_engine::operations::{NameRecord, Service, check_alias_text};

use super::{check_safety, open_service, output, unknown, usage};
use crate::config::Config;
use crate::front::http::AliasRecordView;

/// How many aliases are read at once.
const PAGE: u32 = 1_000;

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

pub(super) async fn run(config: Config, command: AliasCommand) -> anyhow::Result<ExitCode> {
    if let AliasCommand::Add { alias, .. } = &command {
        usage(check_alias_text(alias))?;
    }
    let reads = matches!(command, AliasCommand::List { .. } | AliasCommand::Show { .. });
    let service = open_service(&config, reads || config.allow_unsafe_store).await?;
    if !reads {
        check_safety(&service.check().await?, config.allow_unsafe_store)?;
    }
    unknown::advised(&service, run_on(&service, command)).await
}

async fn run_on(service: &Service, command: AliasCommand) -> anyhow::Result<ExitCode> {
    match command {
        AliasCommand::Add { space, alias, owner } => {
            if !service.add_alias(&space, &alias, &owner).await? {
                note!("keymill: `{alias}` already exists with the same owner");
            }
            println!("{alias}");
        }
        AliasCommand::List { space, json } => list(service, &space, json).await?,
        AliasCommand::Show { space, alias, json } => {
            let found = service.alias(&space, &alias).await?;
            print(found, json)?;
        }
        AliasCommand::Remove { space, alias, owner } => {
            service.remove_alias(&space, &alias, &owner).await?;
            note!("keymill: `{alias}` is removed; it stays reserved and is never handed out");
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(service: &Service, space: &str, json: bool) -> anyhow::Result<()> {
    let mut after = None;
    while output::is_open() {
        let page = service.aliases(space, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        for alias in page {
            print(alias, json)?;
        }
    }
    Ok(())
}

fn print(alias: NameRecord, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string(&AliasRecordView::from(alias))?);
    } else {
        println!("{:<24} {:<24} {}", alias.key, alias.owner, alias.created_at);
    }
    Ok(())
}
