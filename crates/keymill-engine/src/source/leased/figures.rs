//! A mill in figures: for `supply`, which sizes leases by them, and for people. They are a moment old.

use std::sync::atomic::Ordering;

use super::Mill;

impl Mill {
    /// How many ordinals can be drawn right now.
    pub fn left(&self) -> u64 {
        self.leases.left() + self.returned.count()
    }

    /// How many ordinals can be drawn of the leases themselves.
    pub(crate) fn left_of_leases(&self) -> u64 {
        self.leases.left()
    }

    /// How many ordinals were drawn since the start.
    pub(crate) fn drawn(&self) -> u64 {
        // A draw between the two loads makes this at most a moment old, never wrong by more.
        let left = self.left();
        self.offered.load(Ordering::Acquire).saturating_sub(left)
    }
}
