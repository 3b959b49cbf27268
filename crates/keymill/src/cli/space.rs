//! `keymill space …`: creating, showing, changing, growing, advancing, moving and sealing keyspaces.

mod advance;
pub(super) mod args;
mod moving;
pub(super) mod set;
pub(super) mod show;

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::bail;
use keymill_engine::operations::ImportInto;
use keymill_engine::space::{Kind, SpaceSpec, check_name};

use super::figures::grouped;
use super::site::refusal::code_of;
use super::site::{AdvanceFlags, Site, Via};
use super::{WrongUsage, unknown, usage};
use crate::front::space_settings;
use args::SpaceCommand;

pub(super) async fn run(via: &Via, command: SpaceCommand) -> anyhow::Result<ExitCode> {
    let site = via.open().await?;
    unknown::advised(&site, run_on(&site, command)).await
}

async fn run_on(site: &Site, command: SpaceCommand) -> anyhow::Result<ExitCode> {
    match command {
        SpaceCommand::Create { name, spec, json } => {
            create(site, &name, &space_settings::spec(&*spec), json).await?;
        }
        SpaceCommand::List { json } => show::list(&site.spaces().await?, json)?,
        SpaceCommand::Show { name, json } => show::show(&site.space(&name).await?, json)?,
        SpaceCommand::Set { name, settings, json } => {
            set::run(site, &name, &settings, json).await?;
        }
        SpaceCommand::Grow { name, length } => {
            let before = site.space(&name).await?.capacity.get();
            let grown = site.grow(&name, length).await?;
            let after = grown.capacity.get();
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
            let flags = AdvanceFlags { to, inputs_again, ignore_longer };
            advance::run(site, &name, flags, beyond_keys.as_deref(), yes).await?;
        }
        SpaceCommand::Export { name, for_store, seal, replace_target } => {
            moving::export(site, &name, &for_store, seal, replace_target).await?;
        }
        SpaceCommand::Import { file } => moving::import(site, &file).await?,
        SpaceCommand::ImportUsed { name, file } => {
            return super::import::run(site, &name, &file, ImportInto::Used).await;
        }
        SpaceCommand::Bounds { name, from, to, json } => {
            let bounds = site.bounds(&name, from, to).await?;
            let (Some(first), Some(last)) = (&bounds.first, &bounds.last) else {
                bail!("`{name}` has no keys from {from} to {to}");
            };
            if json {
                println!("{}", serde_json::to_string_pretty(&bounds)?);
            } else {
                println!("first  {first}\nlast   {last}");
            }
        }
        SpaceCommand::Seal { name, yes } => {
            site.space(&name).await?;
            let question = format!("Seal `{name}` for good? It will hand out no more keys.");
            if !yes && !confirmed(&question)? {
                bail!("not sealed");
            }
            site.seal(&name).await?;
            note!(
                "keymill: `{name}` is sealed; it hands out no more keys, and running instances stop within a heartbeat"
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn create(site: &Site, name: &str, wanted: &SpaceSpec, json: bool) -> anyhow::Result<()> {
    usage(check_name(name))?;
    usage(set::check(wanted))?;
    usage(wanted.definition().check())?;
    let ensured = match site.ensure_space(name, wanted).await {
        Err(error) if code_of(&error) == Some("different_definition") => {
            return Err(set::different(name, wanted, &error));
        }
        Err(error) if code_of(&error) == Some("bad_definition") => {
            // An alphabet that is probably misspelt is refused only if the keyspace is new.
            usage(wanted.definition().check_spelling())?;
            return Err(error);
        }
        ensured => ensured?,
    };
    if !ensured.made {
        let unchanged = format!("the keyspace `{name}` already exists with the same settings");
        set::told(name, ensured.tuned, &unchanged);
    }
    show::show(&ensured.space, json)
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
