//! `keymill serve`: greet, serve, reload on SIGHUP, and stop in order.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use keymill_engine::operations::{Opening, Service, ServiceError, SpaceRecord};
use keymill_engine::space::secret::Master;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

use super::log::{self, Log};
use super::reload::Reload;
use super::space::show::in_words;
use super::{check_safety, open_store, refuse_forgotten};
use crate::config::{Config, Flags, config_file};
use crate::front::http::Http;
use crate::server;

/// How long to wait for a store that does not answer at the start.
const STORE_TIME_MAX: Duration = Duration::from_secs(30);
/// The pause before the next attempt: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How many keyspaces the greeting names.
const GREETED_MAX: usize = 8;

/// Files that are open besides connections: the store's, the log's, the listener.
const OTHER_FILES: usize = 64;

pub(super) async fn run(config: Config, mut flags: Flags, log: Log) -> anyhow::Result<ExitCode> {
    log.set_level(&config.log_level)?;
    // From here on, SIGHUP does not end the process; it is handled once the server is up.
    let hangup = signal(SignalKind::hangup())?;
    // Before the socket is opened, so that no connection fails because of a low limit.
    let open_files = rlimit::increase_nofile_limit(u64::MAX).unwrap_or(0);
    let mut limits = config.server;
    let spare = usize::try_from(open_files).unwrap_or(usize::MAX);
    let spare = spare.saturating_sub(OTHER_FILES + server::RESERVE).max(16);
    limits.connections_max = limits.connections_max.min(spare);
    let listener = TcpListener::bind(config.listen).await.with_context(|| {
        let address = config.listen;
        format!(
            "cannot listen on {address}; choose another port with --port, or another address with \
             --listen"
        )
    })?;
    let address = listener.local_addr()?;
    let (service, records) = start_patiently(&config).await?;
    let http = Http::new(service.clone(), &config.default_space, config.body_max)
        .with_unsent_max(config.unsent_max);
    http.set_address_rules(config.address_rules);
    flags.config = config_file(&flags)?;
    let (started, service_too) = (config.shown, service.clone());
    let reload = Reload { flags, started, log, http: http.clone(), service: service_too };
    tokio::spawn(reload.run(hangup));
    let stop = stop_signal()?;
    service.announce(address.to_string());
    greet(&service, &records, &config.default_space, address);
    server::run(listener, http, limits, stop).await?;
    service.stop(limits.drain_time_max).await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Starts the service. If the store does not answer yet, it tries again for a while, so that machines
/// may start in any order.
async fn start_patiently(config: &Config) -> anyhow::Result<(Service, Vec<SpaceRecord>)> {
    let deadline = Instant::now() + STORE_TIME_MAX;
    let mut pause = PAUSE_MIN;
    loop {
        let error = match start(config).await {
            Ok(started) => return Ok(started),
            Err(error) => error,
        };
        let unreachable = matches!(error.downcast_ref(), Some(ServiceError::StoreUnavailable(_)));
        if !unreachable || Instant::now() > deadline {
            return Err(error);
        }
        tracing::warn!("{error}; trying again for up to {STORE_TIME_MAX:?}");
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn start(config: &Config) -> anyhow::Result<(Service, Vec<SpaceRecord>)> {
    let allow_unsafe = config.allow_unsafe_store;
    let store = open_store(config, Opening { allow_unsafe, ..Opening::default() }).await?;
    refuse_forgotten(config, &store).await?;
    if config.new_store && !store.place().created {
        tracing::warn!(
            "--new-store is for the first start, but this store already exists; remove --new-store, or \
             a lost store would go unnoticed"
        );
    }
    let findings = store.findings().await?;
    let unsafe_store = check_safety(&findings, allow_unsafe)?;
    let service = Service::start(config.setup(store, unsafe_store)).await?;
    for (name, wanted) in &config.spaces {
        service.ensure_space(name, wanted).await?;
    }
    if config.spaces.is_empty() {
        let name = &config.default_space;
        match config.wanted_space(name) {
            Some(wanted) => drop(service.ensure_space(name, &wanted).await?),
            None => match service.space(name).await {
                Err(ServiceError::UnknownSpace(_)) => tracing::warn!("{}", config.why_no_default()),
                found => drop(found?),
            },
        }
    }
    let reports = service.reports().await?;
    Ok((service, reports.into_iter().map(|report| report.record).collect()))
}

/// Prints or logs that the server is up, and where.
fn greet(
    service: &Service,
    records: &[SpaceRecord],
    default_space: &str,
    address: std::net::SocketAddr,
) {
    if log::is_text() {
        note!("{}", greeting(service, records, default_space, address));
        return;
    }
    let place = service.place();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        store = place.location,
        kind = %place.kind,
        created = place.created,
        keyspaces = records.len(),
        url = format!("http://{address}"),
        "listening"
    );
}

fn greeting(
    service: &Service,
    records: &[SpaceRecord],
    default_space: &str,
    address: std::net::SocketAddr,
) -> String {
    let place = service.place();
    let how = if place.created { "created" } else { "opened" };
    let mut text = format!("keymill {}\n", env!("CARGO_PKG_VERSION"));
    let mut line = |name: &str, value: String| {
        writeln!(text, "  {name:<10} {value}").expect("writing to a String cannot fail");
    };
    line("store", format!("{} ({}, {how})", place.location, place.kind));
    for record in records.iter().take(GREETED_MAX) {
        line("keyspace", in_words(record));
    }
    if records.len() > GREETED_MAX {
        line("", format!("and {} more; see `keymill space list`", records.len() - GREETED_MAX));
    }
    if service.master().is_some_and(Master::is_made_up) {
        line(
            "secret",
            "created at the first start, kept in the store; see `keymill secret export`".to_owned(),
        );
    }
    line("listening", format!("http://{address}"));
    line("docs", format!("http://{address}/docs"));
    let mut curl = format!("curl http://{address}/get-key");
    if let [first, ..] = records
        && !records.iter().any(|record| record.name == default_space)
    {
        curl = format!("curl 'http://{address}/get-key?space={}'", first.name);
    }
    write!(text, "\n  {curl}\n").expect("writing to a String cannot fail");
    text
}

/// Resolves at the first SIGTERM or Ctrl-C. A second one ends the process at once, and the keys
/// that it held become a gap.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let farewell = "stopping: finishing requests and returning unused keys (repeat the signal to quit at once)";
        if log::is_text() {
            eprintln!("{farewell}");
        } else {
            tracing::info!("{farewell}");
        }
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(130);
        });
    })
}
