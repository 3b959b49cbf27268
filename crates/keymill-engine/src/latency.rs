//! Latency: how long things took, counted into fixed buckets.
//!
//! `operations` counts the takes of a keyspace with it, `store` the calls of a store, and the `keymill` crate its requests.
//! Recording takes no lock, allocates nothing and reads no clock.

use std::array;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How many buckets have an upper bound.
pub const BOUNDS_LEN: usize = 12;
/// How many buckets there are: the last one has what is above all bounds.
pub const BUCKETS: usize = BOUNDS_LEN + 1;

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// The upper bounds of buckets, in nanoseconds. What took exactly as long as a bound is below it.
#[derive(Debug)]
pub struct Bounds([u64; BOUNDS_LEN]);

/// Times of one kind. Several threads may share one; where they would slow each other down, each has its own
/// ([`stripe`]).
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

/// The times of a histogram at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Latencies {
    /// How many are in each bucket.
    pub counts: [u64; BUCKETS],
    /// All of them together, in nanoseconds.
    pub nanos: u64,
}

impl Bounds {
    /// For requests: most are answered from memory, and those that wait do so for seconds.
    pub const REQUESTS: Bounds = Bounds([
        3 * MICRO,
        10 * MICRO,
        30 * MICRO,
        100 * MICRO,
        300 * MICRO,
        MILLI,
        3 * MILLI,
        10 * MILLI,
        30 * MILLI,
        100 * MILLI,
        300 * MILLI,
        SECOND,
    ]);

    /// For calls of a store, which write to a disk, perhaps behind a network.
    pub const STORE_CALLS: Bounds = Bounds([
        100 * MICRO,
        300 * MICRO,
        MILLI,
        3 * MILLI,
        10 * MILLI,
        30 * MILLI,
        100 * MILLI,
        300 * MILLI,
        SECOND,
        3 * SECOND,
        10 * SECOND,
        30 * SECOND,
    ]);

    /// The bounds in seconds.
    pub fn seconds(&self) -> [f64; BOUNDS_LEN] {
        self.0.map(seconds)
    }

    /// The bucket of a time.
    #[inline]
    pub fn bucket(&self, took: Duration) -> usize {
        let nanos = nanos(took);
        // From the lowest on: nearly all requests are there.
        self.0.iter().position(|bound| nanos <= *bound).unwrap_or(BOUNDS_LEN)
    }
}

impl Histogram {
    /// Counts something that took so long, and happened so many times.
    #[inline]
    pub fn add(&self, bounds: &Bounds, took: Duration, times: u64) {
        self.counts[bounds.bucket(took)].fetch_add(times, Ordering::Relaxed);
        self.nanos.fetch_add(nanos(took).saturating_mul(times), Ordering::Relaxed);
    }

    /// The times so far.
    pub fn get(&self) -> Latencies {
        let counts = array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed));
        Latencies { counts, nanos: self.nanos.load(Ordering::Relaxed) }
    }
}

impl Latencies {
    /// How many times there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All of them together.
    pub fn seconds(&self) -> f64 {
        seconds(self.nanos)
    }

    /// These and others.
    #[must_use]
    pub fn plus(self, others: Latencies) -> Latencies {
        let counts = array::from_fn(|bucket| self.counts[bucket] + others.counts[bucket]);
        Latencies { counts, nanos: self.nanos.wrapping_add(others.nanos) }
    }
}

/// A number of this thread, for counts that threads keep apart: one that all of them write would travel between the cores
/// with every request. Numbers begin at 0 and rise by 1.
#[inline]
pub fn stripe() -> usize {
    thread_local! {
        static STRIPE: usize = {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            NEXT.fetch_add(1, Ordering::Relaxed)
        };
    }
    STRIPE.with(|stripe| *stripe)
}

#[inline]
fn nanos(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

fn seconds(nanos: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let seconds = nanos as f64 / SECOND as f64;
    seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let bucket = |nanos| Bounds::REQUESTS.bucket(Duration::from_nanos(nanos));
        assert_eq!([0, 3_000, 3_001, 10_000].map(bucket), [0, 0, 1, 1]);
        assert_eq!([SECOND, SECOND + 1, u64::MAX].map(bucket), [11, 12, 12]);
        for bounds in [Bounds::REQUESTS, Bounds::STORE_CALLS] {
            assert!(bounds.0.is_sorted_by(|one, next| one < next), "{bounds:?}");
        }
        assert_eq!(Bounds::REQUESTS.seconds()[0].to_string(), "0.000003");
    }

    #[test]
    fn times_are_counted_and_added_up() {
        let histogram = Histogram::default();
        histogram.add(&Bounds::REQUESTS, Duration::from_micros(5), 3);
        histogram.add(&Bounds::REQUESTS, Duration::from_secs(2), 1);
        let latencies = histogram.get().plus(histogram.get());
        assert_eq!((latencies.count(), latencies.counts[1], latencies.counts[12]), (8, 6, 2));
        assert_eq!(latencies.nanos, 2 * (15_000 + 2 * SECOND));
    }
}
