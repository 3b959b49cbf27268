//! A mill: the in-memory source of one space's ordinals.
//!
//! `operations` draws from it on every take, and only when both leases are spent does a caller
//! wait, bounded in number and in time. `supply` fills it. It never touches the store.
//!
//! # Invariants
//!
//! - What a take has drawn and does not hand out comes back ([`Drawn`]) and is drawn again before
//!   anything else, unless the mill was sealed meanwhile: then it is a gap.
//! - What a large take has drawn is *out* until its keys are written. A lease with ordinals that are
//!   out is not spent, and once an advance has overtaken it, they are neither written nor put back.
//! - A take that wants more than there is waits for the rest before it draws, so that small takes
//!   beside it find what is at hand.

mod drawn;
mod out;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use super::lease::{Draw, LEASE_SIZE_MAX, Leases};
use super::ticks::{DrawIds, Worker};
use crate::space::{Timeline, Tuning};
use crate::store::RolledBack;

pub(crate) use drawn::Drawn;
use out::Out;
pub(crate) use out::OutId;

// A lease of any size that a keyspace may be set to can be counted. Not said in `lease.rs`, because
// loom compiles that file alone.
const _: () = assert!(LEASE_SIZE_MAX == Tuning::LEASE_SIZE_MAX);

/// What is wrong where a layout has too few IDs a tick.
const TOO_FAST: &str = "IDs are requested faster than its layout can make them; try again, or use \
                        a layout with more sequence bits";

/// By when a take must have its keys.
pub(crate) type Deadline = Instant;

/// The source of one space's ordinals; of a snowflake space's IDs.
#[derive(Debug)]
pub struct Mill {
    pub(crate) leases: Leases,
    /// Where IDs come from instead, if they are made of the time.
    worker: Option<Worker>,
    /// What was drawn and came back, in no order; `None` once the mill is sealed.
    came_back: Mutex<Option<Vec<Range<u64>>>>,
    /// How many ordinals that is, for draws to see without a lock.
    came_back_count: AtomicU64,
    /// What large takes have drawn and not written yet. Locked before `came_back`, never after.
    out: Mutex<Out>,
    /// Wakes `supply`.
    pub(crate) low: Notify,
    /// A heartbeat has passed, which `supply` has not seen yet.
    beaten: AtomicBool,
    /// Wakes callers who wait.
    filled: Notify,
    places: Semaphore,
    wait_max: Duration,
    /// How many ordinals waiting callers want in all.
    shortfall: AtomicU64,
    offered: AtomicU64,
    outlook: ArcSwap<Outlook>,
}

/// What a caller who finds the mill dry can expect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outlook {
    /// A lease is on its way, or will be as soon as somebody wants one.
    Filling,
    /// The store does not answer; `supply` keeps asking.
    Away(String),
    /// The pool is empty and being filled.
    PoolFilling,
    /// Every ordinal is granted; asked again with every heartbeat.
    Exhausted {
        /// How many are in open leases of other instances.
        held_elsewhere: u64,
    },
    /// Every worker of a snowflake space is held by others; asked again and again.
    NoWorker(String),
    /// The space was ended.
    Sealed,
    /// The store lies below what was seen of it.
    RolledBack(Arc<RolledBack>),
}

/// Why a mill gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// No lease came in time.
    #[error("{0}")]
    Late(String),
    /// The store does not answer, and this is what was met.
    #[error("the store is unreachable ({0})")]
    Away(String),
    /// The pool is empty and being filled.
    #[error("the pool is empty and being filled")]
    PoolFilling,
    /// Every worker of a snowflake space is held by others.
    #[error("{0}")]
    NoWorker(String),
    /// More callers wait than may.
    #[error("too many requests are already waiting for new ones; try again")]
    Crowded,
    /// Every key is granted.
    #[error("all keys are leased; {held_elsewhere} of them are held by other instances")]
    Exhausted {
        /// How many are in open leases of other instances.
        held_elsewhere: u64,
    },
    /// The space was ended.
    #[error("the keyspace is sealed")]
    Sealed,
    /// The store lies below what was seen of it.
    #[error(transparent)]
    RolledBack(Arc<RolledBack>),
    /// This instance gives its leases back.
    #[error("this instance is stopping")]
    Stopping,
}

