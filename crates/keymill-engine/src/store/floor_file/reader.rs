//! Reading one floor log again and again, for SQLite: inside its transaction, where no other process
//! can be granted anything meanwhile.

use std::io;
use std::path::Path;

use super::known::Known;
use super::log::Paths;
use super::tail::{Event, Tail};
use crate::store::Mark;

/// A floor log, what it says of one store, and how far it was read.
#[derive(Debug)]
pub(crate) struct FloorReader {
    tail: Tail,
    store: String,
    known: Known,
}

impl FloorReader {
    /// Reads the floors beside `path`, from the first question on.
    pub(crate) fn new(path: &Path) -> FloorReader {
        let tail = Tail::new(Paths::of(path));
        FloorReader { tail, store: String::new(), known: Known::default() }
    }

    /// The highest mark of a space that was in the log when the call began.
    ///
    /// Reads what was written since the last call. A question about another store than the last one
    /// reads the log from the start.
    pub(crate) fn mark(&mut self, store: &str, space: &str) -> io::Result<Mark> {
        if self.store != store {
            let tail = Tail::new(self.tail.paths().clone());
            *self = FloorReader { tail, store: store.to_owned(), known: Known::default() };
        }
        let FloorReader { tail, known, .. } = self;
        tail.follow(&mut |event| {
            if let Event::Floor { store: of, space, mark, .. } = event
                && of == store
            {
                known.add(space, mark, None);
            }
        })?;
        Ok(known.get(space).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::super::appender::Appender;
    use super::super::mark_in;
    use super::*;
    use crate::fence::floors::Floors;

    fn mark(revision: u64, next: u64) -> Mark {
        Mark { revision, next, ..Mark::default() }
    }

    #[test]
    fn a_reader_sees_each_raise_at_once_and_keeps_stores_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keymill.db-floors.json");
        let mut reader = FloorReader::new(&path);
        assert_eq!(reader.mark("s1", "links").unwrap(), Mark::default());
        let one = Floors::open("s1".to_owned(), vec![path.clone()]).unwrap();
        let two = Floors::open("s2".to_owned(), vec![path.clone()]).unwrap();
        for round in 1..5 {
            one.raise("links", mark(round, 10 * round)).unwrap();
            two.raise("links", mark(9 * round, 0)).unwrap();
            assert_eq!(reader.mark("s1", "links").unwrap(), mark(round, 10 * round));
            assert_eq!(reader.mark("s1", "other").unwrap(), Mark::default());
            assert_eq!(mark_in(&path, "s2", "links").unwrap(), mark(9 * round, 0));
        }
        assert_eq!(reader.mark("s2", "links").unwrap(), mark(36, 0));
        assert_eq!(reader.mark("s1", "links").unwrap(), mark(4, 40));
    }

    #[test]
    fn a_reader_follows_a_log_that_was_compacted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("floors.json");
        let floors = Floors::open("s1".to_owned(), vec![path.clone()]).unwrap();
        floors.raise("links", mark(1, 10)).unwrap();
        let mut reader = FloorReader::new(&path);
        assert_eq!(reader.mark("s1", "links").unwrap(), mark(1, 10));
        Appender::new(Paths::of(&path)).compact().unwrap();
        floors.raise("links", mark(2, 20)).unwrap();
        assert_eq!(reader.mark("s1", "links").unwrap(), mark(2, 20));
    }
}
