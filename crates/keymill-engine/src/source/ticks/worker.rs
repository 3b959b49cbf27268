//! A worker: where the IDs of a snowflake space come from.
//!
//! Ticks are drawn from here, on every request; `supply` leases a worker number with a window of time
//! and extends it. Nothing here does I/O, blocks or locks.
//!
//! A slot is a tick with a sequence number below it. A tenancy, the time with one worker number,
//! has a *head*: the next slot that was not given out. A draw moves it up to the clock, and on by
//! one compare-and-swap, as far as the window reaches.
//!
//! # Invariants
//!
//! - A slot of a tenancy is drawn at most once: its head only rises. Two tenancies have different
//!   worker numbers or disjoint windows, so an ID is made at most once.
//! - Nothing is drawn at or beyond the limit, which the keeper raises once the store has recorded
//!   the window and the floor files know. However late a draw is, and whatever its clock says, it
//!   stays inside.
//! - The clock of a tenancy is the store's, as of the last extension, carried on by the clock of
//!   this host that only runs. Order and uniqueness are the head's, whatever the clocks do.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::space::Timeline;

/// How far the sequence of IDs may run ahead of the clock, so that a burst need not wait for it.
const AHEAD_MS: u64 = 10;
/// By how much an extension may take the clock of a tenancy back.
const SLOWER_US: i64 = 2_000;
/// A head that nothing is drawn from any more.
const SEALED: u64 = u64::MAX;

/// The source of one space's IDs.
#[derive(Debug)]
pub struct Worker {
    timeline: Timeline,
    /// Only the one that runs is read.
    clock: Clock,
    /// Where it is counted from.
    origin: Instant,
    tenancy: ArcSwapOption<Tenancy>,
    /// What tenancies before this one gave out.
    drawn_before: AtomicU64,
    stopped: AtomicBool,
}

/// What a draw came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrawIds {
    /// These IDs now belong to the caller: never none, at most as many as wanted, neighbours.
    Drawn(Range<u64>),
    /// The sequence has run ahead of the clock, which takes this long to catch up.
    Ahead(Duration),
    /// There is no window, or it is over.
    Dry,
    /// The last tenancy was ended; nothing will ever be drawn again.
    Sealed,
}

/// The time with one worker number.
#[derive(Debug)]
struct Tenancy {
    head: Head,
    /// The first slot that must not be drawn.
    limit: AtomicU64,
    /// The store's clock where this host's is counted from: microseconds since the epoch.
    zero_us: AtomicI64,
    worker: u32,
}

/// What every draw writes has a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Head {
    /// The next slot.
    slot: AtomicU64,
    /// How many IDs were drawn.
    count: AtomicU64,
}

