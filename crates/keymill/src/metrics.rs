//! Metrics: counted where things happen, gathered when somebody asks.
//!
//! The fronts count their answers here (`requests`); everything about keyspaces and the store is read from the service at
//! the moment of the scrape (`families`), and written in one of two formats (`text`). No scrape asks the store.

mod families;
mod process;
mod requests;
mod text;
pub mod tls;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::StatusCode;
use keymill_engine::operations::Service;

use self::requests::Requests;
pub use self::requests::{Protocol, Route};
pub use self::text::Format;
use self::tls::TlsFigures;

/// How many keyspaces have series of their own where nothing else is set.
pub const SPACES_MAX: usize = 1_000;

/// What this instance counts.
#[derive(Debug)]
pub struct Metrics {
    service: Service,
    requests: Requests,
    connections_refused: [AtomicU64; Refusal::ALL.len()],
    /// How many keyspaces have series of their own.
    spaces_max: usize,
    /// Everything about TLS.
    pub tls: TlsFigures,
}

/// Which limit a connection was beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// `connections_max`: only health checks and metrics were answered.
    Full,
    /// `connections_per_address_max`
    Address,
}

impl Refusal {
    const ALL: [(Refusal, &'static str); 2] =
        [(Refusal::Full, "full"), (Refusal::Address, "address")];
}

impl Metrics {
    /// Metrics of one instance, of which so many keyspaces have series of their own.
    pub fn new(service: Service, spaces_max: usize) -> Metrics {
        Metrics {
            service,
            requests: Requests::default(),
            connections_refused: Default::default(),
            spaces_max,
            tls: TlsFigures::default(),
        }
    }

    /// Counts a connection beyond a limit.
    pub fn count_refused(&self, refusal: Refusal) {
        self.connections_refused[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an answer that took so long.
    #[inline]
    pub fn count(&self, of: (Protocol, Route), status: StatusCode, took: Duration) {
        self.requests.count(of, status, took, 1);
    }

    /// Counts answers that were made together, for requests that came together.
    #[inline]
    pub fn count_many(
        &self,
        of: (Protocol, Route),
        status: StatusCode,
        took: Duration,
        times: u64,
    ) {
        self.requests.count(of, status, took, times);
    }

    /// Everything, as text.
    pub fn encode(&self, format: Format) -> String {
        families::write(self, format)
    }

    fn refused(&self, refusal: Refusal) -> u64 {
        self.connections_refused[refusal as usize].load(Ordering::Relaxed)
    }
}
