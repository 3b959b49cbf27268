//! What `/metrics` tells: every family, with its name, its meaning and where its figures come from.
//!
//! docs/metrics.md has the same list, which a test compares. No store is asked. What there is of keyspaces is bounded: the
//! first `spaces_max` that this instance has opened have series of their own, and the counters of all others are one
//! series each, whose `space` is [`OTHERS`].

use keymill_engine::latency::Bounds;
use keymill_engine::operations::{Figures, Service};

use super::process::Process;
use super::requests::CLASSES;
use super::text::{Format, Kind, Text};
use super::{Metrics, Refusal};

use Kind::{Counter, Gauge, Histogram, Info};

/// The `space` of what keyspaces without series of their own have in common. No keyspace can be called so.
const OTHERS: &str = "*";

/// What this build can do.
const FEATURES: [(&str, bool); 7] = [
    ("etcd", cfg!(feature = "etcd")),
    ("grpc", cfg!(feature = "grpc")),
    ("mysql", cfg!(feature = "mysql")),
    ("otel", cfg!(feature = "otel")),
    ("postgres", cfg!(feature = "postgres")),
    ("redis", cfg!(feature = "redis")),
    ("sqlite", cfg!(feature = "sqlite")),
];

/// Everything, as text.
pub(super) fn write(metrics: &Metrics, format: Format) -> String {
    let mut text = Text::new(format);
    instance(metrics, &mut text);
    requests(metrics, &mut text);
    connections(metrics, &mut text);
    store(&metrics.service, &mut text);
    Spaces::of(metrics).write(&mut text);
    problems(metrics, &mut text);
    process(&mut text);
    text.finish()
}

fn instance(metrics: &Metrics, text: &mut Text) {
    let features: Vec<&str> = FEATURES.iter().filter(|it| it.1).map(|it| it.0).collect();
    let features = features.join(",");
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("features", features.as_str())];
    let help = "The version of keymill, and what it was built with";
    text.family("keymill_build", Info, help).add(&labels, 1);
    text.family("keymill_uptime_seconds", Gauge, "How long this instance has been running")
        .add_float(&[], metrics.service.uptime().as_secs_f64());
}

fn requests(metrics: &Metrics, text: &mut Text) {
    let all: Vec<_> = metrics.requests.all().collect();
    let help = "Requests answered, by protocol, route and status";
    let mut family = text.family("keymill_requests", Counter, help);
    for counted in &all {
        let (protocol, route) = (counted.protocol, counted.route);
        for (status, count) in CLASSES.into_iter().zip(counted.classes) {
            family.add(&[("protocol", protocol), ("route", route), ("status", status)], count);
        }
    }
    let help =
        "How long requests took until their answer was ready to be sent; every request counts";
    let mut family = text.family("keymill_request_duration_seconds", Histogram, help);
    for counted in all.iter().filter(|counted| counted.latencies.count() > 0) {
        let labels = [("protocol", counted.protocol), ("route", counted.route)];
        family.add_times(&labels, &Bounds::REQUESTS, &counted.latencies);
    }
}

fn connections(metrics: &Metrics, text: &mut Text) {
    let help = "Connections beyond a limit, by reason: full (connections_max) or address";
    let mut family = text.family("keymill_connections_refused", Counter, help);
    for (refusal, reason) in Refusal::ALL {
        family.add(&[("reason", reason)], metrics.refused(refusal));
    }
    let tls = &metrics.tls;
    let help = "Attempts to reload the TLS certificate that failed; the old one stays in use";
    text.family("keymill_tls_reload_failures", Counter, help).add(&[], tls.reload_failures());
    let help = "TLS handshakes that failed";
    text.family("keymill_tls_handshakes_refused", Counter, help).add(&[], tls.handshakes_refused());
    let (name, help) =
        ("keymill_tls_certificate_expires_timestamp_seconds", "When the TLS certificate expires");
    let mut family = text.family(name, Gauge, help);
    if let Some(end) = tls.not_after() {
        family.add(&[], u64::try_from(end).unwrap_or(0));
    }
}