impl Worker {
    /// A source without a window: the first draw finds it dry.
    pub fn new(timeline: Timeline, clock: Clock) -> Worker {
        Worker {
            timeline,
            origin: clock.monotonic(),
            clock,
            tenancy: ArcSwapOption::empty(),
            drawn_before: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// How this space counts.
    pub fn timeline(&self) -> Timeline {
        self.timeline
    }

    /// Draws up to `wanted` IDs.
    #[inline]
    pub fn draw(&self, wanted: u64) -> DrawIds {
        debug_assert!(wanted > 0, "a draw of nothing");
        let guard = self.tenancy.load();
        let Some(tenancy) = guard.as_deref() else { return self.no_tenancy() };
        let layout = self.timeline.layout;
        let now = self.tick(tenancy);
        let latest = now + AHEAD_MS / u64::from(layout.unit_ms);
        let mut head = tenancy.head.slot.load(Ordering::Acquire);
        loop {
            let start = head.max(now << layout.sequence_bits);
            if start >= tenancy.limit.load(Ordering::Acquire) {
                return DrawIds::Dry;
            }
            let tick = start >> layout.sequence_bits;
            if tick > latest {
                return DrawIds::Ahead(self.time_to(tenancy, tick));
            }
            // Within one tick IDs are neighbours; the limit is the end of one.
            let first = start & (layout.sequences() - 1);
            let run = wanted.min(layout.sequences() - first);
            let ids = layout.run(tenancy.worker, tick, first..first + run);
            let count = ids.end - ids.start;
            match tenancy.head.slot.compare_exchange_weak(
                head,
                start + count,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    tenancy.head.count.fetch_add(count, Ordering::Relaxed);
                    return DrawIds::Drawn(ids);
                }
                Err(now) => head = now,
            }
        }
    }

    /// How many IDs could be drawn from now to the end of the window.
    pub fn left(&self) -> u64 {
        let guard = self.tenancy.load();
        let Some(tenancy) = guard.as_deref() else { return 0 };
        let head = tenancy.head.slot.load(Ordering::Acquire);
        let start = head.max(self.tick(tenancy) << self.timeline.layout.sequence_bits);
        tenancy.limit.load(Ordering::Acquire).saturating_sub(start)
    }

    /// The most IDs that one tenancy can give within a time.
    pub fn most_in(&self, time: Duration) -> u64 {
        let ahead = AHEAD_MS / u64::from(self.timeline.layout.unit_ms);
        let ticks = self.timeline.ticks_in(time) + ahead;
        ticks.saturating_mul(self.timeline.layout.sequences())
    }

    /// How many IDs were drawn since the start.
    pub fn drawn(&self) -> u64 {
        let guard = self.tenancy.load();
        let now = guard.as_deref().map_or(0, |it| it.head.count.load(Ordering::Relaxed));
        self.drawn_before.load(Ordering::Relaxed) + now
    }

    /// The worker number held at present.
    pub fn number(&self) -> Option<u32> {
        self.tenancy.load().as_deref().map(|tenancy| tenancy.worker)
    }

    /// Begins a tenancy with a window of ticks, by a clock that says what time it is. Ends the one
    /// before, and returns its first tick of which nothing was drawn. Only the keeper calls this,
    /// once the window is on record.
    pub fn begin(&self, worker: u32, window: Range<u64>, now_ms: i64) -> Option<u64> {
        let slot = |tick: u64| tick << self.timeline.layout.sequence_bits;
        let begins = self.timeline.ms_of(window.start);
        let head = Head { slot: AtomicU64::new(slot(window.start)), count: AtomicU64::new(0) };
        let tenancy = Tenancy {
            head,
            limit: AtomicU64::new(slot(window.end)),
            zero_us: AtomicI64::new(self.zero_us(now_ms.max(begins))),
            worker,
        };
        self.seal(Some(Arc::new(tenancy)))
    }

    /// Lets IDs be drawn up to a tick, by a clock that says what time it is. Only the keeper calls
    /// this, once the window is on record.
    pub fn extend(&self, end: u64, now_ms: i64) {
        let guard = self.tenancy.load();
        let Some(tenancy) = guard.as_deref() else { return };
        let zero = tenancy.zero_us.load(Ordering::Acquire);
        // Never back, but a little slower where it runs ahead: no two clocks agree for long.
        let zero = self.zero_us(now_ms).max(zero - SLOWER_US);
        tenancy.zero_us.store(zero, Ordering::Release);
        tenancy.limit.fetch_max(end << self.timeline.layout.sequence_bits, Ordering::AcqRel);
    }

    /// Ends drawing for good: the first tick of which nothing was drawn.
    pub(crate) fn stop(&self) -> Option<u64> {
        self.stopped.store(true, Ordering::Release);
        self.seal(None)
    }

    /// Puts another tenancy in the place of the present one, which is not drawn from any more.
    fn seal(&self, next: Option<Arc<Tenancy>>) -> Option<u64> {
        let before = self.tenancy.swap(next);
        let head = &before.as_deref()?.head;
        let slot = head.slot.swap(SEALED, Ordering::AcqRel);
        self.drawn_before.fetch_add(head.count.load(Ordering::Relaxed), Ordering::Relaxed);
        (slot != SEALED).then(|| slot.div_ceil(self.timeline.layout.sequences()))
    }

    #[cold]
    fn no_tenancy(&self) -> DrawIds {
        if self.stopped.load(Ordering::Acquire) { DrawIds::Sealed } else { DrawIds::Dry }
    }

    /// The tick that the clock of the tenancy has come to.
    pub(crate) fn tick_now(&self) -> Option<u64> {
        let guard = self.tenancy.load();
        guard.as_deref().map(|tenancy| self.tick(tenancy))
    }

    /// The same of this one; at the end of all ticks it stays there.
    #[inline]
    fn tick(&self, tenancy: &Tenancy) -> u64 {
        let (now_us, unit_ms) = (self.now_us(tenancy), self.timeline.layout.unit_ms);
        // A division by a constant is a multiplication.
        let tick =
            if unit_ms == 1 { now_us / 1_000 } else { now_us / (u64::from(unit_ms) * 1_000) };
        tick.min(self.timeline.ticks())
    }

    #[inline]
    fn now_us(&self, tenancy: &Tenancy) -> u64 {
        let passed = self.passed();
        let passed = passed.as_secs().cast_signed() * 1_000_000 + i64::from(passed.subsec_micros());
        let now = tenancy.zero_us.load(Ordering::Relaxed).saturating_add(passed);
        now.max(0).cast_unsigned()
    }

    /// How far this host's clock has run.
    #[inline]
    fn passed(&self) -> Duration {
        self.clock.monotonic() - self.origin
    }

    /// The clock's reading where this host's is counted from, given what it says now.
    fn zero_us(&self, now_ms: i64) -> i64 {
        let since_epoch = now_ms.saturating_sub(self.timeline.epoch_ms).saturating_mul(1_000);
        let passed = i64::try_from(self.passed().as_micros()).unwrap_or(i64::MAX);
        since_epoch.saturating_sub(passed)
    }

    /// How long it takes the clock to let this tick be drawn.
    #[cold]
    fn time_to(&self, tenancy: &Tenancy, tick: u64) -> Duration {
        let unit = u64::from(self.timeline.layout.unit_ms);
        let at_us = tick.saturating_mul(unit).saturating_sub(AHEAD_MS / unit * unit) * 1_000;
        Duration::from_micros(at_us.saturating_sub(self.now_us(tenancy)).max(1))
    }
}

#[cfg(test)]
mod tests {
    use keymill_core::{Fields, Layout};

