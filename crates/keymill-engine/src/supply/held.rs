//! Held leases: those in a mill, from their grant until they are reported as spent or given back.
//!
//! `leases` keeps one list for each mill.

use std::ops::Range;

use crate::source::leased::Mill;
use crate::store::{LeaseId, SpaceRecord, is_later_era};

/// A lease in the mill, or a claim: then its ordinals are numbers of claimed keys.
#[derive(Debug)]
pub(super) struct HeldLease {
    pub(super) lease: LeaseId,
    pub(super) ordinals: Range<u64>,
}

impl HeldLease {
    /// Whether an advance did not know of it, and may have begun below its end. One that knew began
    /// beyond it. Of keys in a pool nothing tells whether it did.
    pub(super) fn is_overtaken(&self, record: &SpaceRecord, is_pool: bool) -> bool {
        is_later_era(record.mark.revision, self.lease)
            && (is_pool || self.ordinals.end > record.base)
    }
}

/// Leases that are drawn to their end, but for what came back or may come back.
pub(super) fn spent(held: &[HeldLease], mill: &Mill) -> Vec<LeaseId> {
    let drawn = drawn_to_the_end(held, mill.left_of_leases());
    let in_use = |held: &&HeldLease| mill.has_out(&held.ordinals) || mill.has_back(&held.ordinals);
    drawn.iter().filter(|held| !in_use(held)).map(|it| it.lease).collect()
}

/// Leases in the mill that are drawn to their end: all but the current one, which is the
/// newest as long as none waits behind it; and that one too when nothing is left.
fn drawn_to_the_end(held: &[HeldLease], left: u64) -> &[HeldLease] {
    let current = usize::from(left > 0);
    &held[..held.len().saturating_sub(current)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_leases_but_the_current_are_spent() {
        let held = [1, 2].map(|lease| HeldLease { lease, ordinals: 0..1 });
        let spent = |held: &[HeldLease], left| -> Vec<LeaseId> {
            drawn_to_the_end(held, left).iter().map(|held| held.lease).collect()
        };
        assert!(spent(&[], 0).is_empty());
        assert_eq!(spent(&held, 5), [1]);
        assert_eq!(spent(&held, 0), [1, 2]);
    }
}
