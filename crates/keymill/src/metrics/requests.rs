//! Requests, counted by protocol, route and status, with how long each took.
//!
//! Every front records here, once for each answer; `/metrics` tells it. Recording takes no lock and allocates nothing. The
//! histogram counts every request that the counter counts, so that the two never disagree for longer than a moment.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::StatusCode;
use keymill_engine::latency::{Bounds, Histogram, Latencies, stripe};

/// How many threads may count without meeting each other.
const STRIPES: usize = 16;

/// What a request was spoken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 or 1.0.
    Http1,
    /// HTTP/2, without gRPC.
    Http2,
    /// gRPC
    Grpc,
    /// The Redis protocol.
    Redis,
}

/// What a request asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Keys: `POST …/keys`, `Take` and `TakeStream`, `SPOP` and `INCR`.
    Take,
    /// `GET /get-key`
    GetKey,
    /// Keys of inputs.
    Digest,
    /// Aliases.
    Alias,
    /// Single keys: where one came from, or its end.
    Key,
    /// Health checks and metrics.
    Watch,
    /// Everything else, and what was refused before it was routed.
    Other,
}

/// The status of an answer, as far as it is counted.
pub(super) const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// The counts of requests.
#[derive(Debug, Default)]
pub(super) struct Requests {
    stripes: [Stripe; STRIPES],
}

/// Requests counted by some of the threads, on cache lines of their own: a count that all threads
/// write would travel between the cores with every request.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    of: [[Counts; Route::ALL.len()]; Protocol::ALL.len()],
}

#[derive(Debug, Default)]
struct Counts {
    classes: [AtomicU64; CLASSES.len()],
    latencies: Histogram,
}

/// The requests of one protocol and route.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) protocol: &'static str,
    pub(super) route: &'static str,
    pub(super) classes: [u64; CLASSES.len()],
    pub(super) latencies: Latencies,
}

impl Protocol {
    const ALL: [(Protocol, &'static str); 4] = [
        (Protocol::Http1, "http1"),
        (Protocol::Http2, "http2"),
        (Protocol::Grpc, "grpc"),
        (Protocol::Redis, "redis"),
    ];

    /// Its name, as labels have it.
    pub fn name(self) -> &'static str {
        Protocol::ALL[self as usize].1
    }

    /// Whether it has requests of a route.
    fn has(self, route: Route) -> bool {
        match self {
            Protocol::Http1 | Protocol::Http2 => true,
            Protocol::Grpc => route != Route::GetKey,
            Protocol::Redis => matches!(route, Route::Take | Route::Other),
        }
    }
}

impl Route {
    const ALL: [(Route, &'static str); 7] = [
        (Route::Take, "take"),
        (Route::GetKey, "get_key"),
        (Route::Digest, "digest"),
        (Route::Alias, "alias"),
        (Route::Key, "key"),
        (Route::Watch, "watch"),
        (Route::Other, "other"),
    ];

    /// Its name, as labels have it.
    pub fn name(self) -> &'static str {
        Route::ALL[self as usize].1
    }

    /// The route of a path that is not a take.
    pub fn of_path(path: &str) -> Route {
        if matches!(path, "/healthz" | "/readyz" | "/metrics") {
            return Route::Watch;
        }
        let below = path.strip_prefix("/v1/spaces/").and_then(|rest| rest.split_once('/'));
        match below.map(|(_, what)| what.split_once('/').map_or(what, |(what, _)| what)) {
            Some("digests") => Route::Digest,
            Some("aliases") => Route::Alias,
            Some("keys") => Route::Key,
            _ => Route::Other,
        }
    }
}

impl Requests {
    /// Counts requests that were answered together, and took so long.
    #[inline]
    pub(super) fn count(
        &self,
        (protocol, route): (Protocol, Route),
        status: StatusCode,
        took: Duration,
        times: u64,
    ) {
        let class = usize::from(status.as_u16() / 100).clamp(2, 5) - 2;
        let stripe = &self.stripes[stripe() % STRIPES];
        let counts = &stripe.of[protocol as usize][route as usize];
        counts.classes[class].fetch_add(times, Ordering::Relaxed);
        counts.latencies.add(&Bounds::REQUESTS, took, times);
    }

    /// All counts, by protocol and route.
    pub(super) fn all(&self) -> impl Iterator<Item = Counted> {
        let pairs = Protocol::ALL.into_iter().flat_map(|(protocol, name)| {
            let routes = Route::ALL.into_iter().filter(move |(route, _)| protocol.has(*route));
            routes.map(move |(route, route_name)| ((protocol, name), (route, route_name)))
        });
        pairs.map(|((protocol, protocol_name), (route, route_name))| {
            let all =
                || self.stripes.iter().map(move |it| &it.of[protocol as usize][route as usize]);
            let class = |class: usize| {
                all().map(|counts| counts.classes[class].load(Ordering::Relaxed)).sum::<u64>()
            };
            let latencies = all().map(|counts| counts.latencies.get());
            Counted {
                protocol: protocol_name,
                route: route_name,
                classes: array::from_fn(class),
                latencies: latencies.fold(Latencies::default(), Latencies::plus),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_where_their_values_are_looked_up() {
        for (place, (protocol, _)) in Protocol::ALL.into_iter().enumerate() {
            assert_eq!(protocol as usize, place);
        }
        for (place, (route, _)) in Route::ALL.into_iter().enumerate() {
            assert_eq!(route as usize, place);
        }
    }

    #[test]
    fn a_path_tells_the_route() {
        for (path, route) in [
            ("/healthz", Route::Watch),
            ("/metrics", Route::Watch),
            ("/v1/spaces/links/digests", Route::Digest),
            ("/v1/spaces/links/aliases", Route::Alias),
            ("/v1/spaces/links/aliases/a", Route::Alias),
            ("/v1/spaces/links/keys/abc", Route::Key),
            ("/v1/spaces/aliases", Route::Other),
            ("/v1/spaces/links", Route::Other),
            ("/v1/spaces", Route::Other),
            ("/", Route::Other),
        ] {
            assert_eq!(Route::of_path(path), route, "{path}");
        }
    }

    #[test]
    fn the_histogram_counts_what_the_counter_counts() {
        let requests = Requests::default();
        let take = (Protocol::Redis, Route::Take);
        requests.count(take, StatusCode::OK, Duration::from_micros(5), 100);
        requests.count(take, StatusCode::SERVICE_UNAVAILABLE, Duration::from_secs(2), 1);
        requests.count((Protocol::Http1, Route::GetKey), StatusCode::OK, Duration::ZERO, 1);
        let counted = requests.all().find(|it| (it.protocol, it.route) == ("redis", "take"));
        let counted = counted.unwrap();
        assert_eq!(counted.classes, [100, 0, 0, 1]);
        assert_eq!((counted.latencies.count(), counted.latencies.counts[1]), (101, 100));
        assert_eq!(requests.all().map(|it| it.latencies.count()).sum::<u64>(), 102);
    }
}
