//! Ticks: the source of a snowflake space's IDs, made of the time inside a window.
//!
//! `operations` draws from it on every take. The worker makes the IDs; a caller waits in the queue
//! until the clock has caught up, or `supply` has leased a window. It never touches the store.

mod worker;

use std::ops::Range;
use std::time::Duration;

use super::outlook::NotReady;
use super::queue::{Deadline, Look, Queue};
use crate::clock::Clock;
use crate::space::Timeline;

use worker::DrawIds;
pub(crate) use worker::Worker;

/// The source of one space's IDs.
#[derive(Debug)]
pub struct Ticks {
    worker: Worker,
    /// Where callers wait for the clock, and for `supply`.
    pub(crate) queue: Queue,
}

impl Ticks {
    /// A source without a window, which is leased on first demand. At most `waiting_max` callers wait,
    /// for at most `wait_max`.
    pub fn new(timeline: Timeline, clock: Clock, waiting_max: usize, wait_max: Duration) -> Ticks {
        Ticks { worker: Worker::new(timeline, clock), queue: Queue::new(waiting_max, wait_max) }
    }

    /// What makes the IDs.
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// Draws up to `wanted` IDs, at least one, waiting until `deadline` where there is none.
    #[inline]
    pub(crate) async fn draw(
        &self,
        wanted: u64,
        deadline: Deadline,
    ) -> Result<Range<u64>, NotReady> {
        if let Some(ids) = self.try_draw(wanted)? {
            return Ok(ids);
        }
        self.queue.wait(wanted, deadline, || self.look(wanted)).await
    }

    /// Draws without waiting; `None` where the clock has to catch up first, or there is no window.
    #[inline]
    pub fn try_draw(&self, wanted: u64) -> Result<Option<Range<u64>>, NotReady> {
        match self.worker.draw(wanted) {
            DrawIds::Drawn(ids) => Ok(Some(ids)),
            DrawIds::Ahead(_) | DrawIds::Dry => Ok(None),
            DrawIds::Sealed => Err(self.queue.why_sealed()),
        }
    }

    /// Whether a demand for `wanted` can be met, or may be while it waits.
    pub(crate) fn can_meet(&self, wanted: u64) -> Result<(), NotReady> {
        if self.worker.most_in(self.queue.wait_max()) < wanted {
            return Err(NotReady::too_fast());
        }
        self.queue.check_wait(wanted, || self.left())
    }

    /// How many IDs could be drawn from now to the end of the window.
    pub fn left(&self) -> u64 {
        self.worker.left()
    }

    /// What a caller who waits finds.
    fn look(&self, wanted: u64) -> Result<Look, NotReady> {
        match self.worker.draw(wanted) {
            DrawIds::Drawn(ids) => Ok(Look::Drawn(ids)),
            DrawIds::Ahead(time) => Ok(Look::Ahead(time)),
            DrawIds::Dry => Ok(Look::Dry),
            DrawIds::Sealed => Err(self.queue.why_sealed()),
        }
    }
}
