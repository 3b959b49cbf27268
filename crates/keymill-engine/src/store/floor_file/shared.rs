//! What `Floors` and its writer share: the floors in memory, and how far each log was read.
//!
//! It is held under a mutex for a look at the logs, and never while something is written.

use std::io;

use super::known::{FILES_MAX, Known};
use super::log::Paths;
use super::tail::{Event, FileId, Tail};
use crate::store::{Mark, TOKENS};

/// How much a log may grow beyond twice its compacted size.
const GROWTH_MAX: u64 = 64 * 1_024;

/// The floors of one store, and the logs that they are kept in.
#[derive(Debug)]
pub(crate) struct Shared {
    store: String,
    pub(crate) known: Known,
    files: Vec<Followed>,
    /// Whether another store had tokens.
    had_other_tokens: bool,
    /// How often a log was synced.
    pub(crate) syncs: u64,
}

#[derive(Debug)]
struct Followed {
    tail: Tail,
    /// Up to where it is certain that the log is on disk.
    synced: Option<(FileId, u64)>,
    /// Another store whose floors were found here.
    other_store: Option<String>,
}

impl Shared {
    /// Nothing is read yet.
    pub(crate) fn new(store: &str, files: impl Iterator<Item = Paths>) -> Shared {
        let followed = |paths| Followed { tail: Tail::new(paths), synced: None, other_store: None };
        let files: Vec<Followed> = files.map(followed).collect();
        assert!(files.len() <= FILES_MAX, "floors are kept in two logs at most");
        Shared {
            store: store.to_owned(),
            known: Known::default(),
            files,
            had_other_tokens: false,
            syncs: 0,
        }
    }

    /// Takes in what was written to one log.
    pub(crate) fn follow(&mut self, file: usize) -> io::Result<()> {
        let Shared { store: own, known, files, had_other_tokens, .. } = self;
        let Followed { tail, synced, other_store } = &mut files[file];
        tail.follow(&mut |event| match event {
            Event::Anew => {
                known.forget_file(file);
                *synced = None;
            }
            Event::Floor { store, space, mark, in_log } if store == own.as_str() => {
                known.add(space, mark, in_log.then_some(file));
            }
            Event::Floor { store, space, mark, .. } => {
                *had_other_tokens |= space == TOKENS && mark.is_seen();
                other_store.get_or_insert_with(|| store.to_owned());
            }
        })
    }

    /// Takes in what was written to any of the logs.
    pub(crate) fn follow_all(&mut self) -> io::Result<()> {
        (0..self.files.len()).try_for_each(|file| self.follow(file))
    }

    /// Whether these marks are safe in every log, as far as they were read: then there is nothing
    /// to raise. What another process wrote may be read before it is on disk.
    pub(crate) fn holds<'a>(&self, mut marks: impl Iterator<Item = (&'a str, Mark)>) -> bool {
        let count = self.files.len();
        (0..count).all(|file| self.is_synced(file))
            && marks.all(|(space, mark)| self.known.holds(count, space, mark))
    }

    /// What one log lacks of these marks.
    pub(crate) fn lacking<'a>(
        &self,
        file: usize,
        marks: impl Iterator<Item = (&'a str, Mark)>,
    ) -> Vec<(&'a str, Mark)> {
        marks
            .filter_map(|(space, mark)| Some((space, self.known.lacks(file, space, mark)?)))
            .collect()
    }

    /// Whether all that was read of a log is certainly on disk.
    pub(crate) fn is_synced(&self, file: usize) -> bool {
        let Followed { tail, synced, .. } = &self.files[file];
        tail.end().is_none() || tail.end() == *synced
    }

    /// Notes that all that was read of a log is on disk.
    pub(crate) fn set_synced(&mut self, file: usize) {
        let Followed { tail, synced, .. } = &mut self.files[file];
        *synced = tail.end();
    }

    /// Where the last complete record of a log ends; `None` where there is no log.
    pub(crate) fn end(&self, file: usize) -> Option<(FileId, u64)> {
        self.files[file].tail.end()
    }

    /// The size from which on a log should be compacted.
    pub(crate) fn size_max(&self, file: usize) -> u64 {
        self.files[file].tail.compacted_size().saturating_mul(2).saturating_add(GROWTH_MAX)
    }

    /// Whether any of the logs knows of tokens of another store.
    pub(crate) fn had_other_tokens(&self) -> bool {
        self.had_other_tokens
    }

    /// Another store that was found in one of the logs, and where.
    pub(crate) fn other_store(&self) -> Option<(&Paths, &str)> {
        self.files.iter().find_map(|file| Some((file.tail.paths(), file.other_store.as_deref()?)))
    }
}
