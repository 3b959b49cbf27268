//! The tally: what was asked and answered, and how long it took.
//!
//! Each worker counts into its own; once a second `load` takes all of them, which makes a [`Moment`] of the timeline, and
//! adds them up to the total.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest time that is told apart, in microseconds: an hour.
const MICROS_MAX: u64 = 3_600_000_000;
/// How many digits of a time are kept.
const DIGITS: u8 = 3;
/// How many codes of failures are told apart, and how long one may be. A server chooses them.
const CODES_MAX: usize = 32;
const CODE_LEN_MAX: usize = 64;

/// Counts of some time.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    /// Requests that were answered with keys.
    pub(super) acknowledged: u64,
    /// Those that were answered with fewer keys than they asked for.
    pub(super) short: u64,
    pub(super) keys: u64,
    /// Requests that were not answered with keys, by code.
    pub(super) failures: BTreeMap<String, Failures>,
    /// How long those that were acknowledged took, in microseconds.
    micros: Histogram<u64>,
}

/// Failures of one code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failures {
    pub(super) count: u64,
    /// What the first one said.
    pub(super) example: String,
}

/// A second of a bench.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Its end, since the begin of the bench.
    pub(super) at: Duration,
    /// How long it was.
    pub(super) length: Duration,
    pub(super) users: u32,
    pub(super) acknowledged: u64,
    pub(super) failed: u64,
    pub(super) keys: u64,
    pub(super) p50: Duration,
    pub(super) p95: Duration,
    pub(super) p99: Duration,
}

impl Default for Tally {
    fn default() -> Tally {
        let micros = Histogram::new_with_bounds(1, MICROS_MAX, DIGITS);
        Tally {
            acknowledged: 0,
            short: 0,
            keys: 0,
            failures: BTreeMap::new(),
            micros: micros.expect("the bounds are right"),
        }
    }
}

impl Tally {
    /// A request was answered with keys.
    pub(super) fn acknowledge(&mut self, keys: u64, asked: u64, took: Duration) {
        self.acknowledged += 1;
        self.short += u64::from(keys < asked);
        self.keys += keys;
        self.micros.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Requests failed together.
    pub(super) fn fail(&mut self, count: u64, code: &str, detail: &str) {
        let is_known = self.failures.contains_key(code);
        let is_odd = code.len() > CODE_LEN_MAX || self.failures.len() >= CODES_MAX;
        let code = if is_odd && !is_known { "other" } else { code };
        let new = || Failures { count: 0, example: detail.to_owned() };
        self.failures.entry(code.to_owned()).or_insert_with(new).count += count;
    }

    pub(super) fn failed(&self) -> u64 {
        self.failures.values().map(|failures| failures.count).sum()
    }

    pub(super) fn attempted(&self) -> u64 {
        self.acknowledged + self.failed()
    }

    /// The time that so great a share of the acknowledged requests did not exceed; zero if there were none.
    pub(super) fn quantile(&self, share: f64) -> Duration {
        Duration::from_micros(self.micros.value_at_quantile(share))
    }

    /// The time within which so great a share of all requests was answered with keys; `None` if fewer were.
    pub(super) fn quantile_of_attempted(&self, share: f64) -> Option<Duration> {
        let share = share * self.attempted() as f64 / self.acknowledged as f64;
        (share <= 1.0).then(|| self.quantile(share))
    }

    /// The longest time.
    pub(super) fn longest(&self) -> Duration {
        Duration::from_micros(self.micros.max())
    }

    pub(super) fn add(&mut self, other: &Tally) {
        self.acknowledged += other.acknowledged;
        self.short += other.short;
        self.keys += other.keys;
        for (code, failures) in &other.failures {
            self.fail(failures.count, code, &failures.example);
        }
        self.micros.add(&other.micros).expect("all have the same bounds");
    }

    /// What it says of a time that ended at `at`.
    pub(super) fn moment(&self, at: Duration, length: Duration, users: u32) -> Moment {
        let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|share| self.quantile(share));
        let (acknowledged, failed, keys) = (self.acknowledged, self.failed(), self.keys);
        Moment { at, length, users, acknowledged, failed, keys, p50, p95, p99 }
    }
}

/// So many per second.
pub(super) fn per_second(count: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_of_workers_add_up() {
        let (mut one, mut other) = (Tally::default(), Tally::default());
        for millis in 1..=100 {
            let tally = if millis % 2 == 0 { &mut one } else { &mut other };
            tally.acknowledge(10, 10, Duration::from_millis(millis));
        }
        other.acknowledge(3, 10, Duration::from_millis(50));
        one.fail(2, "timeout", "too late");
        other.fail(1, "timeout", "later");
        one.add(&other);
        assert_eq!((one.attempted(), one.acknowledged, one.failed()), (104, 101, 3));
        assert_eq!((one.keys, one.short), (1_003, 1));
        let expected = Failures { count: 3, example: "too late".to_owned() };
        assert_eq!(one.failures.get("timeout"), Some(&expected));
        let median = one.quantile(0.5).as_micros();
        assert!((49_900..=50_200).contains(&median), "{median}");
        assert!(one.longest() >= Duration::from_millis(100));
    }

    #[test]
    fn a_server_cannot_make_up_codes_without_end() {
        let mut tally = Tally::default();
        for number in 0..1_000 {
            tally.fail(1, &format!("code_{number}"), "");
        }
        tally.fail(1, &"x".repeat(65), "");
        assert_eq!((tally.failures.len(), tally.failed()), (CODES_MAX + 1, 1_001));
    }

    #[test]
    fn without_requests_there_is_no_time_and_no_rate() {
        let tally = Tally::default();
        assert_eq!((tally.quantile(0.99), tally.longest()), (Duration::ZERO, Duration::ZERO));
        assert!(per_second(5, Duration::ZERO).abs() < f64::EPSILON);
    }
}