impl Mill {
    /// A mill that leases on first demand. At most `waiting_max` callers wait, for at most
    /// `wait_max`.
    pub fn new(waiting_max: usize, wait_max: Duration) -> Mill {
        Mill {
            leases: Leases::new(),
            worker: None,
            came_back: Mutex::new(Some(Vec::new())),
            came_back_count: AtomicU64::new(0),
            out: Mutex::default(),
            beaten: AtomicBool::new(false),
            low: Notify::new(),
            filled: Notify::new(),
            places: Semaphore::new(waiting_max.min(Semaphore::MAX_PERMITS)),
            wait_max,
            shortfall: AtomicU64::new(0),
            offered: AtomicU64::new(0),
            outlook: ArcSwap::from_pointee(Outlook::Filling),
        }
    }

    /// The same of a snowflake space: what is drawn are IDs.
    pub fn of_ids(timeline: Timeline, waiting_max: usize, wait_max: Duration) -> Mill {
        Mill { worker: Some(Worker::new(timeline)), ..Mill::new(waiting_max, wait_max) }
    }

    /// Where IDs come from, if they are made of the time.
    pub fn worker(&self) -> Option<&Worker> {
        self.worker.as_ref()
    }

    /// Draws up to `wanted` ordinals, at least one, waiting until `deadline` where there are too few.
    #[inline]
    pub async fn draw(&self, wanted: u64, deadline: Deadline) -> Result<Range<u64>, NotReady> {
        if self.can_draw(wanted)
            && let Some(ordinals) = self.try_draw(wanted)?
        {
            return Ok(ordinals);
        }
        self.wait(wanted, deadline).await
    }

    /// By when a take that begins now must have its keys.
    pub fn deadline(&self) -> Deadline {
        Instant::now() + self.wait_max
    }

    /// Whether there is enough for a draw of `wanted`; or as much as there can be, because both
    /// leases are there or no more will come.
    fn can_draw(&self, wanted: u64) -> bool {
        wanted == 1
            || self.worker.is_some()
            || self.left() >= wanted
            || self.leases.has_next()
            || matches!(**self.outlook.load(), Outlook::Exhausted { .. } | Outlook::Sealed)
    }

    /// Draws without waiting; `None` when the mill is dry.
    #[inline]
    pub fn try_draw(&self, wanted: u64) -> Result<Option<Range<u64>>, NotReady> {
        if let Some(worker) = &self.worker {
            return match worker.draw(wanted) {
                DrawIds::Drawn(ids) => Ok(Some(ids)),
                DrawIds::Ahead(_) | DrawIds::Dry => Ok(None),
                DrawIds::Sealed => Err(self.why_sealed()),
            };
        }
        if self.came_back_count.load(Ordering::Relaxed) > 0
            && let Some(ordinals) = self.draw_again(wanted)
        {
            return Ok(Some(ordinals));
        }
        match self.leases.draw(wanted) {
            Draw::Drawn { ordinals, low } => {
                if low {
                    self.low.notify_one();
                }
                Ok(Some(ordinals))
            }
            Draw::Dry => Ok(None),
            Draw::Sealed => Err(self.why_sealed()),
        }
    }

    /// Whether a demand for `wanted` can be met, or may be while it waits. A batch that must
    /// fail is better refused before it has drawn what others could have had.
    pub fn can_meet(&self, wanted: u64) -> Result<(), NotReady> {
        if self.worker.as_ref().is_some_and(|it| it.most_in(self.wait_max) < wanted) {
            return Err(NotReady::Late(TOO_FAST.to_owned()));
        }
        match &**self.outlook.load() {
            Outlook::Away(reason) if self.left() < wanted => Err(NotReady::Away(reason.clone())),
            Outlook::NoWorker(reason) if self.left() < wanted => {
                Err(NotReady::NoWorker(reason.clone()))
            }
            _ => Ok(()),
        }
    }

