//! The command line: parse, do, and end with a code that scripts can use.
//!
//! Data goes to standard output, everything else to standard error.

// First, because the others print with its macros.
#[macro_use]
mod output;

mod access;
mod alias;
mod args;
mod audit;
mod bench;
mod config;
mod digest;
mod explain;
mod figures;
mod greeting;
mod health;
mod import;
mod log;
mod man;
mod notify;
mod pool;
mod progress;
mod reload;
mod secret;
mod serve;
mod site;
mod space;
mod store;
mod take;
mod token;
#[cfg(feature = "otel")]
mod traces;
mod unknown;
mod values;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory, Parser};
use keymill_engine::operations::{Finding, OpenedStore, Opening, Service, ServiceError};

use crate::config::{self as settings, Config, Remote, SecretUse, WrongUsage};
use alias::AliasCommand;
use args::{Args, Command};
use pool::PoolCommand;
use site::{Via, refusal};
use space::args::SpaceCommand;
use store::StoreCommand;
use token::TokenCommand;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(mut told) => {
            args::suggest(&mut told);
            return output::end_parsing(&told);
        }
    };
    // One thread for everything but requests, which are answered on threads of their own.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    let code = match runtime.block_on(run(args)) {
        Ok(code) => output::end(code),
        Err(error) if output::caused(&error) => output::end(ExitCode::SUCCESS),
        Err(error) => fail(&error),
    };
    // The stop is bounded in time, even if a blocking call is still waiting.
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

