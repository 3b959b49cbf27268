//! `keymill serve`: greet, serve, reload on SIGHUP, and stop in order.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use keymill_engine::operations::{Opening, Service, ServiceError, SpaceRecord};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

use super::greeting::{self, Reached};
use super::log::{self, Log};
use super::notify::{self, Phase};
use super::reload::{Applied, Reload};
use super::{access, check_safety, create_missing, open_store, refuse_forgotten};
use crate::access::Access;
use crate::config::{Config, Flags, config_file};
use crate::front::http::Http;
use crate::server::{self, ADMIN_CONNECTIONS_MAX, BindError, Endpoint, Listeners, RESERVE, Tls};

/// How long to wait for a store that does not answer at the start.
const STORE_TIME_MAX: Duration = Duration::from_secs(30);
/// The pause before the next attempt: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Files that are open besides connections: the store's, the log's, the listeners.
const OTHER_FILES: usize = 64;

pub(super) async fn run(config: Config, mut flags: Flags, log: Log) -> anyhow::Result<ExitCode> {
    log.set_level(&config.log_level)?;
    #[cfg(feature = "otel")]
    let traces = log.traces.clone();
    let started = Applied::of(&config);
    // From here on, SIGHUP does not end the process; it is handled once the server is up.
    let hangup = signal(SignalKind::hangup())?;
    // Before the socket is opened, so that no connection fails because of a low limit.
    let open_files = rlimit::increase_nofile_limit(u64::MAX).unwrap_or(0);
    let mut limits = config.server;
    let spare = usize::try_from(open_files).unwrap_or(usize::MAX);
    let of_admin = config.admin_listen.as_ref().map_or(0, |_| ADMIN_CONNECTIONS_MAX + RESERVE);
    let spare = spare.saturating_sub(OTHER_FILES + RESERVE + of_admin).max(16);
    limits.connections_max = limits.connections_max.min(spare);
    let secret = config.secret_origin();
    let tls = config.tls.clone().map(Tls::load).transpose()?.map(Arc::new);
    let listeners = async {
        let http = Listeners::bind(&config.listen, config.admin_listen.as_ref()).await?;
        http.with_redis(&config.redis_listen).await
    };
    let listeners = listeners.await.map_err(|error| explain(error, &config))?;
    let listeners = listeners.with_tls(tls.clone());
    let access = Arc::new(Access::new(config.access.clone()));
    let open_port = access::OpenPort {
        endpoints: &[config.listen.as_slice(), &config.redis_listen].concat(),
        admin: config.admin_listen.as_ref(),
        is_allowed: config.insecure_no_auth,
    };
    if !store_exists(&config.store) {
        // There are no tokens in it, and a refused start leaves no store behind.
        open_port.refuse(&access)?;
    }
    let (service, records) = start_patiently(&config, &access).await?;
    open_port.refuse(&access)?;
    open_port.warn(&access);
    access::warn_of_no_tokens(&access.summary());
    let reached = Reached::new(&listeners, access.summary())?;
    let http = Http::new(service.clone(), &config.default_space, config.body_max)
        .with_unsent_max(config.unsent_max)
        .with_metrics_spaces_max(config.metrics_spaces_max)
        .with_access(access.clone());
    http.set_address_rules(config.address_rules);
    http.set_browser_rules(config.browser_rules);
    tokio::spawn(access::keep_up(access.clone(), service.clone(), config.limits.heartbeat_every));
    flags.config = config_file(&flags)?;
    let service_too = service.clone();
    if let Some(tls) = tls.clone() {
        tokio::spawn(tls.watch(http.clone()));
    }
    let reload =
        Reload { flags, started, log, http: http.clone(), service: service_too, access, tls };
    tokio::spawn(reload.run(hangup));
    let stop = stop_signal()?;
    service.announce(reached.address());
    greeting::greet(&service, &records, &config.default_space, secret.as_deref(), &reached);
    // Connections were accepted by the system since the listeners were bound.
    notify::tell(Phase::Ready);
    server::run(listeners, http, limits, stop).await?;
    service.stop(limits.drain_time_max).await;
    #[cfg(feature = "otel")]
    traces.finish().await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Starts the service. If the store does not answer yet, it tries again for a while, so that machines
/// may start in any order.
async fn start_patiently(
    config: &Config,
    access: &Access,
) -> anyhow::Result<(Service, Vec<SpaceRecord>)> {
    let deadline = Instant::now() + STORE_TIME_MAX;
    let mut pause = PAUSE_MIN;
    loop {
        let error = match start(config, access).await {
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

async fn start(config: &Config, access: &Access) -> anyhow::Result<(Service, Vec<SpaceRecord>)> {
    let allow_unsafe = config.allow_unsafe_store;
    let store = open_store(config, Opening { allow_unsafe, ..Opening::default() }).await?;
    refuse_forgotten(config, &store).await?;
    let findings = store.findings().await?;
    let unsafe_store = check_safety(&findings, allow_unsafe)?;
    let service = Service::start(config.setup(store, unsafe_store)).await?;
    // As long as there is no keyspace, the flag is still needed where the secret comes from outside.
    if config.new_store && !service.reports().await?.is_empty() {
        tracing::warn!(
            "--new-store is for the first start, but this store already has keyspaces; remove --new-store, or \
             a lost store would go unnoticed"
        );
    }
    for (name, wanted) in &config.spaces {
        service.ensure_space(name, wanted).await?;
    }
    if config.spaces.is_empty() {
        let name = &config.default_space;
        create_missing(config, &service, name).await?;
        match service.space(name).await {
            Err(ServiceError::UnknownSpace(_)) => tracing::warn!("{}", config.why_no_default()),
            found => drop(found?),
        }
    }
    let reports = service.reports().await?;
    access::learn(access, &service).await?;
    Ok((service, reports.into_iter().map(|report| report.record).collect()))
}

/// Whether there is a store, as far as that can be told without opening it: only a file is looked for.
fn store_exists(url: &str) -> bool {
    let Some(path) = url.strip_prefix("sqlite:") else { return true };
    let path = path.strip_prefix("//").unwrap_or(path);
    // One that cannot be looked at is told of when it is opened.
    !matches!(std::fs::metadata(path), Err(error) if error.kind() == std::io::ErrorKind::NotFound)
}

/// What to do about an address that cannot be listened on.
fn explain(error: BindError, config: &Config) -> anyhow::Error {
    let endpoint = error.endpoint.clone();
    let hint = match &endpoint {
        _ if config.redis_listen.contains(&endpoint) => {
            "; choose another address with --redis-listen"
        }
        _ if !config.listen.contains(&endpoint) => "; choose another address with --admin-listen",
        Endpoint::Tcp(_) => "; choose another port with --port, or another address with --listen",
        Endpoint::Unix(_) => "",
    };
    anyhow::Error::from(error.source).context(format!("cannot listen on {endpoint}{hint}"))
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
        notify::tell(Phase::Stopping);
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
