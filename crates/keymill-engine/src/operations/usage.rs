//! Usage: how a space was used since this instance started, over all protocols.
//!
//! Takes and digests note here how long they took and what came of them; `/v1/activity` tells it. Nothing is allocated
//! for a space before its first request, so that ten thousand that nobody uses cost nothing.

use std::array;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::latency::{BUCKETS, Bounds, stripe};

/// The most parts that the counts of a space are kept in, 128 bytes each.
const STRIPES_MAX: usize = 8;

/// The requests for keys of a space.
#[derive(Debug, Default)]
pub(super) struct Usage {
    stripes: OnceLock<Box<[Stripe]>>,
}

/// Requests counted by some of the threads, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    latencies: [AtomicU64; BUCKETS],
    /// Those of them that were refused.
    failures: AtomicU64,
    /// How many keys more than one each request has got; below zero it wraps. A request for one key, which is what nearly
    /// all are, need not count here.
    more_keys: AtomicU64,
}

/// How a space was used since the start, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpaceUsage {
    /// Requests for keys that reached it.
    pub requests: u64,
    /// Those of them that got none.
    pub failures: u64,
    /// Keys handed out.
    pub keys: u64,
    /// The requests by how long they took, in the buckets of [`Bounds::REQUESTS`].
    pub latency_counts: [u64; BUCKETS],
}

impl Usage {
    /// Notes requests that were answered together, with so many keys in all.
    #[inline]
    pub(super) fn note(&self, took: Duration, requests: u32, keys: u32) {
        let stripe = self.stripe();
        let bucket = Bounds::REQUESTS.bucket(took);
        stripe.latencies[bucket].fetch_add(requests.into(), Ordering::Relaxed);
        if keys != requests {
            let more = u64::from(keys).wrapping_sub(requests.into());
            stripe.more_keys.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Notes a request that came at `began`, with the keys that it got; none where it was refused.
    pub(super) fn note_end(&self, began: Instant, keys: Option<usize>) {
        let took = began.elapsed();
        match keys {
            Some(keys) => self.note(took, 1, u32::try_from(keys).unwrap_or(u32::MAX)),
            None => self.note_failure(took),
        }
    }

    #[cold]
    fn note_failure(&self, took: Duration) {
        let stripe = self.stripe();
        stripe.latencies[Bounds::REQUESTS.bucket(took)].fetch_add(1, Ordering::Relaxed);
        stripe.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// All of it, a moment old.
    pub(super) fn get(&self) -> SpaceUsage {
        let stripes = self.stripes.get().map_or(&[][..], |stripes| stripes);
        let sum = |of: &dyn Fn(&Stripe) -> &AtomicU64| {
            let counts = stripes.iter().map(|stripe| of(stripe).load(Ordering::Relaxed));
            counts.fold(0_u64, u64::wrapping_add)
        };
        let more_keys = sum(&|stripe| &stripe.more_keys);
        let failures = sum(&|stripe| &stripe.failures);
        let latency_counts = array::from_fn(|bucket| sum(&|stripe| &stripe.latencies[bucket]));
        let requests: u64 = latency_counts.iter().sum();
        let keys = requests.wrapping_sub(failures).wrapping_add(more_keys);
        // A request that is counted right now may be in one count and not yet in the other.
        let keys = if keys > i64::MAX as u64 { 0 } else { keys };
        SpaceUsage { requests, failures: failures.min(requests), keys, latency_counts }
    }

    #[inline]
    fn stripe(&self) -> &Stripe {
        let stripes =
            self.stripes.get_or_init(|| (0..count()).map(|_| Stripe::default()).collect());
        &stripes[stripe() % stripes.len()]
    }
}

/// How many stripes a space has: no more than threads can run at once.
fn count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        std::thread::available_parallelism().map_or(1, usize::from).min(STRIPES_MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_that_nobody_uses_has_no_counts_in_memory() {
        let usage = Usage::default();
        assert_eq!(usage.get(), SpaceUsage::default());
        assert!(usage.stripes.get().is_none());
        assert_eq!(size_of::<Stripe>(), 128);
    }

    #[test]
    fn keys_are_those_of_all_requests_that_did_not_fail() {
        let usage = Usage::default();
        let (fast, slow) = (Duration::from_micros(2), Duration::from_secs(2));
        usage.note(fast, 1, 1);
        usage.note(fast, 1, 100);
        // A pipeline of three, and one that found nothing.
        usage.note(fast, 3, 3);
        usage.note(fast, 1, 0);
        usage.note_failure(slow);
        let used = usage.get();
        assert_eq!((used.requests, used.failures, used.keys), (7, 1, 104));
        assert_eq!((used.latency_counts[0], used.latency_counts[12]), (6, 1));
    }

    #[test]
    fn threads_that_count_at_once_lose_nothing() {
        let usage = Usage::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| usage.note(Duration::ZERO, 1, 2)));
            }
        });
        assert_eq!((usage.get().requests, usage.get().keys), (40_000, 80_000));
    }
}