    use super::*;

    /// 2026-01-01, a year after the epoch.
    const NOW: i64 = 1_767_225_600_000;
    const EPOCH: i64 = 1_735_689_600_000;

    #[test]
    fn ids_rise_and_none_is_beyond_the_window() {
        for layout in ["41/10/12", "41/0/2", "39/s8/w16@10ms", "41/5/1"] {
            let worker = worker(layout, 50);
            let mut ids = Vec::new();
            let end = loop {
                match worker.draw(1_000) {
                    DrawIds::Drawn(drawn) => ids.extend(drawn),
                    DrawIds::Ahead(time) => std::thread::sleep(time),
                    DrawIds::Dry | DrawIds::Sealed => break worker.timeline().tick_at(NOW) + 50,
                }
            };
            assert!(ids.is_sorted_by(|a, b| a < b), "{layout}");
            let fields = |id: &u64| worker.timeline().layout.fields(*id).unwrap();
            let last = fields(ids.last().unwrap());
            assert!(last.tick < end && ids.iter().all(|id| fields(id).worker == 0), "{last:?}");
            assert_eq!(worker.drawn(), ids.len() as u64);
            assert_eq!(worker.left(), 0);
        }
    }

    #[test]
    fn many_threads_draw_each_id_once() {
        let worker = worker("41/10/12", 100);
        let all: Vec<u64> = std::thread::scope(|scope| {
            let draw = || {
                let mut ids = Vec::new();
                loop {
                    match worker.draw(7) {
                        DrawIds::Drawn(drawn) => ids.extend(drawn),
                        DrawIds::Ahead(time) => std::thread::sleep(time),
                        DrawIds::Dry | DrawIds::Sealed => return ids,
                    }
                }
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            threads.into_iter().flat_map(|it| it.join().unwrap()).collect()
        });
        let unique: std::collections::HashSet<&u64> = all.iter().collect();
        assert_eq!(unique.len(), all.len());
        assert_eq!(worker.drawn(), all.len() as u64);
    }

    #[test]
    fn a_burst_runs_ahead_of_the_clock_by_a_little() {
        let worker = worker("41/10/2", 60_000);
        let mut ticks = Vec::new();
        let waits = loop {
            match worker.draw(4) {
                DrawIds::Drawn(ids) => {
                    ticks.push(worker.timeline().layout.fields(ids.start).unwrap().tick);
                }
                DrawIds::Ahead(time) => break time,
                DrawIds::Dry | DrawIds::Sealed => panic!("the window is a minute long"),
            }
        };
        let now = worker.tick_now().unwrap();
        assert!(ticks.iter().all(|tick| *tick <= now + AHEAD_MS), "{ticks:?} at {now}");
        assert!(waits <= Duration::from_millis(AHEAD_MS + 2), "{waits:?}");
    }

    #[test]
    fn what_a_seal_leaves_over_was_never_drawn() {
        let worker = worker("41/10/12", 60_000);
        let DrawIds::Drawn(ids) = worker.draw(10) else { panic!("there is a window") };
        let layout = worker.timeline().layout;
        let last = layout.fields(ids.end - 1).unwrap();
        // The next one has another number.
        let begin = worker.timeline().tick_at(NOW);
        let unused_from = worker.begin(3, begin..begin, NOW).unwrap();
        assert_eq!(unused_from, last.tick + 1);
        assert_eq!((worker.draw(1), worker.drawn()), (DrawIds::Dry, 10));
        worker.extend(unused_from + 60_000, NOW);
        let DrawIds::Drawn(next) = worker.draw(1) else { panic!("there is a window again") };
        let Fields { tick, worker: number, .. } = layout.fields(next.start).unwrap();
        assert!(number == 3 && tick >= begin);
        assert_eq!(worker.stop(), Some(tick + 1));
        assert_eq!((worker.draw(1), worker.stop()), (DrawIds::Sealed, None));
    }

    #[test]
    fn a_clock_that_is_behind_does_not_set_the_tenancy_back() {
        let worker = worker("41/10/12", 60_000);
        let DrawIds::Drawn(first) = worker.draw(1) else { panic!("there is a window") };
        let end = worker.timeline().tick_at(NOW) + 60_000;
        worker.extend(end, NOW - 3_600_000);
        let DrawIds::Drawn(second) = worker.draw(1) else { panic!("there is a window") };
        assert!(second.start > first.start);
        // And one that is ahead takes it along, up to its limit.
        worker.extend(end, NOW + 3_600_000);
        assert_eq!(worker.draw(1), DrawIds::Dry);
    }

    /// Worker 0, with a window of so many ticks.
    fn worker(layout: &str, ticks: u64) -> Worker {
        let timeline = Timeline { epoch_ms: EPOCH, layout: Layout::parse(layout).unwrap() };
        let (worker, start) = (Worker::new(timeline, Clock::default()), timeline.tick_at(NOW));
        worker.begin(0, start..start + ticks, NOW);
        worker
    }
}
