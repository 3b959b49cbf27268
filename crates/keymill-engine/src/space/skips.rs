//! Skips: ordinals that must not be handed out, because names occupy them.
//!
//! `supply` adds those of a lease before it offers the lease, and `codec` those of names that are
//! older than their generation; `operations` leaves them out of what it has drawn.
//!
//! # Invariants
//!
//! - A skip that was added stays for as long as the process lives: whoever drew an ordinal may
//!   look here long after its lease was spent and closed.

use std::ops::Range;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

/// The skips of one space.
#[derive(Debug, Default)]
pub struct Skips {
    /// By number, each once.
    ordinals: ArcSwap<Vec<u64>>,
}

impl Skips {
    /// Adds some, before any of them can be drawn.
    pub fn add(&self, skips: &[u64]) {
        if skips.is_empty() {
            return;
        }
        self.ordinals.rcu(|known| {
            let mut all = [known.as_slice(), skips].concat();
            all.sort_unstable();
            all.dedup();
            all
        });
    }

    /// Whether an ordinal is one.
    #[inline]
    pub fn contains(&self, ordinal: u64) -> bool {
        let skips = self.ordinals.load();
        !skips.is_empty() && skips.binary_search(&ordinal).is_ok()
    }

    /// Those in a run, in order.
    pub fn within(&self, run: &Range<u64>) -> Box<[u64]> {
        let skips = self.ordinals.load();
        let index = |ordinal: u64| skips.partition_point(|skip| *skip < ordinal);
        skips[index(run.start)..index(run.end)].into()
    }

    /// All of them as of now, in order.
    #[inline]
    pub(crate) fn now(&self) -> Guard<Arc<Vec<u64>>> {
        self.ordinals.load()
    }
}

/// Gives what is left of a run without some skips, which are in order, to `each`, run by run.
#[inline]
pub(crate) fn without(skips: &[u64], run: Range<u64>, mut each: impl FnMut(Range<u64>)) {
    let mut start = run.start;
    if !skips.is_empty() {
        let first = skips.partition_point(|skip| *skip < run.start);
        for &skip in skips[first..].iter().take_while(|skip| **skip < run.end) {
            if start < skip {
                each(start..skip);
            }
            start = skip + 1;
        }
    }
    if start < run.end {
        each(start..run.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_left_out_wherever_they_are() {
        check(&[], 3..6, &[(3, 6)]);
        check(&[4], 3..6, &[(3, 4), (5, 6)]);
        check(&[3, 5], 3..6, &[(4, 5)]);
        check(&[1, 2, 6, 7], 3..6, &[(3, 6)]);
        check(&[3, 4, 5], 3..6, &[]);
    }

    #[test]
    fn skips_add_up() {
        let skips = Skips::default();
        skips.add(&[9, 2]);
        skips.add(&[5, 9]);
        let found = (0..12).filter(|ordinal| skips.contains(*ordinal)).collect::<Vec<_>>();
        assert_eq!(found, [2, 5, 9]);
        assert_eq!(*skips.within(&(2..9)), [2, 5]);
        assert!(skips.within(&(6..9)).is_empty());
    }

    #[track_caller]
    fn check(skipped: &[u64], run: Range<u64>, expected: &[(u64, u64)]) {
        let skips = Skips::default();
        skips.add(skipped);
        let mut runs = Vec::new();
        without(&skips.now(), run, |run| runs.push((run.start, run.end)));
        assert_eq!(runs, expected);
    }
}
