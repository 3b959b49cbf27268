//! Ranges of ordinals that came back undrawn, as a space keeps them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Disjoint ranges of ordinals, by start; in JSON `[[start, end], …]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// How many ordinals there are in all.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// Adds a range, unless it is empty.
    pub fn add(&mut self, range: Range<u64>) {
        if range.start < range.end {
            self.0.push((range.start, range.end));
            self.0.sort_unstable();
        }
    }

    /// Takes up to `size` ordinals off the first range.
    pub fn take(&mut self, size: u64) -> Option<Range<u64>> {
        let (start, end) = self.0.first_mut()?;
        let taken = *start..(*end).min(start.saturating_add(size));
        *start = taken.end;
        if start == end {
            self.0.remove(0);
        }
        Some(taken)
    }

    /// Whether they are what they should be, and lie below an ordinal: others may have written them.
    pub fn are_sound(&self, below: u64) -> bool {
        let mut from = 0;
        self.0.iter().all(|&(start, end)| {
            let sound = from <= start && start < end && end <= below;
            from = end;
            sound
        })
    }

    /// Whether an ordinal is in one of them.
    pub fn contains(&self, ordinal: u64) -> bool {
        let after = self.0.partition_point(|(start, _)| *start <= ordinal);
        after > 0 && ordinal < self.0[after - 1].1
    }

    /// All of them, by start.
    pub fn each(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(start, end)| *start..*end)
    }

    /// Forgets them all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_back_is_taken_from_the_lowest_up() {
        let mut ranges = Ranges::default();
        for range in [20..25, 3..3, 5..10] {
            ranges.add(range);
        }
        assert_eq!(ranges.count(), 10);
        assert_eq!(serde_json::to_string(&ranges).unwrap(), "[[5,10],[20,25]]");
        let within = [4, 5, 9, 10, 24, 25].map(|ordinal| ranges.contains(ordinal));
        assert_eq!(within, [false, true, true, false, true, false]);
        let taken = [3, 100, u64::MAX, 1].map(|size| ranges.take(size));
        assert_eq!(taken, [Some(5..8), Some(8..10), Some(20..25), None]);
    }
}