fn store(service: &Service, text: &mut Text) {
    let calls = service.store_calls();
    let help = "How long calls of the store took, by operation, with those that failed";
    let mut family = text.family("keymill_store_call_duration_seconds", Histogram, help);
    for call in &calls {
        family.add_times(&[("operation", call.operation)], &Bounds::STORE_CALLS, &call.latencies);
    }
    let help = "Calls of the store that failed, by operation and error; refused is an answer and no failure";
    let mut family = text.family("keymill_store_call_errors", Counter, help);
    for call in &calls {
        for &(error, count) in &call.errors {
            family.add(&[("operation", call.operation), ("error", error)], count);
        }
    }
    let beats = service.heartbeats();
    let help = "Heartbeats to the store, by result: answered or failed";
    text.family("keymill_heartbeats", Counter, help)
        .add(&[("result", "answered")], beats.succeeded)
        .add(&[("result", "failed")], beats.failed);
    let help =
        "Time since the store has answered a heartbeat; since the start if it has answered none";
    text.family("keymill_heartbeat_age_seconds", Gauge, help)
        .add_float(&[], beats.since_last.as_secs_f64());
}

/// The keyspaces that this instance has open.
struct Spaces {
    /// Those that have series of their own, with the names of their kinds.
    shown: Vec<(Figures, String)>,
    /// All others.
    others: Vec<Figures>,
}

impl Spaces {
    fn of(metrics: &Metrics) -> Spaces {
        let spaces = metrics.service.known_spaces();
        let mut all: Vec<Figures> = spaces.iter().map(|space| space.figures()).collect();
        // Those that were opened first, so that series do not come and go, and the sum of the others never falls.
        all.sort_unstable_by_key(|space| space.number);
        let others = all.split_off(all.len().min(metrics.spaces_max));
        let with_kind = |space: Figures| {
            let kind = space.kind.to_string();
            (space, kind)
        };
        Spaces { shown: all.into_iter().map(with_kind).collect(), others }
    }

    fn write(&self, text: &mut Text) {
        let help = "Keyspaces that this instance has open";
        text.family("keymill_spaces", Gauge, help)
            .add(&[], (self.shown.len() + self.others.len()) as u64);
        let help =
            "Open keyspaces without series of their own, because of limits.metrics_spaces_max";
        text.family("keymill_spaces_left_out", Gauge, help).add(&[], self.others.len() as u64);
        let help = "Keys taken, by keyspace and kind, with those that the blocklist has skipped";
        let mut family = text.family("keymill_keys", Counter, help);
        for (space, kind) in &self.shown {
            family.add(&[("space", space.name.as_str()), ("kind", kind.as_str())], space.taken);
        }
        for (kind, taken) in self.others_by_kind() {
            family.add(&[("space", OTHERS), ("kind", kind.as_str())], taken);
        }
        self.counter(text, "keymill_leases", "Leases granted to this instance", |it| it.leases);
        let help = "Leases discarded because the result of their commit is unknown";
        self.counter(text, "keymill_leases_burned", help, |it| it.burned);
        let help = "Keys in memory, ready to be taken";
        self.gauge(text, "keymill_keys_at_hand", help, |it| Some(it.at_hand));
        let help = "Keys leased to instances, all of them together";
        self.gauge(text, "keymill_keys_leased", help, |it| Some(it.leased));
        self.gauge(text, "keymill_keys_capacity", "Keys in total", |it| Some(it.capacity));
        let help = "1 for a keyspace that is sealed, and so hands out no more keys";
        self.gauge(text, "keymill_space_sealed", help, |it| it.sealed.then_some(1));
        let help = "Keys per second that this instance currently hands out";
        self.float(text, "keymill_keys_per_second", help, |it| Some(it.rate));
        let help =
            "Forecast: when the keyspace is used up, at its average rate since it was created";
        self.float(text, "keymill_used_up_in_seconds", help, |it| it.used_up_in);
        let help = "Keys available in the pool, as this instance last saw it";
        self.gauge(text, "keymill_pool_keys", help, |it| it.pool);
        let help = "The low_water of a pool, below which it is filled; 0 if it never is";
        self.gauge(text, "keymill_pool_low_water_keys", help, |it| it.pool.map(|_| it.low_water));
        let help = "Worker number that this instance holds, in a snowflake keyspace";
        self.gauge(text, "keymill_worker", help, |it| it.worker.map(u64::from));
        let has_clock = |it: &&Figures| it.runs_out_at.is_some();
        let mut family =
            text.family("keymill_clock_jumps", Counter, "Changes of the clock of this host");
        for space in self.shown.iter().map(|it| &it.0).filter(has_clock) {
            family.add(&[("space", space.name.as_str())], space.clock_jumps);
        }
        if self.others.iter().any(|it| has_clock(&it)) {
            family.add(&[("space", OTHERS)], self.others.iter().map(|it| it.clock_jumps).sum());
        }
        let help = "When the timestamps of a snowflake keyspace end";
        let seconds = |it: &Figures| u64::try_from(it.runs_out_at?.as_second()).ok();
        self.gauge(text, "keymill_runs_out_timestamp_seconds", help, seconds);
    }

