//! The floors of one store in memory.
//!
//! Nothing here does I/O. A space takes a name, a mark and one byte, and room in a hash table.

use std::collections::HashMap;

use crate::store::{History, Mark, unseen};

/// The most logs that floors can be kept in.
pub(crate) const FILES_MAX: usize = 8;

/// How far the spaces of a store have come.
#[derive(Debug, Default)]
pub(crate) struct Known {
    marks: HashMap<Box<str>, Seen>,
    /// The history that a space which was never seen must be on, until it has to be found anew.
    latest: Option<History>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    mark: Mark,
    /// A bit for each log: whether it holds all of the mark.
    in_files: u8,
}

impl Known {
    /// The mark of a space that was seen.
    pub(crate) fn get(&self, space: &str) -> Option<Mark> {
        self.marks.get(space).map(|seen| seen.mark)
    }

    /// All marks, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Mark)> {
        self.marks.iter().map(|(space, seen)| (&**space, seen.mark))
    }

    /// The mark that a space must have reached, also one that was never seen.
    pub(crate) fn floor(&mut self, space: &str) -> Mark {
        if let Some(mark) = self.get(space) {
            return mark;
        }
        let marks = self.marks.values().map(|seen| &seen.mark);
        let history = *self.latest.get_or_insert_with(|| unseen(marks).history);
        Mark { history, ..Mark::default() }
    }

    /// Adds a mark that was seen, maybe in one of the logs.
    pub(crate) fn add(&mut self, space: &str, mark: Mark, file: Option<usize>) {
        let in_files = file.map_or(0, bit);
        let history = if let Some(seen) = self.marks.get_mut(space) {
            let merged = seen.mark.max(mark);
            if merged != seen.mark {
                // Those that held the mark before do not hold this one.
                *seen = Seen { mark: merged, in_files: 0 };
            }
            if merged == mark {
                seen.in_files |= in_files;
            }
            merged.history
        } else {
            self.marks.insert(space.into(), Seen { mark, in_files });
            mark.history
        };
        // One more space on the latest history leaves it the latest.
        if self.latest != Some(history) {
            self.latest = None;
        }
    }

    /// What a log lacks until it holds all of `mark` and of what is known beyond that.
    pub(crate) fn lacks(&self, file: usize, space: &str, mark: Mark) -> Option<Mark> {
        let seen = self.seen(space);
        let merged = seen.mark.max(mark);
        (merged != seen.mark || seen.in_files & bit(file) == 0).then_some(merged)
    }

    /// Whether `mark` adds nothing to what is known and held by the first so many logs.
    pub(crate) fn holds(&self, files: usize, space: &str, mark: Mark) -> bool {
        let seen = self.seen(space);
        seen.mark.max(mark) == seen.mark && (0..files).all(|file| seen.in_files & bit(file) != 0)
    }

    /// Forgets what a log holds, because it was replaced. What was seen stays seen.
    pub(crate) fn forget_file(&mut self, file: usize) {
        self.marks.values_mut().for_each(|seen| seen.in_files &= !bit(file));
    }

    /// Every log holds all of nothing.
    fn seen(&self, space: &str) -> Seen {
        let nothing = Seen { mark: Mark::default(), in_files: u8::MAX };
        self.marks.get(space).copied().unwrap_or(nothing)
    }
}

fn bit(file: usize) -> u8 {
    1 << file
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ERA;

    fn mark(revision: u64, next: u64) -> Mark {
        Mark { revision, next, ..Mark::default() }
    }

    fn on(server: u64, timeline: u64, revision: u64) -> Mark {
        Mark { revision, history: History { server, timeline }, ..Mark::default() }
    }

    #[test]
    fn a_space_takes_64_bytes_beyond_its_name() {
        assert_eq!(size_of::<(Box<str>, Seen)>(), 64);
    }

    #[test]
    fn a_log_holds_a_mark_only_once_it_was_read_there() {
        let mut known = Known::default();
        known.add("a", mark(5, 50), Some(0));
        assert!(known.holds(1, "a", mark(5, 50)) && !known.holds(2, "a", mark(5, 50)));
        assert_eq!(known.lacks(0, "a", mark(4, 50)), None);
        assert_eq!(known.lacks(1, "a", mark(4, 40)), Some(mark(5, 50)));
        known.add("a", mark(6, 50), Some(1));
        assert_eq!(known.lacks(0, "a", mark(1, 1)), Some(mark(6, 50)));
        known.add("a", mark(6, 50), Some(0));
        assert!(known.holds(2, "a", mark(6, 50)));
        known.forget_file(1);
        assert!(known.holds(1, "a", mark(6, 50)) && !known.holds(2, "a", mark(6, 50)));
        // Parts of it, in different logs, are in none as a whole.
        known.add("a", mark(1, 70), Some(1));
        assert_eq!(known.get("a"), Some(mark(6, 70)));
        assert_eq!(known.lacks(0, "a", Mark::default()), Some(mark(6, 70)));
        assert_eq!(known.lacks(1, "a", Mark::default()), Some(mark(6, 70)));
    }

    #[test]
    fn nothing_seen_is_nothing_to_write() {
        let known = Known::default();
        assert!(known.holds(2, "a", Mark::default()));
        assert_eq!(known.lacks(1, "a", Mark::default()), None);
        assert!(!known.holds(0, "a", mark(1, 0)));
    }

    #[test]
    fn the_remembered_history_is_the_one_that_would_be_found_anew() {
        let mut known = Known::default();
        assert_eq!(known.floor("new"), Mark::default());
        let marks = [
            ("a", on(7, 1, 5)),
            ("b", on(7, 1, 9)),
            ("a", on(7, 2, 6)),
            ("c", on(7, 1, 3)),
            ("b", on(8, 1, ERA)),
            ("d", on(8, 1, ERA + 4)),
            ("d", on(7, 1, 2 * ERA)),
            ("e", Mark::default()),
        ];
        for (space, mark) in marks {
            known.add(space, mark, None);
            let marks: Vec<Mark> = known.iter().map(|(_, mark)| mark).collect();
            assert_eq!(known.floor("new"), unseen(marks.iter()), "after {space} {mark:?}");
        }
    }
}
