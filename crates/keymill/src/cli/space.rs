//! `keymill space …`: creating, showing, changing, growing, advancing, moving and sealing keyspaces.

mod advance;
pub(super) mod args;
mod moving;
pub(super) mod set;
pub(super) mod show;

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::bail;
use keymill_engine::operations::{AdvanceAsk, ImportInto, Service, ServiceError};
use keymill_engine::space::{DefinitionError, Kind, SpaceSpec, check_name};

use super::figures::grouped;
use super::{WrongUsage, open_service, unknown, usage};
use crate::config::Config;
use crate::front::space_settings;
use args::SpaceCommand;

pub(super) async fn run(config: Config, command: SpaceCommand) -> anyhow::Result<ExitCode> {
    let service = open_service(&config, true).await?;
    unknown::advised(&service, run_on(&service, command)).await
}

async fn run_on(service: &Service, command: SpaceCommand) -> anyhow::Result<ExitCode> {
    match command {
        SpaceCommand::Create { name, spec, json } => {
            create(service, &name, &space_settings::spec(&*spec), json).await?;
        }
        SpaceCommand::List { json } => show::list(service, json).await?,
        SpaceCommand::Show { name, json } => show::run(service, &name, json).await?,
        SpaceCommand::Set { name, settings, json } => {
            set::run(service, &name, &settings, json).await?;
        }
        SpaceCommand::Grow { name, length } => {
            let before = service.report(&name).await?.record.capacity;
            let grown = service.grow(&name, length).await?;
            let after = grown.capacity;
            if grown.definition.kind == Kind::Digest {
                note!(
                    "keymill: new inputs of `{name}` get keys of length {length} from now on; known inputs \
                     keep their keys"
                );
                return Ok(ExitCode::SUCCESS);
            }
            note!(
                "keymill: `{name}` now has {} keys instead of {}; keys from ordinal {before} on have length {length}",
                grouped(after),
                grouped(before)
            );
        }
        SpaceCommand::Advance { name, to, beyond_keys, ignore_longer, inputs_again, yes } => {
            let ask = AdvanceAsk { to, inputs_again, ignore_longer, beyond: None };
            advance::run(service, &name, ask, beyond_keys.as_deref(), yes).await?;
        }
        SpaceCommand::Export { name, for_store, seal, replace_target } => {
            moving::export(service, &name, &for_store, seal, replace_target).await?;
        }
        SpaceCommand::Import { file } => moving::import(service, &file).await?,
        SpaceCommand::ImportUsed { name, file } => {
            // Fails if the keyspace does not exist; the import of an empty file would not.
            service.report(&name).await?;
            return super::import::run(service, &name, &file, ImportInto::Used).await;
        }
        SpaceCommand::Bounds { name, from, to, json } => {
            let Some(bounds) = service.bounds(&name, from, to).await? else {
                bail!("`{name}` has no keys from {from} to {to}");
            };
            if json {
                println!("{}", serde_json::to_string_pretty(&bounds)?);
            } else {
                println!("first  {}\nlast   {}", bounds.first, bounds.last);
            }
        }
        SpaceCommand::Seal { name, yes } => {
            service.report(&name).await?;
            let question = format!("Seal `{name}` for good? It will hand out no more keys.");
            if !yes && !confirmed(&question)? {
                bail!("not sealed");
            }
            service.seal(&name).await?;
            note!("keymill: `{name}` is sealed; it hands out no more keys");
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn create(
    service: &Service,
    name: &str,
    wanted: &SpaceSpec,
    json: bool,
) -> anyhow::Result<()> {
    usage(check_name(name))?;
    usage(set::check(wanted))?;
    usage(wanted.definition().check())?;
    let ensured = match service.ensure_space(name, wanted).await {
        Err(error @ ServiceError::DifferentDefinition { .. }) => {
            return Err(set::different(name, wanted, &error));
        }
        Err(ServiceError::BadDefinition(problem @ DefinitionError::Shape(_))) => {
            return usage(Err(problem));
        }
        ensured => ensured?,
    };
    if !ensured.made {
        let unchanged = format!("the keyspace `{name}` already exists with the same settings");
        set::told(service, name, ensured.tuned, &unchanged);
    }
    show::run(service, name, json).await
}

/// Asks the user to confirm what cannot be undone.
fn confirmed(question: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        let problem = "this cannot be undone; pass --yes to confirm";
        return Err(WrongUsage(problem.to_owned()).into());
    }
    eprint!("{question} [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
