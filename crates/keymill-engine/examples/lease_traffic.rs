//! What a store has to do for fleets of instances: `cargo run -p keymill-engine --example lease_traffic`.
//!
//! A day of virtual time. The parts that decide are those of the server: how a lease is sized (`Pace`), what an instance
//! holds (`LeasePair`) and what the store grants (`SpaceRecord`). Only the store's disk and the network are left out:
//! a lease takes 2 ms. docs/scaling.md shows what it prints; `docs/check` runs it again.

#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::time::Duration;

use jiff::Timestamp;
use keymill_engine::Kind;
use keymill_engine::instance::Instance;
use keymill_engine::internals::store::{LeaseAsk, Mark, Ranges, SpaceRecord};
use keymill_engine::internals::{Draw, LeasePair, Pace, SHARE};
use keymill_engine::space::{Definition, Tuning};
use tokio::time::Instant;

/// How long a lease takes, which is how long an instance without keys has none.
const LEASE_TAKES: Duration = Duration::from_millis(2);
/// The cold start, simulated in steps of `LEASE_TAKES`; then it settles, and then a day is measured.
const START: Duration = Duration::from_secs(60);
const SETTLING: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
const HEARTBEAT_SECONDS: f64 = 5.0;

fn main() {
    println!("base62, length 10; heartbeats every 5 s; a lease takes 2 ms\n");
    println!(
        "   keys a                lease_size    a lease     a lease   leases  heartbeats  store may       first lost if all"
    );
    println!(
        "   second instances            _max        has       lasts a second    a second    be away      minute  are killed"
    );
    for (rate, instances) in
        [(1_000_000, 3), (10_000_000, 10), (100_000_000, 100), (100_000_000, 10)]
    {
        for lease_size_max in [Tuning::default().lease_size_max, 100_000_000_000] {
            let tuning = Tuning { lease_size_max, ..Tuning::default() };
            let seen = Fleet::new(rate, instances, tuning).run();
            println!(
                "{:>9} {:>9} {:>14} {:>10} {:>11} {:>8.3} {:>11.1} {:>10} {:>11} {:>11}",
                short(rate as f64),
                instances,
                short(lease_size_max as f64),
                short(seen.lease_size),
                time(seen.lease_size * instances as f64 / rate as f64),
                seen.leases_a_second,
                instances as f64 / HEARTBEAT_SECONDS,
                time(seen.endurance),
                format!("{} leases", seen.first_minute),
                short(seen.held_most),
            );
        }
    }
    println!("\nHow long a keyspace lasts, base62:\n");
    println!("{:>8} {:>9} {:>12} {:>12} {:>12}", "length", "keys", "1 M/s", "10 M/s", "100 M/s");
    for length in [7, 8, 9, 10] {
        let capacity = 62_f64.powi(length);
        let [slow, fast, faster] = [1e6, 1e7, 1e8].map(|rate| time(capacity / rate));
        println!("{length:>8} {:>9} {slow:>12} {fast:>12} {faster:>12}", short(capacity));
    }
}

/// What was seen of a fleet.
struct Seen {
    leases_a_second: f64,
    lease_size: f64,
    /// For how many seconds the instance that holds least could go on without the store, at the worst moment.
    endurance: f64,
    /// Leases in the first minute, from a cold start.
    first_minute: u64,
    /// The most that all instances held together.
    held_most: f64,
}

/// Instances that share one keyspace.
struct Fleet {
    /// Keys a second, of each.
    rate: u64,
    tuning: Tuning,
    space: SpaceRecord,
    instances: Vec<Holder>,
    leases: u64,
    leased: u64,
}

/// One instance.
struct Holder {
    pace: Pace,
    leases: LeasePair,
    drawn: u64,
    sampled_at: Instant,
}

impl Fleet {
    fn new(rate: u64, instances: u64, tuning: Tuning) -> Fleet {
        let definition = Definition { length: 10, ..Definition::of_kind(Kind::Shuffled) };
        let now = Instant::now();
        let holder =
            || Holder { pace: Pace::new(now), leases: LeasePair::new(), drawn: 0, sampled_at: now };
        let space = SpaceRecord {
            name: "links".to_owned(),
            capacity: definition.capacity().expect("ten characters of base62 can be counted"),
            definition,
            tuning: tuning.clone(),
            fingerprint: None,
            mark: Mark::default(),
            base: 0,
            returned: Ranges::default(),
            sealed: false,
            created_at: Timestamp::UNIX_EPOCH,
        };
        let instances = (0..instances).map(|_| holder()).collect::<Vec<_>>();
        Fleet {
            rate: rate / instances.len() as u64,
            tuning,
            space,
            instances,
            leases: 0,
            leased: 0,
        }
    }

