//! Metrics: counted where things happen, gathered when somebody asks.
//!
//! The hot path adds to one counter; everything about spaces is read from the service at the
//! moment of the scrape.

pub mod tls;

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hyper::StatusCode;
use keymill_engine::operations::{Figures, Service};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use self::tls::TlsFigures;

/// What this instance counts.
#[derive(Debug)]
pub struct Metrics {
    service: Service,
    requests: [Counts; STRIPES],
    connections_refused: [AtomicU64; Refusal::ALL.len()],
    /// Everything about TLS.
    pub tls: TlsFigures,
}

/// Answers counted by some of the threads, on cache lines of their own: a count that all threads
/// write would travel between the cores with every request.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counts {
    of: [[AtomicU64; CLASSES.len()]; Route::ALL.len()],
}

/// How many threads may count without meeting each other.
const STRIPES: usize = 16;

thread_local! {
    /// Which counts this thread adds to.
    static STRIPE: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES
    };
}

/// Which limit a connection was beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// `connections_max`: only health checks and metrics were answered.
    Full,
    /// `connections_per_address_max`
    Address,
}

/// Which kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// `POST …/keys`
    Take,
    /// `GET /get-key`
    GetKey,
    /// A take over gRPC, of a call or a stream.
    GrpcTake,
    /// Any other call over gRPC.
    Grpc,
    /// A command of the Redis protocol.
    Redis,
    /// Everything else.
    Other,
}

const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

