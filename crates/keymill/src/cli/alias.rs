//! `keymill alias …`: keys that users choose.

use std::process::ExitCode;

use clap::Subcommand;
use keymill_engine::operations::check_alias_text;

use super::site::{Site, Via};
use super::{output, unknown, usage};
use crate::front::http::AliasRecordView;

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

pub(super) async fn run(via: &Via, command: AliasCommand) -> anyhow::Result<ExitCode> {
    if let AliasCommand::Add { alias, .. } = &command {
        usage(check_alias_text(alias))?;
    }
    let reads = matches!(command, AliasCommand::List { .. } | AliasCommand::Show { .. });
    let site = if reads { via.open().await? } else { via.open_safe().await? };
    unknown::advised(&site, run_on(&site, command)).await
}

async fn run_on(site: &Site, command: AliasCommand) -> anyhow::Result<ExitCode> {
    match command {
        AliasCommand::Add { space, alias, owner } => {
            if !site.add_alias(&space, &alias, &owner).await? {
                note!("keymill: `{alias}` already exists with the same owner");
            }
            println!("{alias}");
        }
        AliasCommand::List { space, json } => list(site, &space, json).await?,
        AliasCommand::Show { space, alias, json } => {
            print(&site.alias(&space, &alias).await?, json)?;
        }
        AliasCommand::Remove { space, alias, owner } => {
            site.remove_alias(&space, &alias, &owner).await?;
            note!("keymill: `{alias}` is removed; it stays reserved and is never handed out");
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(site: &Site, space: &str, json: bool) -> anyhow::Result<()> {
    let each = |page: Vec<AliasRecordView>| {
        page.iter().try_for_each(|alias| print(alias, json))?;
        Ok(output::is_open())
    };
    site.aliases(space, each).await
}

fn print(alias: &AliasRecordView, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string(alias)?);
    } else {
        println!("{:<24} {:<24} {}", alias.alias, alias.owner, alias.created_at);
    }
    Ok(())
}
