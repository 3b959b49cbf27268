//! What all workers of a bench share: the plan, how far it is, and whether it is over.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use keymill_client::Error as ClientError;
use tokio::sync::Semaphore;

use super::plan::{Load, Plan};
use super::tally::Tally;
use super::target::Target;
use super::told::Asked;
use super::values::Rate;

/// For how long a request must have been due to count as one that was not sent. Each needs a moment to begin, so that
/// some always are due when a bench ends.
const LATE_MIN: Duration = Duration::from_millis(100);

/// Shared by all workers.
pub(super) struct Shared {
    pub(super) target: Target,
    pub(super) plan: Plan,
    pub(super) begun: Instant,
    /// What each worker counted since the last look.
    pub(super) tallies: Vec<Mutex<Tally>>,
    /// How many users there should be now.
    pub(super) wanted: AtomicU32,
    pub(super) pace: Option<Pace>,
    quota: Option<Quota>,
    has_acknowledged: AtomicBool,
    is_over: AtomicBool,
    end: Mutex<Option<End>>,
}

/// Why a bench has ended.
#[derive(Debug)]
pub(super) enum End {
    /// The time is over.
    Time,
    /// All keys have come.
    Keys,
    /// Somebody has stopped it.
    Signal,
    /// No key came for a long time.
    Stalled,
    /// A server refused the first request, and would refuse all others, too.
    Refused(ClientError),
    /// Keys cannot be taken in any more.
    Broken,
}

/// When requests are due.
#[derive(Debug)]
pub(super) struct Pace {
    pub(super) rate: Rate,
    /// One for each request that is due and not begun.
    permits: Semaphore,
    begun: AtomicU64,
}

/// How many keys may still be asked for.
#[derive(Debug)]
struct Quota {
    unclaimed: AtomicU64,
    missing: AtomicU64,
}

impl Shared {
    pub(super) fn new(target: Target, plan: Plan, workers: usize) -> Shared {
        let pace = match plan.load {
            Load::Rate { rate, .. } => Some(Pace::new(rate)),
            _ => None,
        };
        let quota = plan.keys.map(Quota::new);
        let tallies = (0..workers).map(|_| Mutex::default()).collect();
        Shared {
            target,
            plan,
            begun: Instant::now(),
            tallies,
            wanted: AtomicU32::new(0),
            pace,
            quota,
            has_acknowledged: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            end: Mutex::new(None),
        }
    }

