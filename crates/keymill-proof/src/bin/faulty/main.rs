//! `faulty`: a keymill with a fault, to show that the harness would notice one.
//!
//! It is started like `keymill serve`, greets like it, and is the same service and the same
//! HTTP front; only the store is wrapped (`early-grant`, `reclaim`, `endless-window`) or the way from
//! number to key replaced (`splitmix`). None of this is reachable from the production binary.

mod splitmix;
mod store;
mod windows;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use keymill::front::http::Http;
use keymill::server::{self, ServerLimits};
use keymill_core::Blocklist;
use keymill_engine::operations::{Limits, Service, Setup};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::store::FaultyStore;

#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve keys, some of them twice.
    Serve(Serve),
}

#[derive(Debug, clap::Args)]
struct Serve {
    /// Where to listen.
    #[arg(long)]
    listen: SocketAddr,
    /// The store's URL.
    #[arg(long)]
    store: String,
    /// The folder for the floors.
    #[arg(long)]
    data_dir: PathBuf,
    /// What to do wrong.
    #[arg(long)]
    fault: Fault,
}

/// What this server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// Uses a range before the store has recorded it.
    EarlyGrant,
    /// Takes a lease back from an instance that was not heard of for a second.
    Reclaim,
    /// Writes `splitmix64(n) % 62^7` instead of a permutation of n.
    Splitmix,
    /// Goes on with its worker after the window that the store has recorded is over.
    EndlessWindow,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Command::Serve(args) = Args::parse().command;
    std::fs::create_dir_all(&args.data_dir)?;
    let listener = TcpListener::bind(args.listen).await?;
    let address = listener.local_addr()?;
    let real = keymill_engine::internals::store::open(
        &args.store,
        keymill_engine::internals::store::Opening::default(),
    )
    .await?;
    let service = Service::start(Setup {
        store: match args.fault {
            Fault::Splitmix => real,
            fault => FaultyStore::over(real, fault),
        }
        .into(),
        data_dir: args.data_dir,
        secret: None,
        blocklist: Blocklist::none(),
        alias_rules: Default::default(),
        limits: Limits {
            // Often, so that who does not beat is soon missed.
            heartbeat_every: Duration::from_millis(100),
            ..Limits::default()
        },
        require_existing: false,
        worker: None,
        clock: Default::default(),
        unsafe_store: None,
    })
    .await?;
    service.announce(address.to_string());
    let greet = || eprintln!("faulty: {:?}\n  listening  http://{address}", args.fault);
    if args.fault == Fault::Splitmix {
        return splitmix::run(&service, listener, greet).await;
    }
    greet();
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async move {
        terminate.recv().await;
    };
    let http = Http::new(service.clone(), "default", 64 << 10);
    let limits = ServerLimits::default();
    server::run(listener, http, limits, stop).await?;
    service.stop(limits.drain_time_max).await;
    Ok(())
}
