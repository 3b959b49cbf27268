//! Marks: how far a keyspace has come, and the floor that a request carries.
//!
//! Every store compares the floor of a changing request with the mark of its space, in the transaction that
//! would change it. Plain values: nothing here does I/O.

use serde::{Deserialize, Serialize};

use super::{ERA, StoreError, is_later_era};

/// A point in the life of a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mark {
    /// How many changes the space has seen.
    pub revision: u64,
    /// The lowest ordinal never granted.
    pub next: u64,
    /// The server's history that it was seen on.
    #[serde(default, skip_serializing_if = "History::is_unknown")]
    pub history: History,
    /// The lengths that it had grown to. Where a generation begins depends on those before it, so
    /// a growth that was lost must be made again just as it was.
    #[serde(default, skip_serializing_if = "Lengths::is_empty")]
    pub grown: Lengths,
}

/// A set of key lengths, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lengths(u32);

/// Which server keeps a store, and which course of its history: a server that was cut off and
/// comes back has the same data as the one that took its place, on an older timeline.
///
/// Zeroes where a store has nothing of the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct History {
    /// The server or the cluster: it changes when data are moved to another one.
    pub server: u64,
    /// Rises with every failover.
    pub timeline: u64,
}

/// What a request carries: the store it means, and the mark that the store must have reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Floor {
    /// The identity of the store that was seen.
    pub store: String,
    /// The highest mark seen there.
    pub mark: Mark,
}

impl Mark {
    /// The higher of both, part by part; the same whichever of them comes first.
    pub fn max(self, other: Mark) -> Mark {
        let rank = |mark: Mark| (mark.revision, mark.history.timeline, mark.history.server);
        let (low, high) = if rank(self) <= rank(other) { (self, other) } else { (other, self) };
        let mut history = high.history;
        if !is_later_era(high.revision, low.revision) && low.history.server == history.server {
            history.timeline = history.timeline.max(low.history.timeline);
        }
        let grown = Lengths(self.grown.0 | other.grown.0);
        Mark { revision: high.revision, next: self.next.max(other.next), history, grown }
    }

    /// Whether a store that stands here has reached `floor`.
    pub fn has_reached(self, floor: Mark) -> bool {
        self.revision >= floor.revision
            && self.next >= floor.next
            && self.grown.contain(floor.grown)
            && self.continues(floor)
    }

    /// Whether what was seen at `floor` is on the history seen here. An advance since then
    /// allows any other: whoever ordered it has chosen.
    pub fn continues(self, floor: Mark) -> bool {
        floor.history.is_unknown()
            || is_later_era(self.revision, floor.revision)
            || (self.history.server == floor.history.server
                && self.history.timeline >= floor.history.timeline)
    }

    /// Whether anything was seen of the space at all.
    pub fn is_seen(self) -> bool {
        self.revision > 0
    }
}

impl Lengths {
    /// No lengths.
    pub const NONE: Lengths = Lengths(0);

    /// The set of these lengths, each below 32.
    pub fn of(lengths: &[u8]) -> Lengths {
        Lengths(lengths.iter().fold(0, |bits, length| bits | 1 << (length & 31)))
    }

    /// The lengths, the shortest first.
    pub fn list(self) -> Vec<u8> {
        (0..32).filter(|length| self.0 & 1 << length != 0).collect()
    }

    /// Whether all of the others are among these.
    pub fn contain(self, others: Lengths) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

impl History {
    /// Whether nothing is known of it.
    pub fn is_unknown(&self) -> bool {
        *self == History::default()
    }
}

impl Floor {
    /// Refuses to make a space in another store than was seen, or on a history left behind.
    pub fn check_new(&self, space: &str, store: &str, history: History) -> Result<(), StoreError> {
        if self.store != store {
            return Err(StoreError::other_store(space, self, store));
        }
        let here = Mark { history, ..Mark::default() };
        if !here.continues(self.mark) {
            return Err(StoreError::other_history(space, self.mark, history));
        }
        Ok(())
    }

    /// Refuses a space that lies below what was seen of it.
    pub fn check(&self, space: &str, store: &str, found: Mark) -> Result<(), StoreError> {
        let seen = self.mark;
        if self.store != store {
            return Err(StoreError::other_store(space, self, store));
        }
        if !found.continues(seen) {
            return Err(StoreError::other_history(space, seen, found.history));
        }
        if !found.grown.contain(seen.grown) {
            let (found, lengths) = (found.grown.list(), seen.grown.list());
            let evidence =
                format!("`{space}` has grown to {found:?}, but was seen with {lengths:?}");
            return Err(StoreError::rolled_back(space, seen, evidence));
        }
        if !found.has_reached(seen) {
            let evidence = format!(
                "`{space}` is at ordinal {} (revision {}), but was seen at {} (revision {})",
                found.next, found.revision, seen.next, seen.revision
            );
            return Err(StoreError::rolled_back(space, seen, evidence));
        }
        Ok(())
    }
}

/// The floor of a space that was never seen: nothing is known but the history that it must be on.
/// That is the server of the latest advance, and the latest timeline that was met there.
pub(crate) fn unseen<'a>(known: impl Iterator<Item = &'a Mark> + Clone) -> Mark {
    let latest = known
        .clone()
        .max_by_key(|mark| (mark.revision / ERA, mark.history.timeline, mark.history.server));
    let server = latest.map(|mark| mark.history.server).unwrap_or_default();
    let there = known.map(|mark| mark.history).filter(|history| history.server == server);
    let history = there.max_by_key(|history| history.timeline).unwrap_or_default();
    Mark { history, ..Mark::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_timeline_or_another_server_has_not_reached_a_floor_until_an_advance() {
        let floor = on((7, 2), 5);
        for (history, reached) in [((7, 2), true), ((7, 3), true), ((7, 1), false), ((8, 3), false)]
        {
            assert_eq!(on(history, 9).has_reached(floor), reached, "{history:?}");
            assert!(on(history, ERA).has_reached(floor), "{history:?}");
        }
        assert!(on((7, 1), 5).has_reached(mark(5, 10)));
        // Once advanced there, that history is the one that counts.
        assert_eq!(floor.max(on((8, 1), ERA)).history, on((8, 1), 0).history);
        assert_eq!(floor.max(on((7, 1), 9)).history, floor.history);
    }

    #[test]
    fn marks_merge_to_the_same_whichever_comes_first() {
        let marks = [mark(5, 10), mark(5, 20), on((7, 1), 5), on((7, 2), 5), on((8, 2), ERA)];
        for one in marks {
            for other in marks {
                assert_eq!(one.max(other), other.max(one), "{one:?} and {other:?}");
            }
        }
        // A history that is known is not lost to one that is not.
        assert_eq!(on((7, 1), 5).max(mark(5, 10)).history, on((7, 1), 5).history);
    }

    fn mark(revision: u64, next: u64) -> Mark {
        Mark { revision, next, ..Mark::default() }
    }

    fn on(history: (u64, u64), revision: u64) -> Mark {
        let history = History { server: history.0, timeline: history.1 };
        Mark { revision, next: 10, history, ..Mark::default() }
    }
}