    /// How many ordinals can be drawn right now.
    pub fn left(&self) -> u64 {
        let leased = || self.leases.left() + self.came_back_count.load(Ordering::Relaxed);
        self.worker.as_ref().map_or_else(leased, Worker::left)
    }

    /// How many ordinals can be drawn of the leases themselves.
    pub(crate) fn left_of_leases(&self) -> u64 {
        self.leases.left()
    }

    /// Takes in again what was drawn and not handed out. IDs that are made of the time do not come
    /// back: there is always more of it.
    pub(crate) fn put_back(&self, ordinals: Range<u64>) {
        if self.worker.is_some() || ordinals.is_empty() {
            return;
        }
        if let Some(ranges) = self.came_back().as_mut() {
            let count = ordinals.end - ordinals.start;
            ranges.push(ordinals);
            self.came_back_count.fetch_add(count, Ordering::Relaxed);
        }
        self.filled.notify_waiters();
    }

    /// Whether some of these ordinals came back and wait to be drawn again.
    pub(crate) fn has_back(&self, ordinals: &Range<u64>) -> bool {
        let within =
            |range: &Range<u64>| ordinals.start <= range.start && range.end <= ordinals.end;
        self.came_back_count.load(Ordering::Relaxed) > 0
            && self.came_back().iter().flatten().any(within)
    }

    /// Ends drawing for good, and says what was left undrawn of the leases, and what came back.
    pub(crate) fn seal(&self) -> ([Range<u64>; 2], Vec<Range<u64>>) {
        let rests = self.leases.seal();
        let came_back = self.came_back().take().unwrap_or_default();
        self.came_back_count.store(0, Ordering::Relaxed);
        (rests, came_back)
    }

    /// Draws all that is at hand, to throw it away; how much it was. What is out is thrown away, too.
    pub(crate) fn discard(&self) -> u64 {
        // Held to the end, so that nothing comes back behind this loop.
        let mut out = self.out();
        out.discard();
        let mut discarded = 0;
        while let Ok(Some(ordinals)) = self.try_draw(u64::MAX) {
            discarded += ordinals.end - ordinals.start;
        }
        discarded
    }

    #[cold]
    fn draw_again(&self, wanted: u64) -> Option<Range<u64>> {
        let mut came_back = self.came_back();
        let ranges = came_back.as_mut()?;
        let last = ranges.last_mut()?;
        let end = last.end.min(last.start.saturating_add(wanted));
        let ordinals = last.start..end;
        last.start = end;
        if last.is_empty() {
            ranges.pop();
        }
        self.came_back_count.fetch_sub(end - ordinals.start, Ordering::Relaxed);
        Some(ordinals)
    }

