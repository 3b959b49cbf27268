//! `keymill serve`: greet, serve, and end in order.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::{check_safety, open_store, refuse_forgotten, start_log};
use crate::config::Config;
use crate::front::http::Http;
use crate::pace::Retry;
use crate::server;
use crate::service::{Service, ServiceError};
use crate::store::{Opening, SpaceRecord};

/// How long to wait for a store that does not answer at the start.
const STORE_TIME_MAX: Duration = Duration::from_secs(30);
/// How many keyspaces the greeting names.
const GREETED_MAX: usize = 8;

pub(super) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    start_log(&config)?;
    // Before the socket is open, so that no connection is lost to a low limit.
    let open_files = rlimit::increase_nofile_limit(u64::MAX).unwrap_or(0);
    let mut limits = config.server;
    let spare = usize::try_from(open_files).unwrap_or(usize::MAX).saturating_sub(64).max(16);
    limits.connections_max = limits.connections_max.min(spare);
    let listener = TcpListener::bind(config.listen).await.with_context(|| {
        format!("cannot listen on {}; choose another address with --listen", config.listen)
    })?;
    let address = listener.local_addr()?;
    let (service, records) = start_patiently(&config).await?;
    let http = Http::new(service.clone(), &config.default_space, config.body_max);
    let stop = stop_signal()?;
    service.announce(address.to_string());
    eprintln!("{}", greeting(&service, &records, &config.default_space, address));
    server::run(listener, http, limits, stop).await?;
    service.stop(limits.drain_time_max).await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Starts the service; where the store does not answer yet, tries again for a time. Machines that
/// start together need no order.
async fn start_patiently(config: &Config) -> anyhow::Result<(Service, Vec<SpaceRecord>)> {
    let deadline = Instant::now() + STORE_TIME_MAX;
    let mut retry = Retry::default();
    loop {
        let error = match start(config).await {
            Ok(started) => return Ok(started),
            Err(error) => error,
        };
        let away = matches!(error.downcast_ref(), Some(ServiceError::StoreUnavailable(_)));
        if !away || Instant::now() > deadline {
            return Err(error);
        }
        tracing::warn!("{error}; trying again for up to {STORE_TIME_MAX:?}");
        retry.again(false);
        sleep_until(retry.at.expect("just set")).await;
    }
}

async fn start(config: &Config) -> anyhow::Result<(Service, Vec<SpaceRecord>)> {
    let allow_unsafe = config.allow_unsafe_store;
    let store = open_store(config, Opening { allow_unsafe, ..Opening::default() }).await?;
    refuse_forgotten(config, &*store).await?;
    if config.new_store && !store.place().created {
        tracing::warn!(
            "--new-store is for the first start, and this store is there already: leave it out, or a \
             store that is lost later is not noticed"
        );
    }
    let unsafe_store = check_safety(&*store, allow_unsafe).await?;
    let mut spaces = config.spaces.clone();
    if spaces.is_empty() {
        spaces.insert(config.default_space.clone(), Default::default());
    }
    let service = Service::start(config.setup(store, unsafe_store)).await?;
    for (name, wanted) in &spaces {
        service.ensure_space(name, wanted).await?;
    }
    let reports = service.reports().await?;
    Ok((service, reports.into_iter().map(|report| report.record).collect()))
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
        let shape = &record.definition;
        let leased = record.leased();
        line(
            "keyspace",
            format!(
                "{}: {} {}×{}, {leased} of {} keys leased",
                record.name, shape.kind, shape.alphabet, shape.length, record.capacity
            ),
        );
    }
    if records.len() > GREETED_MAX {
        line("", format!("and {} more; see `keymill space list`", records.len() - GREETED_MAX));
    }
    if service.master().is_made_up() {
        line(
            "secret",
            "made at first start, kept in the store; see `keymill secret export`".to_owned(),
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

/// Resolves at the first SIGTERM or Ctrl-C. A second one ends the process at once: what it
/// held becomes a gap.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        eprintln!(
            "stopping: answering what is under way and giving leases back (again to quit now)"
        );
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(130);
        });
    })
}
