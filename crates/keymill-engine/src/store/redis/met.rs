//! What the connections to a Redis server know together, and which of them still count.
//!
//! An address may lead to another server than before, and connections that were made then stay open.
//! Each of them may notice it; then those that are as old are closed instead of being used again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// What all connections of one store have met.
#[derive(Debug, Default)]
pub(super) struct Met {
    /// Whether the server was ever seen with a replica.
    replicated: AtomicBool,
    /// The highest timeline.
    timeline: AtomicU64,
    /// Connections that were made before this are not used again.
    given_up: Mutex<Option<Instant>>,
}

impl Met {
    pub(super) fn is_replicated(&self) -> bool {
        self.replicated.load(Ordering::SeqCst)
    }

    /// Takes in what a connection has found at its other end. On a higher timeline, those made before
    /// it may lead to a server whose place another has taken.
    pub(super) fn learn(&self, made_at: Instant, timeline: u64, replicated: bool) {
        self.replicated.store(replicated, Ordering::SeqCst);
        let before = self.timeline.fetch_max(timeline, Ordering::SeqCst);
        if (1..timeline).contains(&before) {
            self.give_up(made_at);
        }
    }

    /// Has no connection used again that was made before this time.
    pub(super) fn give_up(&self, before: Instant) {
        let mut given_up = self.given_up();
        *given_up = (*given_up).max(Some(before));
    }

    /// Whether a connection that was made at this time is not to be used again.
    pub(super) fn has_given_up(&self, made_at: Instant) -> bool {
        self.given_up().is_some_and(|before| made_at < before)
    }

    fn given_up(&self) -> MutexGuard<'_, Option<Instant>> {
        self.given_up.lock().expect("nothing panics while it is held")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Three connections, made one after the other.
    fn made() -> [Instant; 3] {
        let first = Instant::now();
        [0, 1, 2].map(|seconds| first + Duration::from_secs(seconds))
    }

    #[test]
    fn connections_made_before_one_that_is_given_up_are_too_and_stay_so() {
        let (met, [old, middle, new]) = (Met::default(), made());
        assert!(!met.has_given_up(old));
        met.give_up(new);
        met.give_up(middle);
        assert_eq!([old, middle, new].map(|it| met.has_given_up(it)), [true, true, false]);
    }

    #[test]
    fn a_higher_timeline_gives_up_what_was_made_before_it_was_met() {
        let (met, [old, middle, new]) = (Met::default(), made());
        met.learn(old, 7, false);
        met.learn(middle, 7, false);
        assert!(!met.has_given_up(old), "the first timeline is no other than before");
        met.learn(new, 8, true);
        assert_eq!([old, middle, new].map(|it| met.has_given_up(it)), [true, true, false]);
        assert!(met.is_replicated());
    }
}