    fn came_back(&self) -> MutexGuard<'_, Option<Vec<Range<u64>>>> {
        self.came_back.lock().expect("nothing panics while it is held")
    }

    /// Tells `supply` that a heartbeat has passed, where it waits for one.
    pub(crate) fn beat(&self) {
        if !matches!(**self.outlook.load(), Outlook::Filling | Outlook::PoolFilling) {
            self.wake();
        }
    }

    /// The same, whatever it waits for.
    pub(crate) fn wake(&self) {
        self.beaten.store(true, Ordering::Relaxed);
        self.low.notify_one();
    }

    /// Whether there was a heartbeat since the last look.
    pub(crate) fn was_beaten(&self) -> bool {
        self.beaten.swap(false, Ordering::Relaxed)
    }

    /// How many ordinals were drawn since the start.
    pub fn drawn(&self) -> u64 {
        if let Some(worker) = &self.worker {
            return worker.drawn();
        }
        // A draw between the two loads makes this at most a moment old, never wrong by more.
        let left = self.left();
        self.offered.load(Ordering::Acquire).saturating_sub(left)
    }

    /// What a caller who finds the mill dry can expect.
    pub fn outlook(&self) -> Arc<Outlook> {
        self.outlook.load_full()
    }

    pub(crate) fn shortfall(&self) -> u64 {
        self.shortfall.load(Ordering::Relaxed)
    }

    /// Takes a granted range in. Only `supply` calls this, when no lease waits.
    pub fn fill(&self, granted: Range<u64>) -> bool {
        let size = granted.end - granted.start;
        self.offered.fetch_add(size, Ordering::AcqRel);
        let taken = self.leases.offer(granted);
        self.set_outlook(Outlook::Filling);
        taken
    }

    /// Takes back what the heartbeat, or a lease, said of a store that was rolled back.
    pub(crate) fn recovered(&self) {
        if matches!(**self.outlook.load(), Outlook::RolledBack(_)) {
            self.set_outlook(Outlook::Filling);
            self.low.notify_one();
        }
    }

    pub(crate) fn set_outlook(&self, outlook: Outlook) {
        if **self.outlook.load() != outlook {
            self.outlook.store(Arc::new(outlook));
        }
        self.filled.notify_waiters();
    }

    /// Leases are sealed when the instance stops, and when the space was ended.
    #[cold]
    fn why_sealed(&self) -> NotReady {
        match &**self.outlook.load() {
            Outlook::Sealed => NotReady::Sealed,
            _ => NotReady::Stopping,
        }
    }

    #[cold]
    async fn wait(&self, wanted: u64, deadline: Deadline) -> Result<Range<u64>, NotReady> {
        self.low.notify_one();
        let Ok(_place) = self.places.try_acquire() else {
            return Err(NotReady::Crowded);
        };
        let _wish = Wish::new(&self.shortfall, wanted);
        loop {
            let mut filled = std::pin::pin!(self.filled.notified());
            // Listening starts before the last look, so that no filling slips between.
            filled.as_mut().enable();
            match self.worker.as_ref().map(|worker| worker.draw(wanted)) {
                Some(DrawIds::Drawn(ids)) => return Ok(ids),
                Some(DrawIds::Ahead(time)) => {
                    let at = Instant::now() + time;
                    if at > deadline {
                        return Err(NotReady::Late(TOO_FAST.to_owned()));
                    }
                    tokio::time::sleep_until(at).await;
                    continue;
                }
                Some(DrawIds::Sealed) => return Err(self.why_sealed()),
                Some(DrawIds::Dry) => {}
                None => {
                    if self.can_draw(wanted)
                        && let Some(ordinals) = self.try_draw(wanted)?
                    {
                        return Ok(ordinals);
                    }
                }
            }
            match &**self.outlook.load() {
                Outlook::Filling
                | Outlook::Away(_)
                | Outlook::PoolFilling
                | Outlook::NoWorker(_) => {}
                Outlook::Exhausted { held_elsewhere } => {
                    return Err(NotReady::Exhausted { held_elsewhere: *held_elsewhere });
                }
                Outlook::Sealed => return Err(NotReady::Sealed),
                Outlook::RolledBack(how) => return Err(NotReady::RolledBack(how.clone())),
            }
            self.low.notify_one();
            if tokio::time::timeout_at(deadline, filled).await.is_err() {
                return Err(match &**self.outlook.load() {
                    Outlook::Away(reason) => NotReady::Away(reason.clone()),
                    Outlook::PoolFilling => NotReady::PoolFilling,
                    Outlook::NoWorker(reason) => NotReady::NoWorker(reason.clone()),
                    _ => NotReady::Late(
                        "the store did not grant new ones in time; try again".to_owned(),
                    ),
                });
            }
        }
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

    #[tokio::test(start_paused = true)]
    async fn a_caller_who_finds_it_dry_gets_the_first_keys_that_come() {
        let mill = Arc::new(Mill::new(1, Duration::from_secs(1)));
        let caller = tokio::spawn({
            let mill = mill.clone();
            async move { mill.draw(5, mill.deadline()).await }
        });
        mill.low.notified().await;
        assert_eq!(mill.shortfall(), 5);
        mill.fill(10..13);
        // Too few, as long as more may come: whoever wants one key finds one.
        assert_eq!(mill.draw(1, mill.deadline()).await, Ok(10..11));
        mill.fill(13..16);
        assert_eq!(caller.await.unwrap(), Ok(11..13));
        assert_eq!((mill.shortfall(), mill.drawn(), mill.left()), (0, 3, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_is_bounded_in_time_and_number() {
        let mill = Arc::new(Mill::new(1, Duration::from_secs(1)));
        mill.set_outlook(Outlook::Away("gone fishing".to_owned()));
        let first = tokio::spawn({
            let mill = mill.clone();
            async move { mill.draw(1, mill.deadline()).await }
        });
        mill.low.notified().await;
        assert_eq!(mill.draw(1, mill.deadline()).await, Err(NotReady::Crowded));
        assert_eq!(first.await.unwrap(), Err(NotReady::Away("gone fishing".to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_of_an_empty_pool_is_told_that_it_is_being_filled() {
        let mill = Mill::new(1, Duration::from_secs(1));
        mill.set_outlook(Outlook::PoolFilling);
        assert_eq!(mill.draw(1, mill.deadline()).await, Err(NotReady::PoolFilling));
        mill.fill(0..1);
        assert_eq!(mill.draw(1, mill.deadline()).await, Ok(0..1));
    }

    #[tokio::test]
    async fn what_came_back_is_drawn_again_before_anything_else() {
        let mill = Mill::new(1, Duration::from_secs(1));
        mill.fill(0..10);
        let mut drawn = Drawn::of(&mill);
        drawn.add(mill.try_draw(4).unwrap().unwrap());
        drop(drawn);
        assert_eq!((mill.left(), mill.drawn()), (10, 0));
        assert!(mill.has_back(&(0..10)) && !mill.has_back(&(10..20)));
        assert_eq!(mill.try_draw(3), Ok(Some(0..3)));
        assert_eq!(mill.try_draw(3), Ok(Some(3..4)));
        assert_eq!(mill.try_draw(3), Ok(Some(4..7)));
        let mut drawn = Drawn::of(&mill);
        drawn.add(mill.try_draw(3).unwrap().unwrap());
        drawn.keep();
        assert_eq!(mill.left(), 0);
    }

    #[tokio::test]
    async fn what_comes_back_after_the_seal_is_a_gap() {
        let mill = Mill::new(1, Duration::from_secs(1));
        mill.fill(0..10);
        let ordinals = mill.try_draw(4).unwrap().unwrap();
        mill.put_back(0..2);
        let (rests, came_back) = mill.seal();
        assert_eq!((rests, came_back.len(), came_back.first()), ([4..10, 0..0], 1, Some(&(0..2))));
        mill.put_back(ordinals);
        assert_eq!((mill.left(), mill.try_draw(1)), (0, Err(NotReady::Stopping)));
    }

    #[tokio::test]
    async fn keys_at_hand_are_served_whatever_the_outlook() {
        let mill = Mill::new(1, Duration::from_secs(1));
        mill.fill(0..2);
        mill.set_outlook(Outlook::Exhausted { held_elsewhere: 9 });
        assert_eq!(mill.draw(1, mill.deadline()).await, Ok(0..1));
        assert_eq!(mill.draw(9, mill.deadline()).await, Ok(1..2));
        assert_eq!(
            mill.draw(1, mill.deadline()).await,
            Err(NotReady::Exhausted { held_elsewhere: 9 })
        );
    }
}
