//! Back-off: how long to wait after a failure.
//!
//! `calls` and the cache's refill wait by it; `servers` leaves a failing server alone for it. Nothing here sleeps.

use std::time::Duration;

/// The first wait.
const FIRST: Duration = Duration::from_millis(50);
/// The longest.
const LONGEST: Duration = Duration::from_secs(2);

/// Waits that double after each failure, with jitter, so that clients that lost one server do not return to it in step.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The next wait: anything up to the bound ("full jitter").
    pub(crate) fn next(&mut self) -> Duration {
        let bound = self.raise();
        random(Duration::ZERO, bound)
    }

    /// The next wait that is at least half of the bound: for leaving somebody alone, rather than for spreading out.
    pub(crate) fn next_half(&mut self) -> Duration {
        let bound = self.raise();
        random(bound / 2, bound)
    }

    /// After a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Whether something has failed since the last success.
    pub(crate) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    fn raise(&mut self) -> Duration {
        let bound = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        bound
    }
}

fn random(from: Duration, to: Duration) -> Duration {
    from + (to - from).mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_start_over_after_a_success() {
        let mut backoff = Backoff::default();
        let mut bound = FIRST;
        for _ in 0..100 {
            assert!(backoff.next() <= bound);
            bound = (bound * 2).min(LONGEST);
        }
        assert!(backoff.next_half() >= LONGEST / 2 && backoff.has_failed());
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }

    #[test]
    fn waits_are_spread_over_the_whole_range() {
        let wait = || {
            let mut backoff = Backoff { failures: 10 };
            backoff.next()
        };
        let waits: Vec<Duration> = (0..200).map(|_| wait()).collect();
        assert!(waits.iter().any(|wait| *wait < LONGEST / 4));
        assert!(waits.iter().any(|wait| *wait > LONGEST * 3 / 4));
    }
}
