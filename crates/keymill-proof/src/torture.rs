//! Torture: servers on one store, callers who take keys of them, and a nemesis who kills,
//! pauses and stops the servers meanwhile.
//!
//! The tests and the binary `torture` run it. A run ends when everything aimed at was reached,
//! or with its time; the callers' keys are then compared, each with every other.

mod caller;
mod fleet;
mod nemesis;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use caller::Caller;
use fleet::Fleet;
use nemesis::{Deed, Nemesis};

use crate::backend::Backend;
use crate::checker::{Checker, Report};
use crate::client::Client;
use crate::process::ServerSpec;

/// How often a run looks whether it has reached what it aims at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A run, before it begins.
#[derive(Clone)]
pub struct Torture {
    /// The servers, which should share a store.
    pub servers: Vec<ServerSpec>,
    /// Callers, each with connections of its own.
    pub callers: usize,
    /// The space to take from. It is made before the callers begin.
    pub space: String,
    /// Its definition and tuning, as the body of the request that makes it. Leases are small
    /// by default, so that many are under way when a server is killed.
    pub space_body: String,
    /// How many keys to receive.
    pub keys: u64,
    /// Kills (`SIGKILL`); a killed server is down for a time and then started again.
    pub kills: Harm,
    /// Pauses (`SIGSTOP`, `SIGCONT`).
    pub pauses: Harm,
    /// Orderly stops (`SIGTERM`), which give leases back; then it starts again.
    pub stops: Harm,
    /// Kills of the store's own server, where there is one.
    pub store_kills: Harm,
    /// That server.
    pub store: Option<Store>,
    /// Whether to end with the first duplicate, as a run that expects one can.
    pub until_duplicate: bool,
    /// The end in any case.
    pub time_max: Duration,
    /// What the nemesis does follows from it.
    pub seed: u64,
}

/// The store's server, which the nemesis may harm.
pub type Store = Arc<Mutex<Box<dyn Backend>>>;

/// One thing that the nemesis does to servers, again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Harm {
    /// How often, at least; never where it is 0.
    pub count: u32,
    /// How long it waits in between.
    pub every: Range<Duration>,
    /// How long it lasts: the pause, or how long the server stays down.
    pub lasting: Range<Duration>,
}

impl Torture {
    /// A run against these servers, of the size that a test can afford.
    pub fn new(servers: Vec<ServerSpec>) -> Torture {
        Torture {
            servers,
            callers: 12,
            space: "torture".to_owned(),
            space_body: r#"{"lease_size_min":500,"lease_size_max":5000,"horizon_seconds":1}"#
                .to_owned(),
            keys: 3_000_000,
            kills: Harm::new(20, 150..300, 0..100),
            pauses: Harm::new(20, 150..300, 50..400),
            stops: Harm::new(5, 500..900, 0..50),
            store_kills: Harm::none(),
            store: None,
            until_duplicate: false,
            time_max: Duration::from_secs(90),
            seed: 1,
        }
    }

    /// Runs it.
    ///
    /// # Panics
    ///
    /// With its log, when a server does not start, stop or make the space.
    pub fn run(&self) -> Report {
        let fleet = Fleet::start(&self.servers);
        self.make_space(&fleet);
        let received = Received::default();
        let begin = Instant::now();
        let mut report = Report::default();
        std::thread::scope(|scope| {
            let _end = fleet.end_when_dropped();
            let (fleet, received) = (&fleet, &received);
            let callers: Vec<_> = (0..self.callers)
                .map(|number| {
                    let caller = Caller::new(number, self, fleet, received);
                    scope.spawn(|| caller.run())
                })
                .collect();
            let deeds = Deed::ALL.map(|deed| {
                let nemesis = Nemesis::new(deed, self, fleet);
                let done = nemesis.done.clone();
                let thread = scope.spawn(|| nemesis.run());
                (deed, done, thread)
            });
            loop {
                let reached = deeds.iter().all(|(deed, done, _)| {
                    done.load(Ordering::Relaxed) >= deed.harm_of(self).count
                });
                let reached = reached && received.keys.load(Ordering::Relaxed) >= self.keys;
                let over = begin.elapsed() >= self.time_max;
                if reached || over || self.until_duplicate && received.has_duplicates() {
                    fleet.end();
                }
                if fleet.wait(LOOK_EVERY) {
                    break;
                }
            }
            for (deed, done, thread) in deeds {
                thread.join().expect("the nemesis comes to its end");
                *deed.count_in(&mut report) = done.load(Ordering::Relaxed);
            }
            for caller in callers {
                report.absorb(&caller.join().expect("a caller comes to its end"));
            }
        });
        report.time = begin.elapsed();
        report.seed = self.seed;
        fleet.stop();
        let mut checker = received.checker.into_inner().expect("no caller panicked");
        checker.finish(&mut report);
        report
    }

    /// Whether a run did all that this one was to do.
    pub fn is_reached_by(&self, report: &Report) -> bool {
        report.keys >= self.keys
            && report.kills >= self.kills.count
            && report.pauses >= self.pauses.count
            && report.stops >= self.stops.count
            && report.store_kills >= self.store_kills.count
    }

    fn make_space(&self, fleet: &Fleet) {
        let mut client = Client::new(fleet.address(0).expect("it has just started"));
        let path = format!("/v1/spaces/{}", self.space);
        let json = [("Content-Type", "application/json")];
        let answer = client
            .request("PUT", &path, &json, self.space_body.as_bytes())
            .expect("a server that greeted answers");
        let made = matches!(answer.status, 200 | 201);
        assert!(made, "cannot make {path}: {}", answer.text());
    }
}

impl Harm {
    /// So many times, every so many milliseconds, lasting so many.
    pub fn new(count: u32, every: Range<u64>, lasting: Range<u64>) -> Harm {
        let times = |range: Range<u64>| {
            Duration::from_millis(range.start)..Duration::from_millis(range.end)
        };
        Harm { count, every: times(every), lasting: times(lasting) }
    }

    /// Never.
    pub fn none() -> Harm {
        Harm::new(0, 0..1, 0..1)
    }
}

/// What all callers received so far.
#[derive(Debug, Default)]
struct Received {
    keys: AtomicU64,
    checker: Mutex<Checker>,
}

impl Received {
    /// Takes in the keys of an answer, one a line.
    fn add<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> u64 {
        let mut checker = self.checker.lock().expect("no caller panicked");
        let before = checker.len();
        keys.for_each(|key| checker.add(key));
        (checker.len() - before) as u64
    }

    fn has_duplicates(&self) -> bool {
        let mut checker = self.checker.lock().expect("no caller panicked");
        checker.duplicates(|_, _| {}) > 0
    }
}
