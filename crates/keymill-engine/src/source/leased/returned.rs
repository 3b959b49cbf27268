//! What was returned: ordinals that were drawn and not handed out, and are drawn again before any others.
//!
//! The mill asks for it on every draw, and finds out without a lock where there is nothing.
//!
//! # Invariants
//!
//! - An ordinal comes back at most as often as it was drawn, which is up to those who put it back.
//! - After a seal nothing is taken in any more: what comes back then is a gap.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Ordinals that were returned.
#[derive(Debug)]
pub(super) struct Returned {
    /// In no order; `None` once it is sealed.
    ranges: Mutex<Option<Vec<Range<u64>>>>,
    /// How many ordinals that is, for draws to see without a lock.
    count: AtomicU64,
}

impl Returned {
    /// How many there are.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Takes some in.
    pub(super) fn put(&self, ordinals: Range<u64>) {
        if let Some(ranges) = self.ranges().as_mut() {
            let count = ordinals.end - ordinals.start;
            ranges.push(ordinals);
            self.count.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Draws up to `wanted` of those that came last.
    #[cold]
    pub(super) fn draw(&self, wanted: u64) -> Option<Range<u64>> {
        let mut ranges = self.ranges();
        let ranges = ranges.as_mut()?;
        let last = ranges.last_mut()?;
        let end = last.end.min(last.start.saturating_add(wanted));
        let ordinals = last.start..end;
        last.start = end;
        if last.is_empty() {
            ranges.pop();
        }
        self.count.fetch_sub(end - ordinals.start, Ordering::Relaxed);
        Some(ordinals)
    }

    /// Whether some of these are there.
    pub(super) fn has_some_of(&self, ordinals: &Range<u64>) -> bool {
        let within =
            |range: &Range<u64>| ordinals.start <= range.start && range.end <= ordinals.end;
        self.count() > 0 && self.ranges().iter().flatten().any(within)
    }

    /// Gives all of them out, and takes none in from now on.
    pub(super) fn seal(&self) -> Vec<Range<u64>> {
        let ranges = self.ranges().take().unwrap_or_default();
        self.count.store(0, Ordering::Relaxed);
        ranges
    }

    fn ranges(&self) -> MutexGuard<'_, Option<Vec<Range<u64>>>> {
        self.ranges.lock().expect("nothing panics while it is held")
    }
}

impl Default for Returned {
    fn default() -> Returned {
        Returned { ranges: Mutex::new(Some(Vec::new())), count: AtomicU64::new(0) }
    }
}
