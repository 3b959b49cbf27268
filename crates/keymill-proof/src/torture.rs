//! Torture: servers on one store, callers who take keys of them, and harm meanwhile.
//!
//! The tests and the binary `torture` run it. A run ends when everything aimed at was reached, or with its time.

use std::fmt;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::caller::Caller;
use crate::client::Client;
use crate::fleet::Fleet;
use crate::harm::{Deed, Harm, Plan};
use crate::load::Load;
use crate::process::ServerSpec;
use crate::received::Received;
use crate::take::HttpTake;

/// How long most callers wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// One caller in four waits so long only, and so gives up on servers that are paused.
const IMPATIENCE: Duration = Duration::from_millis(200);

/// A run, before it begins.
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
    pub keys: usize,
    /// What is done to the servers, and to their store's.
    pub plan: Plan,
    /// Whether to end with the first duplicate, as a run that expects one can.
    pub until_duplicate: bool,
    /// The end in any case.
    pub time_max: Duration,
    /// What callers and harm do by chance follows from it.
    pub seed: u64,
}

/// What a run came to.
pub struct Report {
    /// What callers received.
    pub received: Received,
    /// How often each harm was done.
    pub done: Vec<(Deed, u32)>,
    /// Whether the run did all that it was to do.
    pub is_reached: bool,
    /// How long the callers were at work.
    pub time: Duration,
    /// The seed of the run.
    pub seed: u64,
}

impl Torture {
    /// A run against these servers, of the size that a test can afford.
    pub fn new(servers: Vec<ServerSpec>) -> Torture {
        let harms = vec![
            Harm::new(Deed::Kill, 20, 150..300, 0..100),
            Harm::new(Deed::Pause, 20, 150..300, 50..400),
            Harm::new(Deed::Stop, 5, 500..900, 0..50),
        ];
        Torture {
            servers,
            callers: 12,
            space: "torture".to_owned(),
            space_body: r#"{"lease_size_min":500,"lease_size_max":5000,"horizon_seconds":1}"#
                .to_owned(),
            keys: 3_000_000,
            plan: Plan { harms, store: None },
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
        let fleet = Fleet::start(self.servers.clone());
        let made = Client::new(fleet.hold(0).address()).put_space(&self.space, &self.space_body);
        let made = made.expect("a server that greeted answers");
        assert!(matches!(made.status, 200 | 201), "cannot make the space: {}", made.text());
        let begin = Instant::now();
        let mut counts = Vec::new();
        let callers = (0..self.callers).map(|number| self.caller(number));
        let received = Load::of(callers).seed(self.seed).run(&fleet, |run| {
            counts = self.plan.run(run, self.time_max, |is_done| {
                let is_found = || run.received().duplicated() > 0;
                is_done && run.keys() >= self.keys || self.until_duplicate && is_found()
            });
        });
        let time = begin.elapsed();
        // Those with a fault need not stop well.
        if !self.until_duplicate {
            fleet.each().for_each(|mut server| server.stop());
        }
        Report {
            is_reached: received.len() >= self.keys && self.plan.is_done(counts.iter().copied()),
            done: self.plan.harms.iter().map(|harm| harm.deed).zip(counts).collect(),
            received,
            time,
            seed: self.seed,
        }
    }

    /// Takes keys, one or many at a time, of one server after another or always of the same: so all servers meet
    /// all callers, and a paused one does not bring all to a halt.
    fn caller(&self, number: usize) -> Caller<'_> {
        let patience = if number % 4 == 2 { IMPATIENCE } else { PATIENCE };
        let caller = Caller::over(move |address| {
            HttpTake::new(address, &self.space).time_max(patience).gets_single_keys()
        });
        let stays = number % 2 == 1;
        let caller = if stays { caller.of(number / 2 % self.servers.len()) } else { caller };
        caller.takes_by(batch)
    }
}

/// The size of a take: half of them single, most others small, now and then more than a lease holds.
fn batch(rng: &mut Rng) -> u32 {
    match rng.u32(0..32) {
        0..16 => 1,
        16 => rng.u32(1_000..10_000),
        _ => rng.u32(1..100),
    }
}

impl Report {
    /// How often something was done.
    pub fn done(&self, deed: Deed) -> u32 {
        self.done.iter().filter(|done| done.0 == deed).map(|done| done.1).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<14} {}", "valid", self.received.duplicated() == 0)?;
        write!(f, "{}", self.received)?;
        for (deed, count) in &self.done {
            writeln!(f, "{:<14} {count}", format!("{deed:?}"))?;
        }
        writeln!(f, "{:<14} {:.1} s", "time", self.time.as_secs_f64())?;
        write!(f, "{:<14} {}", "seed", self.seed)
    }
}
