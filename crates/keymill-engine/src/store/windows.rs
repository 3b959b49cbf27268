//! Windows: what a store is asked and answers about the workers of a snowflake keyspace, and the
//! decisions that are the same for every store.
//!
//! A worker number is leased with a window: the range of ticks that its holder may write into IDs.
//! Every worker has one row, (holder, end), and every tenancy one lease on record, whose ordinals
//! are ticks with the worker number above them. The `next` of such a keyspace is the highest end
//! that any window has had, so a floor knows it.
//!
//! # Invariants
//!
//! - The windows of one worker are disjoint: one begins where the recorded end is, or later, and
//!   the end falls only when its holder says from where on it has used nothing.
//! - No worker is leased before the clock has come to the `base` of its keyspace, which an advance
//!   moves beyond all that was seen and all that can have been granted; and no tenancy from before
//!   an advance is extended.
//! - No window ends later than the clock plus the length that was asked for: a clock that is far
//!   ahead occupies nothing, as long as it is not the store's.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;

use super::{Floor, LeaseId, Mark, SpaceRecord, StoreError, must_be_on_record};
use crate::clock::Clock;
use crate::instance::Instance;
use crate::space::Timeline;

/// Workers of snowflake spaces and the time they hold.
#[async_trait]
pub trait Windows: fmt::Debug + Send + Sync {
    /// Extends the window that an instance holds of a worker, or leases the first worker that is
    /// free; [`StoreError::NoWorker`] where none is. The clock is the store's, or the caller's
    /// where the store has none. What was granted is on record with the tenancy's lease.
    async fn window(&self, ask: &WindowAsk, floor: &Floor) -> Result<Window, StoreError>;

    /// The clock that windows are granted by, in milliseconds since 1970: the store's, or `own_ms`,
    /// the caller's, where it has none.
    async fn clock_ms(&self, own_ms: i64) -> Result<i64, StoreError> {
        Ok(own_ms)
    }

    /// Frees a worker from a given tick on, and closes the lease of the tenancy there. Does nothing
    /// when the row of the worker does not say what its holder knows.
    async fn release_window(
        &self,
        release: &WindowRelease,
        floor: &Floor,
    ) -> Result<Mark, StoreError>;
}

/// A request for a worker, or for more time with the one that is held.
#[derive(Debug, Clone)]
pub struct WindowAsk {
    /// The name of the space.
    pub space: String,
    /// The instance that will hold the worker.
    pub instance: Instance,
    /// How the space counts time and workers.
    pub timeline: Timeline,
    /// What is held, to be extended. Where the store has it otherwise, a worker is leased anew.
    pub held: Option<HeldWindow>,
    /// This worker and no other.
    pub worker: Option<u32>,
    /// How many ticks from now on it shall reach.
    pub length: u64,
    /// The caller's clock, for stores that have none of their own.
    pub clock: Clock,
    /// The last lease this instance got of the space, which must still be on record.
    pub last_lease: Option<LeaseId>,
}

/// A window as its holder knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldWindow {
    /// Its number.
    pub worker: u32,
    /// The tenancy.
    pub lease: LeaseId,
    /// The first tick that may not be used.
    pub end: u64,
}

/// A window that was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The number of the worker.
    pub worker: u32,
    /// The tenancy: the revision that began it.
    pub lease: LeaseId,
    /// The ticks that were added: empty where the clock has not come far enough to add any.
    pub ticks: Range<u64>,
    /// The clock by which it was granted, in milliseconds since 1970.
    pub now_ms: i64,
    /// How far the space has come with it.
    pub mark: Mark,
}

/// A worker that its holder needs no more.
#[derive(Debug, Clone)]
pub struct WindowRelease {
    /// The name of the space.
    pub space: String,
    /// Who held it.
    pub instance: String,
    /// How the space counts time and workers.
    pub timeline: Timeline,
    /// The window, as its holder knows it.
    pub held: HeldWindow,
    /// The first tick that was not used.
    pub unused_from: u64,
}

impl WindowRelease {
    /// The ticks to free, of a tenancy that is on record from this ordinal on: what lies below was
    /// never its own to free.
    pub fn rest(&self, start_ordinal: u64) -> Range<u64> {
        let HeldWindow { worker, end, .. } = self.held;
        assert!(self.unused_from <= end, "{:?} was used up to {}", self.held, self.unused_from);
        let first = self.timeline.ordinals(worker, 0..0).start;
        start_ordinal.saturating_sub(first).max(self.unused_from)..end
    }
}