    /// Ends the bench; the first reason counts. Requests under way are still answered.
    pub(super) fn finish(&self, end: End) {
        lock(&self.end).get_or_insert(end);
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(pace) = &self.pace {
            pace.permits.close();
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Why it has ended.
    pub(super) fn end(&self) -> End {
        lock(&self.end).take().unwrap_or(End::Time)
    }

    /// Whether a user should go on.
    pub(super) fn wants(&self, user: usize) -> bool {
        let wanted = usize::try_from(self.wanted.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        !self.is_over() && user < wanted
    }

    /// What to ask for next; `None` if so many keys are asked for already.
    pub(super) fn claim(&self) -> Option<Asked> {
        let usual = Asked { requests: self.target.pipeline, count: self.target.count };
        match &self.quota {
            None => Some(usual),
            Some(quota) => quota.claim(usual),
        }
    }

    /// How many of the keys that were asked for have come.
    pub(super) fn settle(&self, asked: Asked, received: u64) {
        if let Some(quota) = &self.quota
            && quota.settle(asked, received)
        {
            self.finish(End::Keys);
        }
    }

    pub(super) fn note_acknowledged(&self) {
        if !self.has_acknowledged.load(Ordering::Relaxed) {
            self.has_acknowledged.store(true, Ordering::Relaxed);
        }
    }

    /// A server refused, and asking again would not help. Where nothing has worked yet, nothing will.
    pub(super) fn note_refused(&self, error: ClientError) {
        if !self.has_acknowledged.load(Ordering::Relaxed) {
            self.finish(End::Refused(error));
        }
    }

    /// All that was counted since the last look.
    pub(super) fn take_tally(&self) -> Tally {
        let mut sum = Tally::default();
        for tally in &self.tallies {
            let counted = std::mem::take(&mut *lock(tally));
            sum.add(&counted);
        }
        sum
    }
}

impl Pace {
    fn new(rate: Rate) -> Pace {
        Pace { rate, permits: Semaphore::new(0), begun: AtomicU64::new(0) }
    }

    /// Lets so many requests begin.
    pub(super) fn release(&self, count: u64) {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS / 2);
        self.permits.add_permits(count);
    }

    /// How many requests are late: due for longer than `LATE_MIN` after a time, and not begun.
    pub(super) fn late(&self, elapsed: Duration) -> u64 {
        match elapsed.checked_sub(LATE_MIN) {
            Some(due) => self.rate.due(due).saturating_sub(self.begun.load(Ordering::Relaxed)),
            None => 0,
        }
    }

    /// Waits until a request is due, and returns its number; `None` when it is over.
    pub(super) async fn next(&self) -> Option<u64> {
        self.permits.acquire().await.ok()?.forget();
        Some(self.begun.fetch_add(1, Ordering::Relaxed))
    }
}

impl Quota {
    fn new(keys: u64) -> Quota {
        Quota { unclaimed: AtomicU64::new(keys), missing: AtomicU64::new(keys) }
    }

    /// As much of the usual as is left.
    fn claim(&self, usual: Asked) -> Option<Asked> {
        let left_of = |unclaimed: u64| {
            let requests = (unclaimed / u64::from(usual.count)).min(u64::from(usual.requests));
            match u32::try_from(requests).unwrap_or(usual.requests) {
                // The last request asks for what is left.
                0 => Asked { requests: 1, count: u32::try_from(unclaimed).unwrap_or(usual.count) },
                requests => Asked { requests, count: usual.count },
            }
        };
        let claim = |unclaimed: u64| unclaimed.checked_sub(left_of(unclaimed).keys());
        let claimed = self.unclaimed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim);
        Some(left_of(claimed.ok()?)).filter(|asked| asked.keys() > 0)
    }

    /// Gives back what did not come. Returns whether nothing is missing any more.
    fn settle(&self, asked: Asked, received: u64) -> bool {
        self.unclaimed.fetch_add(asked.keys().saturating_sub(received), Ordering::Relaxed);
        let before = self.missing.fetch_sub(received, Ordering::Relaxed);
        received > 0 && before == received
    }
}

/// Locks what nobody leaves in a wrong state, even by a panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_that_were_due_for_long_and_not_begun_are_late() {
        let pace = Pace::new(Rate { count: 10, per: Duration::from_secs(1) });
        pace.release(21);
        for _ in 0..5 {
            pace.next().await.unwrap();
        }
        let late = [0, 99, 100, 500, 2_100].map(|it| pace.late(Duration::from_millis(it)));
        assert_eq!(late, [0, 0, 0, 0, 16], "one is due at once, and one each 100 ms");
    }

    #[test]
    fn exactly_as_many_keys_are_asked_for_as_are_wanted() {
        let quota = Quota::new(25);
        let usual = Asked { requests: 2, count: 10 };
        let first = quota.claim(usual).unwrap();
        assert_eq!(first, usual);
        let last = quota.claim(usual).unwrap();
        assert_eq!(last, Asked { requests: 1, count: 5 });
        assert_eq!(quota.claim(usual), None);
        assert!(!quota.settle(first, 13), "seven did not come");
        let again = quota.claim(usual).unwrap();
        assert_eq!(again, Asked { requests: 1, count: 7 });
        assert!(!quota.settle(last, 5));
        assert!(!quota.settle(again, 0), "and not this time");
        assert!(quota.settle(quota.claim(usual).unwrap(), 7));
    }
}
