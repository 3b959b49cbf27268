//! The queue: callers who found a source dry wait here until `supply` has filled it.
//!
//! Each source that `supply` fills has one. It wakes the supply task, holds callers back, bounded in
//! number and in time, and tells them by the outlook why they wait in vain. Nobody comes here while
//! the source has keys. It never touches the store.
//!
//! # Invariants
//!
//! - No filling slips by a caller: one listens before it looks for the last time.
//! - What waiting callers want is in the shortfall for exactly as long as they wait.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::outlook::{NotReady, Outlook};

/// By when a take must have its keys.
pub(crate) type Deadline = Instant;

/// Callers who wait for one source, and the task that fills it.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Wakes `supply`.
    low: Notify,
    /// A heartbeat has passed, which `supply` has not seen yet.
    beat_passed: AtomicBool,
    /// Wakes callers who wait.
    filled: Notify,
    places: Semaphore,
    wait_max: Duration,
    /// How much waiting callers want in all.
    shortfall: AtomicU64,
    outlook: ArcSwap<Outlook>,
}

/// What a waiting caller finds when it looks at the source.
#[derive(Debug)]
pub(super) enum Look {
    /// Numbers, which now are the caller's.
    Drawn(Range<u64>),
    /// None before this time has passed, and then for certain.
    Ahead(Duration),
    /// Too few, until `supply` brings more.
    Dry,
}

impl Queue {
    /// At most `waiting_max` callers wait, for at most `wait_max`.
    pub(super) fn new(waiting_max: usize, wait_max: Duration) -> Queue {
        Queue {
            low: Notify::new(),
            beat_passed: AtomicBool::new(false),
            filled: Notify::new(),
            places: Semaphore::new(waiting_max.min(Semaphore::MAX_PERMITS)),
            wait_max,
            shortfall: AtomicU64::new(0),
            outlook: ArcSwap::from_pointee(Outlook::Filling),
        }
    }

    /// By when a take that begins now must have its keys.
    pub(crate) fn deadline(&self) -> Deadline {
        Instant::now() + self.wait_max
    }

    /// How long a caller waits.
    pub(super) fn wait_max(&self) -> Duration {
        self.wait_max
    }

    /// Waits until `look` has found something, no later than `deadline`.
    #[cold]
    pub(super) async fn wait(
        &self,
        wanted: u64,
        deadline: Deadline,
        look: impl Fn() -> Result<Look, NotReady>,
    ) -> Result<Range<u64>, NotReady> {
        self.wake_supply();
        let Ok(_place) = self.places.try_acquire() else {
            return Err(NotReady::Crowded);
        };
        let _wish = Wish::new(&self.shortfall, wanted);
        loop {
            let mut filled = std::pin::pin!(self.filled.notified());
            // Listening starts before the last look, so that no filling slips between.
            filled.as_mut().enable();
            match look()? {
                Look::Drawn(numbers) => return Ok(numbers),
                Look::Ahead(time) => {
                    let at = Instant::now() + time;
                    if at > deadline {
                        return Err(NotReady::too_fast());
                    }
                    sleep_until(at).await;
                    continue;
                }
                Look::Dry => {}
            }
            self.outlook.load().check_hope()?;
            self.wake_supply();
            if timeout_at(deadline, filled).await.is_err() {
                return Err(self.outlook.load().after_waiting());
            }
        }
    }

    /// Refuses a demand for `wanted` that would wait in vain, given how much is left. A batch that must
    /// fail is better refused before it has drawn what others could have had.
    pub(super) fn check_wait(&self, wanted: u64, left: impl Fn() -> u64) -> Result<(), NotReady> {
        let outlook = self.outlook.load();
        match &**outlook {
            Outlook::Unreachable(_) | Outlook::NoWorker(_) if left() < wanted => {
                Err(outlook.after_waiting())
            }
            _ => Ok(()),
        }
    }

    /// What a caller who finds the source dry can expect.
    pub(crate) fn outlook(&self) -> Arc<Outlook> {
        self.outlook.load_full()
    }

    /// Whether no more will come: every ordinal is granted, or the space was ended.
    pub(super) fn is_at_end(&self) -> bool {
        matches!(**self.outlook.load(), Outlook::Exhausted { .. } | Outlook::Sealed)
    }

    /// Changes that, and has those who wait look at it.
    pub(crate) fn set_outlook(&self, outlook: Outlook) {
        if **self.outlook.load() != outlook {
            self.outlook.store(Arc::new(outlook));
        }
        self.wake_callers();
    }

    /// Takes back what the heartbeat, or a lease, said of a store that was rolled back.
    pub(crate) fn recovered(&self) {
        if matches!(**self.outlook.load(), Outlook::RolledBack(_)) {
            self.set_outlook(Outlook::Filling);
            self.wake_supply();
        }
    }