/// The row of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerRecord {
    /// Its number.
    pub worker: u32,
    /// The tenancy that it is in, or was in last.
    pub lease: LeaseId,
    /// The first tick that nobody may have used.
    pub end: u64,
}

impl HeldWindow {
    /// Whether a row says just this.
    pub fn is(&self, row: &WorkerRecord) -> bool {
        (self.worker, self.lease, self.end) == (row.worker, row.lease, row.end)
    }
}

impl WindowAsk {
    /// Whether a row, that of the worker held, and the revision of the space let it be extended.
    pub fn extends(&self, row: Option<&WorkerRecord>, revision: u64) -> Option<HeldWindow> {
        let held = self.held?;
        let is_same = row.is_some_and(|row| held.is(row));
        (is_same && must_be_on_record(held.lease, revision)).then_some(held)
    }

    /// The last lease, if it has to be on record in a space that stands at `revision`.
    pub fn expected_lease(&self, revision: u64) -> Option<LeaseId> {
        self.last_lease.filter(|last| must_be_on_record(*last, revision))
    }

    /// What to answer when the last lease is not on record.
    pub fn lost_lease(&self, last: LeaseId, floor: &Floor) -> StoreError {
        let evidence = format!("lease {last} of `{}` is no longer on record", self.space);
        StoreError::rolled_back(&self.space, floor.mark, evidence)
    }

    /// The first tick that no window may reach at this time.
    fn limit(&self, now_ms: i64) -> u64 {
        let now = self.timeline.tick_at(now_ms);
        now.saturating_add(self.length).min(self.timeline.ticks())
    }

    /// What to answer when no worker is free before this tick, or none is leased because of an
    /// advance.
    fn no_worker(&self, free_at: u64, advanced: bool) -> StoreError {
        StoreError::NoWorker {
            space: self.space.clone(),
            worker: self.worker,
            advanced,
            workers: self.timeline.workers(),
            free_at: self.timeline.time_of(free_at),
        }
    }
}

impl SpaceRecord {
    /// Extends a window as far as the clock allows, and moves the record with it where that adds
    /// anything.
    pub fn extend_window(
        &mut self,
        ask: &WindowAsk,
        held: HeldWindow,
        now_ms: i64,
    ) -> Result<Window, StoreError> {
        self.check_window(ask, now_ms)?;
        let end = ask.limit(now_ms).max(held.end);
        if end > held.end {
            self.mark.revision += 1;
            self.mark.next = self.mark.next.max(end);
        }
        let HeldWindow { worker, lease, .. } = held;
        Ok(Window { worker, lease, ticks: held.end..end, now_ms, mark: self.mark })
    }

    /// Leases the first worker that is free, given the rows of all that were ever leased, and moves
    /// the record with it.
    pub fn lease_window(
        &mut self,
        ask: &WindowAsk,
        rows: &[WorkerRecord],
        now_ms: i64,
    ) -> Result<Window, StoreError> {
        self.check_window(ask, now_ms)?;
        let (now, limit) = (ask.timeline.tick_at(now_ms), ask.limit(now_ms));
        if now < self.base {
            return Err(ask.no_worker(self.base, true));
        }
        let mut ends = vec![0; usize::try_from(ask.timeline.workers()).unwrap_or(usize::MAX)];
        for row in rows {
            if let Some(end) = ends.get_mut(row.worker as usize) {
                *end = row.end;
            }
        }
        let mut soonest = ask.timeline.ticks();
        for (worker, end) in (0_u32..).zip(ends) {
            if ask.worker.is_some_and(|only| only != worker) {
                continue;
            }
            if end <= now && now < limit {
                self.mark.revision += 1;
                self.mark.next = self.mark.next.max(limit);
                let (lease, mark) = (self.mark.revision, self.mark);
                return Ok(Window { worker, lease, ticks: now..limit, now_ms, mark });
            }
            soonest = soonest.min(end);
        }
        Err(ask.no_worker(soonest, false))
    }

    /// Refuses where no window can be had of the space any more.
    fn check_window(&self, ask: &WindowAsk, now_ms: i64) -> Result<(), StoreError> {
        if self.sealed {
            return Err(StoreError::Sealed(self.name.clone()));
        }
        if ask.timeline.tick_at(now_ms) >= ask.timeline.ticks() {
            return Err(StoreError::Exhausted { space: self.name.clone(), held_elsewhere: 0 });
        }
        Ok(())
    }

    /// Takes a worker back whose row says what its holder knows.
    pub fn release_window(&mut self) {
        self.mark.revision += 1;
    }
}
