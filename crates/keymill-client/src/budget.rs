//! The retry budget: how often requests may be sent again, over all calls of a client.
//!
//! `calls` asks before it sends a request that a server may have seen already. Without a budget, servers that answer slowly
//! would get every request several times, at the worst moment.
//!
//! # Invariants
//!
//! - Over the life of a client, retries are at most a fifth of its calls, and [`STARTING`] more.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a call adds. A retry takes [`RETRY`].
const CALL: u64 = 1;
const RETRY: u64 = 5;
/// How many retries a new client may make.
const STARTING: u64 = 10;
/// How many retries can be saved up: enough for the calls that are under way when a busy server is killed.
const SAVED_MAX: u64 = 500;

/// How many retries are left.
#[derive(Debug)]
pub(crate) struct Budget {
    left: AtomicU64,
}

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget { left: AtomicU64::new(STARTING * RETRY) }
    }

    /// Counts a call.
    pub(crate) fn add_call(&self) {
        let raise = |left: u64| (left < SAVED_MAX * RETRY).then_some(left + CALL);
        // An error only says that enough is saved.
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise);
    }

    /// Takes a retry, if one is left.
    pub(crate) fn take_retry(&self) -> bool {
        let lower = |left: u64| left.checked_sub(RETRY);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_fifth_of_the_calls_and_a_few() {
        let budget = Budget::new();
        let retries = |budget: &Budget| (0..10_000).take_while(|_| budget.take_retry()).count();
        assert_eq!(retries(&budget), 10);
        for _ in 0..100 {
            budget.add_call();
        }
        assert_eq!(retries(&budget), 20);
        for _ in 0..100_000 {
            budget.add_call();
        }
        assert_eq!(retries(&budget), 500, "no more is saved up");
    }
}