impl Route {
    const ALL: [(Route, &'static str); 6] = [
        (Route::Take, "take"),
        (Route::GetKey, "get_key"),
        (Route::GrpcTake, "grpc_take"),
        (Route::Grpc, "grpc"),
        (Route::Redis, "redis"),
        (Route::Other, "other"),
    ];
}

impl Refusal {
    const ALL: [(Refusal, &'static str); 2] =
        [(Refusal::Full, "full"), (Refusal::Address, "address")];
}

impl Metrics {
    /// Metrics of one instance.
    pub fn new(service: Service) -> Metrics {
        Metrics {
            service,
            requests: Default::default(),
            connections_refused: Default::default(),
            tls: TlsFigures::default(),
        }
    }

    /// Counts a connection beyond a limit.
    pub fn count_refused(&self, refusal: Refusal) {
        self.connections_refused[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an answer.
    #[inline]
    pub fn count(&self, route: Route, status: StatusCode) {
        self.count_many(route, status, 1);
    }

    /// Counts answers that were made together.
    #[inline]
    pub fn count_many(&self, route: Route, status: StatusCode, count: u64) {
        let class = usize::from(status.as_u16() / 100).clamp(2, 5) - 2;
        let stripe = STRIPE.with(|stripe| *stripe);
        self.requests[stripe].of[route as usize][class].fetch_add(count, Ordering::Relaxed);
    }

    /// Everything, as OpenMetrics text.
    pub fn encode(&self) -> String {
        let mut registry = Registry::with_prefix("keymill");
        registry.register_collector(Box::new(Snapshot::of(self)));
        let mut text = String::new();
        text::encode(&mut text, &registry).expect("writing to a String cannot fail");
        text
    }
}

/// The figures at one moment, ready to be written.
#[derive(Debug)]
struct Snapshot {
    requests: Vec<(&'static str, &'static str, u64)>,
    connections_refused: Vec<(&'static str, u64)>,
    tls_reload_failures: u64,
    tls_handshakes_refused: u64,
    tls_not_after: Option<i64>,
    spaces: Vec<Figures>,
    ready: bool,
    problems: Vec<(&'static str, String)>,
}

impl Snapshot {
    fn of(metrics: &Metrics) -> Snapshot {
        let requests = Route::ALL.iter().flat_map(|&(route, name)| {
            let count = move |(class, status): (usize, &&'static str)| {
                let counts = metrics.requests.iter().map(|it| &it.of[route as usize][class]);
                (name, *status, counts.map(|count| count.load(Ordering::Relaxed)).sum::<u64>())
            };
            CLASSES.iter().enumerate().map(count)
        });
        let refused = Refusal::ALL.iter().map(|&(refusal, name)| {
            (name, metrics.connections_refused[refusal as usize].load(Ordering::Relaxed))
        });
        let health = metrics.service.health();
        let problems = health.problems.into_iter().chain(metrics.tls.problems());
        Snapshot {
            requests: requests.collect(),
            connections_refused: refused.collect(),
            tls_reload_failures: metrics.tls.reload_failures(),
            tls_handshakes_refused: metrics.tls.handshakes_refused(),
            tls_not_after: metrics.tls.not_after(),
            spaces: metrics.service.known_spaces().iter().map(|space| space.figures()).collect(),
            ready: health.ready,
            problems: problems.map(|it| (it.code, it.space.unwrap_or_default())).collect(),
        }
    }

    fn of_spaces<M: EncodeMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        metric: impl Fn(&Figures) -> M,
    ) -> fmt::Result {
        self.of_some(encoder, (name, help), |space| Some(metric(space)))
    }

    /// The same of those that have it.
    fn of_some<M: EncodeMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        metric: impl Fn(&Figures) -> Option<M>,
    ) -> fmt::Result {
        let all = || self.spaces.iter().filter_map(|space| Some((space, metric(space)?)));
        let Some((_, first)) = all().next() else {
            return Ok(());
        };
        let kind = first.metric_type();
        let mut family = encoder.encode_descriptor(name, help, None::<&Unit>, kind)?;
        for (space, metric) in all() {
            let labels = [("space", space.name.as_str())];
            metric.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let none = None::<&Unit>;
        let counter = |value| ConstCounter::new(value);
        let gauge = |value: u64| ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
        let kind = counter(0_u64).metric_type();
        let mut family = encoder.encode_descriptor(
            "requests",
            "Requests answered, by route and status",
            none,
            kind,
        )?;
        for &(route, class, count) in &self.requests {
            let labels = [("route", route), ("status", class)];
            counter(count).encode(family.encode_family(&labels)?)?;
        }
        let help = "Connections beyond a limit, by reason: full (connections_max) or address";
        let mut family = encoder.encode_descriptor("connections_refused", help, none, kind)?;
        for &(reason, count) in &self.connections_refused {
            counter(count).encode(family.encode_family(&[("reason", reason)])?)?;
        }
        let help = "Attempts to reload the TLS certificate that failed; the old one stays in use";
        let family = encoder.encode_descriptor("tls_reload_failures", help, none, kind)?;
        counter(self.tls_reload_failures).encode(family)?;
        let help = "TLS handshakes that failed";
        let family = encoder.encode_descriptor("tls_handshakes_refused", help, none, kind)?;
        counter(self.tls_handshakes_refused).encode(family)?;
        if let Some(end) = self.tls_not_after {
            let end = ConstGauge::new(end);
            let (name, help) =
                ("tls_certificate_expires_timestamp_seconds", "When the TLS certificate expires");
            let family = encoder.encode_descriptor(name, help, none, end.metric_type())?;
            end.encode(family)?;
        }
        let encoder = &mut encoder;
        self.of_spaces(encoder, ("keys", "Ordinals used to make keys"), |it| counter(it.drawn))?;
        self.of_spaces(encoder, ("leases", "Leases granted to this instance"), |it| {
            counter(it.leases)
        })?;
        let burned =
            ("leases_burned", "Leases discarded because the result of their commit is unknown");
        self.of_spaces(encoder, burned, |it| counter(it.burned))?;
        self.of_spaces(encoder, ("keys_at_hand", "Keys in memory, ready to be taken"), |it| {
            gauge(it.at_hand)
        })?;
        self.of_spaces(encoder, ("keys_leased", "Keys leased to instances"), |it| {
            gauge(it.leased)
        })?;
        self.of_spaces(encoder, ("keys_capacity", "Keys in total"), |it| gauge(it.capacity))?;
        self.of_spaces(encoder, ("key_rate", "Current number of keys per second"), |it| {
            ConstGauge::new(it.rate)
        })?;
        let worker = ("worker", "Worker number that this instance holds, in a snowflake keyspace");
        self.of_some(encoder, worker, |it| it.worker.map(|number| gauge(number.into())))?;
        let jumps = ("clock_jumps", "Changes of the clock of this host");
        self.of_some(encoder, jumps, |it| it.runs_out_at.map(|_| counter(it.clock_jumps)))?;
        let end = ("runs_out_timestamp_seconds", "When the timestamps of a snowflake keyspace end");
        self.of_some(encoder, end, |it| it.runs_out_at.map(|at| ConstGauge::new(at.as_second())))?;
        let kind = gauge(0).metric_type();
        let help = "Whether this instance can serve every keyspace that was asked for";
        let family = encoder.encode_descriptor("ready", help, none, kind)?;
        gauge(u64::from(self.ready)).encode(family)?;
        let help = "Current problems, by code";
        let mut family = encoder.encode_descriptor("problem", help, none, kind)?;
        for (code, space) in &self.problems {
            let labels = [("code", *code), ("space", space.as_str())];
            gauge(1).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
