//! A URL shortener on keymill: short links that cannot repeat, with or without a name of the user's choice.
//!
//! `web` answers requests. It takes keys from keymill (`keys`), keeps links in a database (`links`), and asks
//! `target` which URLs may be shortened and `user` who is asking. `patience` bridges restarts of either server.

mod keys;
mod links;
mod patience;
mod problem;
mod settings;
mod target;
mod user;
mod web;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing_subscriber::EnvFilter;

use crate::keys::Keys;
use crate::links::Links;
use crate::settings::Settings;
use crate::web::App;

/// How long requests may take after the signal to stop.
const STOP_TIME_MAX: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    log.with_ansi(std::io::stderr().is_terminal()).init();
    match run(Settings::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shortener: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(settings: Settings) -> anyhow::Result<()> {
    let bound = TcpListener::bind(settings.listen).await;
    let listener = bound.with_context(|| format!("cannot listen on {}", settings.listen))?;
    let address = listener.local_addr()?;
    let public_url = settings.public_url(address)?;
    let keys = Keys::new(&settings).context("the settings for keymill cannot be used")?;
    let links = Links::open(&settings.links, settings.patience()).await;
    let links = links.context("the database of links cannot be opened")?;
    eprintln!("shortener {}", env!("CARGO_PKG_VERSION"));
    eprintln!("  listening  http://{address}");
    eprintln!("  links      {public_url}…");
    let app = App { keys, links, public_url, settings };
    serve(listener, web::router(app)).await
}

/// Serves until SIGTERM or Ctrl-C, then finishes the requests that are under way.
async fn serve(listener: TcpListener, router: axum::Router) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (stop, stopped) = oneshot::channel::<()>();
    let server =
        axum::serve(listener, router).with_graceful_shutdown(async { drop(stopped.await) });
    let server = tokio::spawn(server.into_future());
    tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => {} }
    tracing::info!("finishing requests");
    drop(stop);
    if timeout(STOP_TIME_MAX, server).await.is_err() {
        tracing::warn!("some requests were not finished within {STOP_TIME_MAX:?}");
    }
    Ok(())
}
