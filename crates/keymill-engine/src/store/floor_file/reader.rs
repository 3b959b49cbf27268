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