async fn run(args: Args) -> anyhow::Result<ExitCode> {
    refuse_server(&args)?;
    if let Command::Completions { shell } = args.command {
        // Into memory first, because clap panics if it cannot write.
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
    if let Command::Token(TokenCommand::Generate(args)) = args.command {
        // Before the settings are read: they may lack the very token that is made for them.
        return token::generate::run(args);
    }
    let mut flags = args.flags();
    if let Command::Bench(args) = args.command {
        return bench::run(*args, flags).await;
    }
    if let Command::Health { live } = args.command {
        return health::run(&flags, live).await;
    }
    flags.secret_use = secret_use(&args.command);
    if let Command::Config(command) = args.command {
        return config::run(&command, &flags);
    }
    if matches!(args.command, Command::Serve { .. }) {
        // Before anything can fail, so that errors are JSON as well if the log is.
        let log = log::start(settings::log_format(&flags));
        return serve::run(Config::load(&flags)?, flags, log).await;
    }
    if let Some(remote) = Remote::load(&flags)? {
        if let Some(server) = remote.readable_token() {
            eprintln!(
                "keymill: the token is sent to {server} without TLS, so the network can read it; use https://"
            );
        }
        return run_command(args.command, &Via::Server(remote)).await;
    }
    if Remote::in_environment().is_some() {
        note!(
            "keymill: working on a store, as --store or --data-dir says, not through KEYMILL_SERVER"
        );
    }
    let mut config = Config::load(&flags)?;
    config.creates_store = creates_store(&args.command, &config);
    let unread = config.secret_unread.take();
    let ran = run_command(args.command, &Via::Store(Box::new(config))).await;
    // Where the secret was needed after all, what kept it from being read is the reason of the failure.
    ran.map_err(|error| {
        let needed = matches!(
            error.downcast_ref(),
            Some(ServiceError::SecretMissing { .. } | ServiceError::WrongSecret { .. })
        );
        unread.filter(|_| needed).unwrap_or(error)
    })
}

/// Runs a command that does one thing, and ends.
async fn run_command(command: Command, via: &Via) -> anyhow::Result<ExitCode> {
    match command {
        Command::Take { space, count, caller, json } => {
            take::run(via, space, count, caller, json).await
        }
        Command::Explain { space, key, json } => explain::run(via, &space, &key, json).await,
        Command::Space(command) => space::run(via, command).await,
        Command::Alias(command) => alias::run(via, command).await,
        Command::Pool(command) => pool::run(via, command).await,
        Command::Audit(command) => audit::run(via, command).await,
        Command::Store(command) => store::run(via, command).await,
        Command::Secret(command) => secret::run(via.config()?, command).await,
        Command::Digest(args) => digest::run(via, args).await,
        Command::Token(command) => token::run(via, command).await,
        Command::Serve { .. }
        | Command::Bench(_)
        | Command::Config(_)
        | Command::Health { .. }
        | Command::Completions { .. }
        | Command::Man { .. } => {
            unreachable!("handled above")
        }
    }
}

/// Refuses a server for a command that cannot work through one. The variable is refused only where somebody could
/// take the store here for the server's.
fn refuse_server(args: &Args) -> anyhow::Result<()> {
    let (why, is_about_store) = match &args.command {
        Command::Serve { .. } => ("`serve` is itself the server", false),
        Command::Config(_) => ("`config` reads the settings on this machine", false),
        Command::Bench(_) => ("`bench` takes the URLs of servers as arguments", false),
        Command::Completions { .. } | Command::Man { .. } => {
            ("completions and manuals come with this program", false)
        }
        Command::Token(TokenCommand::Generate(_)) => (
            "`token generate` makes a token for a settings file; `token create` works through a server",
            false,
        ),
        Command::Store(StoreCommand::Migrate) => {
            ("`store migrate` changes the schema, for which it needs the database itself", true)
        }
        Command::Store(StoreCommand::Backup { .. }) => {
            ("`store backup` copies the file of the database", true)
        }
        Command::Secret(_) => ("the secret never goes through a server", true),
        _ => return Ok(()),
    };
    let beside = if is_about_store { "; run it where the store can be opened, and" } else { ";" };
    let flags = args.flags();
    let names_store = flags.store.is_some() || flags.data_dir.is_some();
    let problem = match flags.server {
        Some(_) => format!("{why}{beside} leave out --server"),
        None if is_about_store && !names_store && Remote::in_environment().is_some() => {
            format!("{why}{beside} unset KEYMILL_SERVER")
        }
        None => return Ok(()),
    };
    Err(WrongUsage(problem).into())
}

/// How a command uses the secret. Only commands that make keys, or turn keys into numbers, need it; those
/// that read records or change settings can be run by users who may not know it.
fn secret_use(command: &Command) -> SecretUse {
    match command {
        Command::Store(_) | Command::Secret(_) | Command::Audit(_) | Command::Token(_) => {
            SecretUse::Unneeded
        }
        Command::Config(config::ConfigCommand::Show { .. }) => SecretUse::Unneeded,
        Command::Alias(AliasCommand::List { .. } | AliasCommand::Show { .. })
        | Command::Pool(PoolCommand::Export { .. }) => SecretUse::Unneeded,
        Command::Space(
            SpaceCommand::List { .. }
            | SpaceCommand::Show { .. }
            | SpaceCommand::Set { .. }
            | SpaceCommand::Seal { .. },
        ) => SecretUse::Unneeded,
        // It depends on the keyspace: shuffled keys need it, sequential ones do not.
        Command::Explain { .. } | Command::Space(SpaceCommand::Bounds { .. }) => SecretUse::IfGiven,
        _ => SecretUse::Needed,
    }
}

/// Whether a command creates the store if there is none. The others have nothing to do in a new one: for them, a path
/// that was mistyped must not become a store.
fn creates_store(command: &Command, config: &Config) -> bool {
    match command {
        Command::Serve { .. } => true,
        Command::Take { space, .. } => {
            let name = space.as_ref().unwrap_or(&config.default_space);
            // Without --new-store, it is told why a store with a secret from outside is not created.
            let is_told = *name == config.default_space && !config.new_store;
            is_told || config.wanted_space(name).is_some()
        }
        Command::Digest(args) => config.spaces.contains_key(&args.space),
        Command::Store(StoreCommand::Migrate) => true,
        // An export names its target, which may be empty as yet.
        Command::Store(StoreCommand::Identity) => config.new_store,
        Command::Store(_) => false,
        Command::Space(command) => {
            matches!(command, SpaceCommand::Create { .. } | SpaceCommand::Import { .. })
        }
        Command::Token(command) => matches!(command, TokenCommand::Create { .. }),
        _ => false,
    }
}

/// Turns the refusal of an argument into wrong usage.
fn usage<T>(checked: Result<T, impl std::fmt::Display>) -> anyhow::Result<T> {
    checked.map_err(|problem| WrongUsage(problem.to_string()).into())
}

/// Prints what went wrong, and returns an exit code by which scripts can tell failures apart.
fn fail(error: &anyhow::Error) -> ExitCode {
    log::say_failure(&format!("{error:#}"));
    ExitCode::from(refusal::exit_code(error))
}

/// Opens the store that the settings name, and creates the data directory if it is missing. Commands
/// that only read may use an unsafe store.
async fn open_store(config: &Config, opening: Opening) -> anyhow::Result<OpenedStore> {
    let (existing, existing_only) = (config.require_existing, !config.creates_store);
    let secret_given = config.secret_given && !config.new_store && !existing;
    let create = opening.create && !existing && !existing_only && !secret_given;
    let opening = Opening { create, secret_given, existing_only, ..opening };
    if create {
        make_data_dir(config)?;
    }
    let opened = OpenedStore::open(&config.store, opening).await;
    let store =
        opened.map_err(|error| with_origin(config, error, secret_given && !existing_only))?;
    // Not before the store was found: the folder may have been mistyped.
    make_data_dir(config)?;
    Ok(store)
}

/// Makes the data directory, for its owner alone, because it may hold the secret.
fn make_data_dir(config: &Config) -> anyhow::Result<()> {
    let data_dir = &config.data_dir;
    let made = DirBuilder::new().recursive(true).mode(0o700).create(data_dir);
    made.with_context(|| {
        format!("cannot create the data directory {}; set --data-dir", data_dir.display())
    })
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

/// Creates a keyspace of the settings, or the default one, if it is missing; whether it was. One of the settings must
/// be as they say. The default one is used as it is, of whatever kind.
async fn create_missing(config: &Config, service: &Service, name: &str) -> anyhow::Result<bool> {
    let Some(wanted) = config.wanted_space(name) else { return Ok(false) };
    let is_there = !config.spaces.contains_key(name)
        && !matches!(service.space(name).await, Err(ServiceError::UnknownSpace(_)));
    Ok(!is_there && service.ensure_space(name, &wanted).await?.made)
}

/// Refuses a store without keyspaces if the secret comes from outside it: the store may have been
/// emptied, or lost and created again.
async fn refuse_forgotten(config: &Config, store: &OpenedStore) -> anyhow::Result<()> {
    if config.secret_given && !config.new_store {
        let refused = store.refuse_forgotten().await;
        refused.map_err(|error| with_origin(config, error, true))?;
    }
    Ok(())
}

/// A refusal of a store because of the secret from outside it, with where that comes from.
fn with_origin(config: &Config, error: ServiceError, secret_given: bool) -> anyhow::Error {
    match (&error, config.secret_origin()) {
        (ServiceError::Broken(_), Some(origin)) if secret_given => {
            anyhow::Error::from(error).context(format!("the secret comes {origin}"))
        }
        _ => error.into(),
    }
}

/// Refuses an unsafe store, unless that is allowed: then it returns what is unsafe about it. Warnings
/// are written to the log.
fn check_safety(findings: &[Finding], allow: bool) -> anyhow::Result<Option<String>> {
    Ok(OpenedStore::check_safety(findings, allow)?)
}