    /// Why nothing can be drawn any more: sources are sealed when the instance stops, and when the space
    /// was ended.
    #[cold]
    pub(super) fn why_sealed(&self) -> NotReady {
        match &**self.outlook.load() {
            Outlook::Sealed => NotReady::Sealed,
            _ => NotReady::Stopping,
        }
    }

    /// How much waiting callers want in all.
    pub(crate) fn shortfall(&self) -> u64 {
        self.shortfall.load(Ordering::Relaxed)
    }

    /// Has callers who wait look again.
    pub(super) fn wake_callers(&self) {
        self.filled.notify_waiters();
    }

    /// Has `supply` look whether more is wanted. Once a lease, so it is kept out of the way of a draw.
    #[cold]
    pub(crate) fn wake_supply(&self) {
        self.low.notify_one();
    }

    /// Resolves once `supply` should look whether more is wanted. Only `supply` waits for it.
    pub(crate) async fn supply_is_wanted(&self) {
        self.low.notified().await;
    }

    /// Tells `supply` that a heartbeat has passed, where it waits for one.
    pub(crate) fn beat(&self) {
        if !matches!(**self.outlook.load(), Outlook::Filling | Outlook::PoolFilling) {
            self.beat_anyway();
        }
    }

    /// The same, whatever it waits for.
    pub(crate) fn beat_anyway(&self) {
        self.beat_passed.store(true, Ordering::Relaxed);
        self.wake_supply();
    }

    /// Whether there was a heartbeat since the last look.
    pub(crate) fn beat_has_passed(&self) -> bool {
        self.beat_passed.swap(false, Ordering::Relaxed)
    }
}

/// What one waiting caller adds to the shortfall, until it stops waiting.
struct Wish<'a> {
    shortfall: &'a AtomicU64,
    wanted: u64,
}

impl<'a> Wish<'a> {
    fn new(shortfall: &'a AtomicU64, wanted: u64) -> Wish<'a> {
        shortfall.fetch_add(wanted, Ordering::Relaxed);
        Wish { shortfall, wanted }
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.shortfall.fetch_sub(self.wanted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::leased::Mill;

    #[tokio::test(start_paused = true)]
    async fn a_caller_who_finds_it_dry_gets_the_first_keys_that_come() {
        let mill = Arc::new(Mill::new(1, Duration::from_secs(1)));
        let caller = tokio::spawn({
            let mill = mill.clone();
            async move { mill.draw(5, mill.queue.deadline()).await }
        });
        mill.queue.supply_is_wanted().await;
        assert_eq!(mill.queue.shortfall(), 5);
        mill.fill(10..13);
        // Too few, as long as more may come: whoever wants one key finds one.
        assert_eq!(mill.draw(1, mill.queue.deadline()).await, Ok(10..11));
        mill.fill(13..16);
        assert_eq!(caller.await.unwrap(), Ok(11..13));
        assert_eq!((mill.queue.shortfall(), mill.drawn(), mill.left()), (0, 3, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_is_bounded_in_time_and_number() {
        let mill = Arc::new(Mill::new(1, Duration::from_secs(1)));
        mill.queue.set_outlook(Outlook::Unreachable("gone fishing".to_owned()));
        let first = tokio::spawn({
            let mill = mill.clone();
            async move { mill.draw(1, mill.queue.deadline()).await }
        });
        mill.queue.supply_is_wanted().await;
        assert_eq!(mill.draw(1, mill.queue.deadline()).await, Err(NotReady::Crowded));
        assert_eq!(first.await.unwrap(), Err(NotReady::Unreachable("gone fishing".to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_of_an_empty_pool_is_told_that_it_is_being_filled() {
        let mill = Mill::new(1, Duration::from_secs(1));
        mill.queue.set_outlook(Outlook::PoolFilling);
        assert_eq!(mill.draw(1, mill.queue.deadline()).await, Err(NotReady::PoolFilling));
        mill.fill(0..1);
        assert_eq!(mill.draw(1, mill.queue.deadline()).await, Ok(0..1));
    }

    #[tokio::test]
    async fn keys_at_hand_are_served_whatever_the_outlook() {
        let mill = Mill::new(1, Duration::from_secs(1));
        mill.fill(0..2);
        mill.queue.set_outlook(Outlook::Exhausted { held_elsewhere: 9 });
        assert_eq!(mill.draw(1, mill.queue.deadline()).await, Ok(0..1));
        assert_eq!(mill.draw(9, mill.queue.deadline()).await, Ok(1..2));
        assert_eq!(
            mill.draw(1, mill.queue.deadline()).await,
            Err(NotReady::Exhausted { held_elsewhere: 9 })
        );
    }
}
