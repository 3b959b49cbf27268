//! A mill: the in-memory source of one space's ordinals, or of the numbers of its claimed keys.
//!
//! `operations` draws from it on every take, and only when both leases are spent does a caller wait
//! in its queue. `supply` fills it. It never touches the store.
//!
//! # Invariants
//!
//! - What a take has drawn and does not hand out comes back (`drawn`, `returned`) and is drawn again
//!   before anything else, unless the mill was sealed meanwhile: then it is a gap.
//! - What a large take has drawn is *out* until its keys are written (`out`). A lease with ordinals
//!   that are out is not spent, and once an advance has overtaken it, they are neither written nor put
//!   back.
//! - A take that wants more than there is waits for the rest before it draws, so that small takes
//!   beside it find what there is.

mod figures;
mod out;
mod returned;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::lease::{Draw, LEASE_SIZE_MAX, LeasePair};
use super::outlook::{NotReady, Outlook};
use super::queue::{Deadline, Look, Queue};
use crate::space::Tuning;

use out::Out;
pub(crate) use out::RunOut;
use returned::Returned;

// A lease of any size that a keyspace may be set to can be counted. Not said in `lease.rs`, because
// loom compiles that file alone.
const _: () = assert!(LEASE_SIZE_MAX == Tuning::LEASE_SIZE_MAX);

/// The source of one space's ordinals.
#[derive(Debug)]
pub struct Mill {
    pub(crate) leases: LeasePair,
    returned: Returned,
    /// What large takes have drawn and not written yet. Locked before `returned`, never after.
    out: Mutex<Out>,
    /// How many ordinals were ever offered.
    offered: AtomicU64,
    /// Where callers wait for `supply`.
    pub(crate) queue: Queue,
}

impl Mill {
    /// A mill that leases on first demand. At most `waiting_max` callers wait, for at most
    /// `wait_max`.
    pub fn new(waiting_max: usize, wait_max: Duration) -> Mill {
        Mill {
            leases: LeasePair::new(),
            returned: Returned::default(),
            out: Mutex::default(),
            offered: AtomicU64::new(0),
            queue: Queue::new(waiting_max, wait_max),
        }
    }

    /// Draws up to `wanted` ordinals, at least one, waiting until `deadline` where there are too few.
    #[inline]
    pub(crate) async fn draw(
        &self,
        wanted: u64,
        deadline: Deadline,
    ) -> Result<Range<u64>, NotReady> {
        if self.can_draw(wanted)
            && let Some(ordinals) = self.try_draw(wanted)?
        {
            return Ok(ordinals);
        }
        self.queue.wait(wanted, deadline, || self.look(wanted)).await
    }

    /// Draws without waiting; `None` when the mill is dry.
    #[inline]
    pub fn try_draw(&self, wanted: u64) -> Result<Option<Range<u64>>, NotReady> {
        if self.returned.count() > 0
            && let Some(ordinals) = self.returned.draw(wanted)
        {
            return Ok(Some(ordinals));
        }
        match self.leases.draw(wanted) {
            Draw::Drawn { ordinals, low } => {
                if low {
                    self.queue.wake_supply();
                }
                Ok(Some(ordinals))
            }
            Draw::Dry => Ok(None),
            Draw::Sealed => Err(self.queue.why_sealed()),
        }
    }

    /// Whether a demand for `wanted` can be met, or may be while it waits.
    pub(crate) fn can_meet(&self, wanted: u64) -> Result<(), NotReady> {
        self.queue.check_wait(wanted, || self.left())
    }

    /// Takes a granted range in. Only `supply` calls this, when no lease waits.
    pub fn fill(&self, granted: Range<u64>) -> bool {
        let size = granted.end - granted.start;
        self.offered.fetch_add(size, Ordering::AcqRel);
        let taken = self.leases.offer(granted);
        self.queue.set_outlook(Outlook::Filling);
        taken
    }

    /// Takes in again what was drawn and not handed out.
    pub(crate) fn put_back(&self, ordinals: Range<u64>) {
        if !ordinals.is_empty() {
            self.returned.put(ordinals);
            self.queue.wake_callers();
        }
    }

    /// Whether some of these ordinals came back and wait to be drawn again.
    pub(crate) fn has_back(&self, ordinals: &Range<u64>) -> bool {
        self.returned.has_some_of(ordinals)
    }

    /// Ends drawing for good, and says what was left undrawn of the leases, and what came back.
    pub(crate) fn seal(&self) -> ([Range<u64>; 2], Vec<Range<u64>>) {
        let rests = self.leases.seal();
        (rests, self.returned.seal())
    }

    /// Draws all that is left, to throw it away; how much it was. What is out is thrown away, too.
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

    /// Whether there is enough for a draw of `wanted`; or as much as there can be, because both
    /// leases are there or no more will come.
    fn can_draw(&self, wanted: u64) -> bool {
        wanted == 1 || self.left() >= wanted || self.leases.has_next() || self.queue.is_at_end()
    }

    /// What a caller who waits finds.
    fn look(&self, wanted: u64) -> Result<Look, NotReady> {
        let drawn = if self.can_draw(wanted) { self.try_draw(wanted)? } else { None };
        Ok(drawn.map_or(Look::Dry, Look::Drawn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_after_the_seal_is_a_gap() {
        let mill = Mill::new(1, Duration::from_secs(1));
        mill.fill(0..10);
        let ordinals = mill.try_draw(4).unwrap().unwrap();
        mill.put_back(0..2);
        let (rests, returned) = mill.seal();
        assert_eq!((rests, returned.len(), returned.first()), ([4..10, 0..0], 1, Some(&(0..2))));
        mill.put_back(ordinals);
        assert_eq!((mill.left(), mill.try_draw(1)), (0, Err(NotReady::Stopping)));
    }
}
