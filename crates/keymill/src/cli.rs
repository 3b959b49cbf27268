//! The command line: parse, do, and end with a code that scripts can use.
//!
//! Data goes to standard output, everything else to standard error.

// First, because the others print with its macros.
#[macro_use]
mod output;

mod alias;
mod args;
mod audit;
mod config;
mod digest;
mod explain;
mod figures;
mod import;
mod log;
mod man;
mod pool;
mod progress;
mod reload;
mod secret;
mod serve;
mod space;
mod space_args;
mod store;
mod take;
mod unknown;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory, Parser};
use keymill_engine::operations::{Service, ServiceError};
use keymill_engine::store::{Finding, Opening, Store};

use crate::config::{self as settings, Config, SecretUse, WrongUsage};
use args::{AliasCommand, Args, Command, ConfigCommand, SpaceCommand};

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(mut told) => {
            args::suggest(&mut told);
            return output::end_parsing(&told);
        }
    };
    // One thread for everything that is not answering requests: those have their own.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    let code = match runtime.block_on(run(args)) {
        Ok(code) => output::end(code),
        Err(error) if output::caused(&error) => output::end(ExitCode::SUCCESS),
        Err(error) => fail(&error),
    };
    // A stop is bounded in time, whatever a blocking call of its own still waits for.
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

async fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Command::Completions { shell } = args.command {
        // Into memory first: it panics where it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Args::command(), "keymill", &mut script);
        print!("{}", String::from_utf8_lossy(&script));
        return Ok(ExitCode::SUCCESS);
    }
    if let Command::Man { dir } = &args.command {
        return man::run(dir.as_deref());
    }
    if args.quiet {
        output::be_quiet();
    }
    let mut flags = args.flags();
    flags.secret_use = secret_use(&args.command);
    if let Command::Config(command) = args.command {
        return config::run(&command, &flags);
    }
    if matches!(args.command, Command::Serve { .. }) {
        // Before anything can fail: whoever reads JSON reads errors as JSON.
        let log = log::start(settings::log_format(&flags));
        return serve::run(Config::load(&flags)?, flags, log).await;
    }
    let config = Config::load(&flags)?;
    match args.command {
        Command::Take { space, count, caller, json } => {
            take::run(config, space, count, caller, json).await
        }
        Command::Explain { space, key, json } => explain::run(config, &space, &key, json).await,
        Command::Space(command) => space::run(config, command).await,
        Command::Alias(command) => alias::run(config, command).await,
        Command::Pool(command) => pool::run(config, command).await,
        Command::Audit(command) => audit::run(config, command).await,
        Command::Store(command) => store::run(config, command).await,
        Command::Secret(command) => secret::run(config, command).await,
        Command::Digest(args) => digest::run(config, args).await,
        Command::Serve { .. }
        | Command::Config(_)
        | Command::Completions { .. }
        | Command::Man { .. } => {
            unreachable!("handled above")
        }
    }
}

/// What a command does with the secret. Only what makes keys, or turns keys into numbers, needs it: what
/// reads records or changes settings can be run by somebody who may not know it.
fn secret_use(command: &Command) -> SecretUse {
    match command {
        Command::Store(_) | Command::Secret(_) | Command::Audit(_) => SecretUse::Unneeded,
        Command::Config(ConfigCommand::Show { .. }) => SecretUse::Unneeded,
        Command::Alias(AliasCommand::List { .. }) => SecretUse::Unneeded,
        Command::Space(
            SpaceCommand::List { .. }
            | SpaceCommand::Show { .. }
            | SpaceCommand::Set { .. }
            | SpaceCommand::Seal { .. },
        ) => SecretUse::Unneeded,
        // The keyspace tells: shuffled keys need it, sequential ones do not.
        Command::Explain { .. }
        | Command::Alias(AliasCommand::Show { .. })
        | Command::Space(SpaceCommand::Bounds { .. }) => SecretUse::IfGiven,
        _ => SecretUse::Needed,
    }
}

/// Turns the refusal of an argument into wrong usage.
fn usage<T>(checked: Result<T, impl std::fmt::Display>) -> anyhow::Result<T> {
    checked.map_err(|problem| WrongUsage(problem.to_string()).into())
}

/// Says what went wrong, and tells scripts apart what they may want to tell apart.
fn fail(error: &anyhow::Error) -> ExitCode {
    log::say_failure(&format!("{error:#}"));
    if error.is::<WrongUsage>() {
        return ExitCode::from(2);
    }
    let code = match error.downcast_ref::<ServiceError>() {
        Some(
            ServiceError::BadCount { .. }
            | ServiceError::BadCaller { .. }
            | ServiceError::BadOwner { .. },
        ) => 2,
        Some(
            ServiceError::Exhausted { .. }
            | ServiceError::PoolEmpty { .. }
            | ServiceError::Sealed(_),
        ) => 4,
        Some(ServiceError::Taken { .. }) => 6,
        Some(ServiceError::RolledBack(_)) => 5,
        Some(
            ServiceError::StoreUnavailable(_)
            | ServiceError::NoKeysReady { .. }
            | ServiceError::NoWorker(_)
            | ServiceError::PoolFilling { .. },
        ) => 3,
        _ => 1,
    };
    ExitCode::from(code)
}

/// Opens the store that the settings name, making its folder where it is ours to make. What only
/// reads may do so from an unsafe store.
async fn open_store(config: &Config, opening: Opening) -> anyhow::Result<Store> {
    let data_dir = &config.data_dir;
    // For its owner alone: the secret may be kept in it.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(data_dir);
    made.with_context(|| {
        format!("cannot make the data directory {}; set --data-dir", data_dir.display())
    })?;
    let existing = config.require_existing;
    let secret_given = config.secret_given && !config.new_store && !existing;
    let create = opening.create && !existing && !secret_given;
    let opening = Opening { create, secret_given, ..opening };
    let opened = keymill_engine::store::open(&config.store, opening).await;
    Ok(opened.map_err(ServiceError::from)?)
}

/// Starts a service for a command that does not serve.
async fn open_service(config: &Config, allow_unsafe: bool) -> anyhow::Result<Service> {
    let store = open_store(config, Opening { allow_unsafe, ..Opening::default() }).await?;
    refuse_forgotten(config, &store).await?;
    let setup = config.setup(store, None);
    Ok(match config.secret_use {
        SecretUse::Needed => Service::start(setup).await?,
        SecretUse::IfGiven | SecretUse::Unneeded => Service::start_to_read(setup).await?,
    })
}

/// Refuses a store without a keyspace where the secret is given from outside: it may be one that was
/// emptied, or whose schema was made anew after it was lost.
async fn refuse_forgotten(config: &Config, store: &Store) -> anyhow::Result<()> {
    if config.secret_given && !config.new_store {
        keymill_engine::store::refuse_forgotten(store).await.map_err(ServiceError::from)?;
    }
    Ok(())
}

/// Refuses a store that may lose what it has granted, unless that is allowed. Returns what is
/// unsafe about one that is, and writes what else should be otherwise to the log.
fn check_safety(findings: &[Finding], allow: bool) -> anyhow::Result<Option<String>> {
    let checked = keymill_engine::store::check_safety(findings, allow);
    Ok(checked.map_err(ServiceError::from)?)
}