    fn run(mut self) -> Seen {
        let begin = Instant::now();
        let mut now = begin;
        while now < begin + START {
            now += LEASE_TAKES;
            self.step(now, LEASE_TAKES);
        }
        let first_minute = self.leases;
        let second = Duration::from_secs(1);
        while now < begin + SETTLING {
            now += second;
            self.step(now, second);
        }
        (self.leases, self.leased) = (0, 0);
        let (mut endurance, mut held_most) = (f64::MAX, 0);
        while now < begin + SETTLING + DAY {
            now += second;
            self.step(now, second);
            let held = self.instances.iter().map(|holder| holder.leases.left());
            let least = held.clone().min().expect("there are instances");
            endurance = endurance.min(least as f64 / self.rate as f64);
            held_most = held_most.max(held.sum());
        }
        Seen {
            leases_a_second: self.leases as f64 / DAY.as_secs_f64(),
            lease_size: self.leased as f64 / self.leases as f64,
            endurance,
            first_minute,
            held_most: held_most as f64,
        }
    }

    /// Every instance hands out what is asked of it, and then leases, as often as it wants more.
    fn step(&mut self, now: Instant, step: Duration) {
        let wanted = self.rate * u64::try_from(step.as_millis()).expect("a step is short") / 1_000;
        for holder in &mut self.instances {
            holder.hand_out(wanted);
            holder.look(now);
            while let Some(size) = holder.wants(&self.tuning) {
                let ask = LeaseAsk {
                    space: self.space.name.clone(),
                    instance: this_instance(),
                    size,
                    share: SHARE,
                    last_lease: None,
                    spent: Vec::new(),
                };
                let grant = self.space.grant(&ask).expect("the keyspace is not used up in a day");
                self.leases += 1;
                self.leased += grant.ordinals.end - grant.ordinals.start;
                holder.leases.offer(grant.ordinals);
                // During the cold start, the next one takes its time.
                if step == LEASE_TAKES {
                    break;
                }
            }
        }
    }
}

impl Holder {
    fn hand_out(&mut self, mut wanted: u64) {
        while wanted > 0
            && let Draw::Drawn { ordinals, .. } = self.leases.draw(wanted)
        {
            let count = ordinals.end - ordinals.start;
            self.drawn += count;
            wanted -= count;
        }
    }

    /// Looks at its rate when keys run low, and otherwise once a second, as the server does.
    fn look(&mut self, now: Instant) {
        if !self.leases.has_next() || now - self.sampled_at >= Duration::from_secs(1) {
            self.pace.sample(self.drawn, now);
            self.sampled_at = now;
        }
    }

    /// How much to lease, if anything.
    fn wants(&self, tuning: &Tuning) -> Option<u64> {
        let wants = !self.leases.has_next() && self.leases.left() < self.pace.hold_min(tuning);
        wants.then(|| self.pace.lease_size(tuning))
    }
}

/// Who asks: the same for all, because no grant depends on it.
fn this_instance() -> Instance {
    Instance {
        id: String::new(),
        host: String::new(),
        pid: 0,
        version: String::new(),
        started_at: Timestamp::UNIX_EPOCH,
    }
}

/// `1234567` as `1.23 M`.
fn short(count: f64) -> String {
    let (unit, name) = match count {
        c if c >= 1e15 => (1e15, " P"),
        c if c >= 1e12 => (1e12, " T"),
        c if c >= 1e9 => (1e9, " G"),
        c if c >= 1e6 => (1e6, " M"),
        c if c >= 1e3 => (1e3, " k"),
        _ => (1.0, ""),
    };
    let value = count / unit;
    if value >= 99.95 { format!("{value:.0}{name}") } else { format!("{value:.1}{name}") }
}

/// Seconds in the unit that people would use.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 2.0 * 3_600.0 => format!("{:.0} min", s / 60.0),
        s if s < 2.0 * 86_400.0 => format!("{:.1} h", s / 3_600.0),
        s if s < 2.0 * 31_557_600.0 => format!("{:.0} days", s / 86_400.0),
        s => format!("{:.0} years", s / 31_557_600.0),
    }
}
