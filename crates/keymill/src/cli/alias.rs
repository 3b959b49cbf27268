//! `keymill alias …`: keys that somebody chose.

use std::process::ExitCode;

use super::args::AliasCommand;
use super::{check_safety, open_service};
use crate::config::Config;

pub(super) async fn run(config: Config, command: AliasCommand) -> anyhow::Result<ExitCode> {
    let service = open_service(&config, config.allow_unsafe_store).await?;
    check_safety(service.store(), config.allow_unsafe_store).await?;
    match command {
        AliasCommand::Add { space, alias, owner } => {
            if !service.add_alias(&space, &alias, &owner).await? {
                eprintln!("keymill: `{alias}` was taken by the same owner already");
            }
            println!("{alias}");
        }
        AliasCommand::Remove { space, alias, owner } => {
            service.remove_alias(&space, &alias, &owner).await?;
            eprintln!("keymill: `{alias}` is removed; it is not handed out all the same");
        }
    }
    Ok(ExitCode::SUCCESS)
}
