//! The command line: parse, do, and end with a code that scripts can use.
//!
//! Data goes to standard output, everything else to standard error.

mod alias;
mod args;
mod audit;
mod config;
mod explain;
mod import;
mod pool;
mod secret;
mod serve;
mod space;
mod store;
mod take;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory, Parser};
use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};
use crate::service::{Service, ServiceError};
use crate::store::{Finding, Opening, Store, StoreError, Verdict};
use args::{Args, Command};

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let args = Args::parse();
    // One thread for everything that is not answering requests: those have their own.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    let code = match runtime.block_on(run(args)) {
        Ok(code) => code,
        Err(error) => fail(&error),
    };
    // A stop is bounded in time, whatever a blocking call of its own still waits for.
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

async fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Command::Completions { shell } = args.command {
        clap_complete::generate(shell, &mut Args::command(), "keymill", &mut io::stdout());
        return Ok(ExitCode::SUCCESS);
    }
    let flags = args.flags();
    if let Command::Config(command) = args.command {
        return config::run(&command, &flags);
    }
    let config = Config::load(&flags)?;
    match args.command {
        Command::Serve { .. } => serve::run(config).await,
        Command::Take { space, count, caller } => take::run(config, space, count, caller).await,
        Command::Explain { space, key, json } => explain::run(config, &space, &key, json).await,
        Command::Space(command) => space::run(config, command).await,
        Command::Alias(command) => alias::run(config, command).await,
        Command::Pool(command) => pool::run(config, command).await,
        Command::Audit(command) => audit::run(config, command).await,
        Command::Store(command) => store::run(config, command).await,
        Command::Secret(command) => secret::run(config, command).await,
        Command::Config(_) | Command::Completions { .. } => unreachable!("handled above"),
    }
}

/// Says what went wrong, and tells scripts apart what they may want to tell apart.
fn fail(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    eprintln!("keymill: {error:#}");
    let code = match error.downcast_ref::<ServiceError>() {
        Some(
            ServiceError::Exhausted { .. }
            | ServiceError::PoolEmpty { .. }
            | ServiceError::Sealed(_),
        ) => 4,
        Some(ServiceError::Taken { .. }) => 6,
        Some(ServiceError::WentBack(_)) => 5,
        Some(
            ServiceError::StoreUnavailable(_)
            | ServiceError::Dry { .. }
            | ServiceError::NoWorker(_)
            | ServiceError::PoolFilling { .. },
        ) => 3,
        _ => 1,
    };
    ExitCode::from(code)
}

/// Whoever read our output, such as `head`, has had enough: not a failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn start_log(config: &Config) -> anyhow::Result<()> {
    // What the migrations find to do is said by `store migrate`.
    let quiet = "refinery_core=warn".parse().expect("a directive");
    let filter = EnvFilter::try_new(&config.log_level)?.add_directive(quiet);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match config.log_format {
        LogFormat::Text => {
            use io::IsTerminal;
            log.with_target(false).with_ansi(io::stderr().is_terminal()).init();
        }
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}

/// Opens the store that the settings name, making its folder where it is ours to make. What only
/// reads may do so from an unsafe store.
async fn open_store(config: &Config, opening: Opening) -> anyhow::Result<Arc<dyn Store>> {
    let data_dir = &config.data_dir;
    // For its owner alone: the secret may be kept in it.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(data_dir);
    made.with_context(|| {
        format!("cannot make the data directory {}; set --data-dir", data_dir.display())
    })?;
    let existing = config.require_existing;
    let secret_given = config.secret.is_some() && !config.new_store && !existing;
    let create = opening.create && !existing && !secret_given;
    let opening = Opening { create, secret_given, ..opening };
    let opened = crate::store::open(&config.store, opening).await;
    Ok(opened.map_err(ServiceError::from)?)
}

/// Starts a service for a command that does not serve.
async fn open_service(config: &Config, allow_unsafe: bool) -> anyhow::Result<Service> {
    let store = open_store(config, Opening { allow_unsafe, ..Opening::default() }).await?;
    refuse_forgotten(config, &*store).await?;
    Ok(Service::start(config.setup(store, None)).await?)
}

/// Refuses a store without a keyspace where the secret is given from outside: it may be one that was
/// emptied, or whose schema was made anew after it was lost.
async fn refuse_forgotten(config: &Config, store: &dyn Store) -> anyhow::Result<()> {
    let secret_given = config.secret.is_some() && !config.new_store;
    if secret_given && store.spaces().await.map_err(ServiceError::from)?.is_empty() {
        let opening = Opening { secret_given, ..Opening::default() };
        let error = StoreError::empty(&store.place().location, opening);
        return Err(ServiceError::from(error).into());
    }
    Ok(())
}

/// Refuses a store that may lose what it has granted, unless that is allowed. Returns what is
/// unsafe about one that is, and writes what else should be otherwise to the log.
async fn check_safety(store: &dyn Store, allow: bool) -> anyhow::Result<Option<String>> {
    let findings = store.check().await.map_err(ServiceError::from)?;
    for finding in findings.iter().filter(|finding| finding.verdict == Verdict::Warning) {
        tracing::warn!("{}", finding.in_words());
    }
    match Finding::unsafe_ones(&findings) {
        Some(reasons) if !allow => {
            Err(ServiceError::from(StoreError::unsafe_store(&reasons)).into())
        }
        reasons => Ok(reasons),
    }
}