    /// How many keys were taken of the others, by kind.
    fn others_by_kind(&self) -> Vec<(String, u64)> {
        let mut sums: Vec<(String, u64)> = Vec::new();
        for space in &self.others {
            let kind = space.kind.to_string();
            match sums.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, sum)) => *sum += space.taken,
                None => sums.push((kind, space.taken)),
            }
        }
        sums
    }

    fn counter(
        &self,
        text: &mut Text,
        name: &'static str,
        help: &str,
        count: impl Fn(&Figures) -> u64,
    ) {
        let mut family = text.family(name, Counter, help);
        for (space, _) in &self.shown {
            family.add(&[("space", space.name.as_str())], count(space));
        }
        if !self.others.is_empty() {
            family.add(&[("space", OTHERS)], self.others.iter().map(count).sum());
        }
    }

    fn gauge(
        &self,
        text: &mut Text,
        name: &'static str,
        help: &str,
        value: impl Fn(&Figures) -> Option<u64>,
    ) {
        let mut family = text.family(name, Gauge, help);
        for (space, _) in &self.shown {
            if let Some(value) = value(space) {
                family.add(&[("space", space.name.as_str())], value);
            }
        }
    }

    fn float(
        &self,
        text: &mut Text,
        name: &'static str,
        help: &str,
        value: impl Fn(&Figures) -> Option<f64>,
    ) {
        let mut family = text.family(name, Gauge, help);
        for (space, _) in &self.shown {
            if let Some(value) = value(space) {
                family.add_float(&[("space", space.name.as_str())], value);
            }
        }
    }
}

fn problems(metrics: &Metrics, text: &mut Text) {
    let health = metrics.service.health();
    let help = "Whether this instance can serve every keyspace that was asked for";
    text.family("keymill_ready", Gauge, help).add(&[], u64::from(health.ready));
    let problems: Vec<_> = health.problems.into_iter().chain(metrics.tls.problems()).collect();
    let help = "Current problems, by code; of keyspaces, at most limits.metrics_spaces_max";
    let mut family = text.family("keymill_problem", Gauge, help);
    for problem in problems.iter().filter(|problem| problem.space.is_none()) {
        family.add(&[("code", problem.code), ("space", "")], 1);
    }
    let of_spaces = || problems.iter().filter(|problem| problem.space.is_some());
    for problem in of_spaces().take(metrics.spaces_max) {
        let space = problem.space.as_deref().unwrap_or_default();
        family.add(&[("code", problem.code), ("space", space)], 1);
    }
    let help = "How many keyspaces have a problem, by code, also those that are not listed";
    let mut family = text.family("keymill_problem_spaces", Gauge, help);
    let mut codes: Vec<&str> = of_spaces().map(|problem| problem.code).collect();
    codes.sort_unstable();
    for some in codes.chunk_by(|one, next| one == next) {
        family.add(&[("code", some[0])], some.len() as u64);
    }
}

/// The names are those that every exporter has.
fn process(text: &mut Text) {
    let process = Process::now();
    let mut float = |name, kind, help: &str, value: fn(&Process) -> Option<f64>| {
        let mut family = text.family(name, kind, help);
        if let Some(value) = process.as_ref().and_then(value) {
            family.add_float(&[], value);
        }
    };
    float("process_cpu_seconds", Counter, "Time of processors used", |it| {
        Some(it.cpu.as_secs_f64())
    });
    let help = "When the process started";
    float("process_start_time_seconds", Gauge, help, |it| Some(it.started_at));
    let mut whole = |name, help: &str, value: fn(&Process) -> Option<u64>| {
        let mut family = text.family(name, Gauge, help);
        if let Some(value) = process.as_ref().and_then(value) {
            family.add(&[], value);
        }
    };
    whole("process_resident_memory_bytes", "Memory in use", |it| Some(it.resident_bytes));
    whole("process_virtual_memory_bytes", "Memory mapped", |it| Some(it.virtual_bytes));
    whole("process_threads", "Threads", |it| Some(it.threads));
    whole("process_open_fds", "Files and sockets open", |it| Some(it.open_files));
    let help = "Files and sockets that may be open";
    whole("process_max_fds", help, |it| it.open_files_max);
}
