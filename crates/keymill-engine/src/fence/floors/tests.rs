//! Floors as their callers see them. Two `Floors` on one file are to each other like two processes.

mod compaction;
mod earlier_version;
mod failures;
mod raises;
#[cfg(feature = "sqlite")]
mod reader;
mod stores;
mod tokens;

use std::fs;
use std::io::Write;
use std::sync::mpsc;

use super::*;

fn mark(revision: u64, next: u64) -> Mark {
    Mark { revision, next, ..Mark::default() }
}

impl Floors {
    /// Raises the floor of a space, on disk before in memory, and waits for it.
    fn raise(&self, space: &str, mark: Mark) -> io::Result<()> {
        self.raise_all(vec![(space.to_owned(), mark)])
    }

    /// Raises the floors of many spaces with few writes, and waits for it. Where one cannot be
    /// raised, some of the others may be.
    fn raise_all(&self, marks: Vec<(String, Mark)>) -> io::Result<()> {
        let (answer, answered) = mpsc::channel();
        self.ask(marks, Box::new(move |done| drop(answer.send(done))));
        answered.recv().unwrap_or_else(|_| Err(unanswered()))
    }

    /// How often a log was synced for these floors.
    fn syncs(&self) -> u64 {
        lock_shared(&self.shared).syncs
    }
}

/// A data directory.
struct DataDir {
    _folder: tempfile::TempDir,
    path: PathBuf,
    paths: Paths,
}

impl DataDir {
    fn new() -> DataDir {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("floors.json");
        DataDir { _folder: folder, paths: Paths::of(&path), path }
    }

    fn try_open(&self) -> io::Result<Floors> {
        Floors::open("s1".to_owned(), vec![self.path.clone()])
    }

    fn open(&self) -> Floors {
        self.try_open().unwrap()
    }

    /// What a process that starts now knows.
    fn mark(&self, space: &str) -> Mark {
        self.open().of(space).unwrap().mark
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.paths.log).unwrap()
    }

    fn write_log(&self, text: &str) {
        fs::write(&self.paths.log, text).unwrap();
    }

    fn append(&self, bytes: &[u8]) {
        let mut file = OpenOptions::new().append(true).open(&self.paths.log).unwrap();
        file.write_all(bytes).unwrap();
    }
}
