//! Keys of one length, in memory until they are too many: then they become sorted runs on disk.
//!
//! `uniqueness` has a buffer for each length of keys that it has met. Sorting and writing a run is a [`Job`] for
//! another thread, so that keys are taken in meanwhile.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::merge::{Counted, Merging};
use super::record::{KEY_LEN_MAX, Record};
use super::runs::Run;

/// Up to how many records the duplicates in memory are looked for again and again. Beyond that, whenever there are
/// twice as many.
const LOOKED_AT_OFTEN: usize = 1 << 20;

/// Work for the thread that sorts; returns how many keys of the run came more than once.
pub(super) type Job = Box<dyn FnOnce() -> io::Result<u64> + Send>;

/// Keys of one length.
pub(super) trait Buffer: Send {
    /// Adds keys that follow each other without anything in between.
    fn add(&mut self, keys: &[u8]);

    /// How many bytes of memory they take.
    fn bytes(&self) -> usize;

    /// Looks for duplicates in memory, if that is worth the while, and returns how many are known there.
    fn look(&mut self) -> u64;

    /// Empties the buffer into a run.
    fn spill(&mut self, folder: PathBuf) -> Job;

    /// How many keys there are, on disk and in memory.
    fn keys(&self) -> u64;

    /// Counts all of them. Every job is done.
    fn count(self: Box<Self>, merging: &Merging<'_>) -> io::Result<Counted>;
}

/// A buffer for keys of a length, with room for so many bytes.
pub(super) fn for_length(key_len: usize, capacity: usize) -> Box<dyn Buffer> {
    match key_len {
        0..=8 => Box::new(Records::<u64>::new(key_len, capacity)),
        9..=16 => Box::new(Records::<u128>::new(key_len, capacity)),
        // A UUID has 36 characters.
        17..=40 => Box::new(Records::<[u8; 40]>::new(key_len, capacity)),
        _ => Box::new(Records::<[u8; KEY_LEN_MAX]>::new(key_len, capacity)),
    }
}

struct Records<R> {
    key_len: usize,
    capacity: usize,
    records: Vec<R>,
    /// How many of them, from the first, are sorted, and how many of those came more than once.
    sorted: usize,
    repeated: u64,
    /// How many became runs.
    spilled: u64,
    runs: Arc<Mutex<Vec<Run>>>,
}

impl<R: Record> Records<R> {
    fn new(key_len: usize, capacity: usize) -> Records<R> {
        let capacity = (capacity / size_of::<R>()).max(1);
        let (records, runs) = (Vec::new(), Arc::default());
        Records { key_len, capacity, records, sorted: 0, repeated: 0, spilled: 0, runs }
    }
}

impl<R: Record> Buffer for Records<R> {
    fn add(&mut self, keys: &[u8]) {
        if self.records.capacity() == 0 {
            // All at once: to grow, a vector is copied, and takes its room twice. What is not used yet takes no memory.
            self.records.reserve_exact(self.capacity);
        }
        self.records.extend(keys.chunks_exact(self.key_len).map(R::pack));
    }

    fn bytes(&self) -> usize {
        self.records.len() * size_of::<R>()
    }

    fn look(&mut self) -> u64 {
        let len = self.records.len();
        if len > self.sorted && (len <= LOOKED_AT_OFTEN || len / 2 >= self.sorted) {
            // This sort is fast where a long beginning is in order already.
            self.records.sort();
            self.sorted = len;
            self.repeated = repeated(&self.records);
        }
        self.repeated
    }

    fn spill(&mut self, folder: PathBuf) -> Job {
        let mut records = std::mem::take(&mut self.records);
        (self.sorted, self.repeated) = (0, 0);
        self.spilled += records.len() as u64;
        let (runs, key_len) = (self.runs.clone(), self.key_len);
        Box::new(move || {
            records.sort_unstable();
            let run = Run::write(&folder, key_len, &records)?;
            runs.lock().unwrap_or_else(PoisonError::into_inner).push(run);
            Ok(repeated(&records))
        })
    }

    fn keys(&self) -> u64 {
        self.spilled + self.records.len() as u64
    }

    fn count(mut self: Box<Self>, merging: &Merging<'_>) -> io::Result<Counted> {
        self.records.sort_unstable();
        let runs = std::mem::take(&mut *self.runs.lock().unwrap_or_else(PoisonError::into_inner));
        let on_disk: u64 = runs.iter().map(|run| run.records).sum();
        assert_eq!(on_disk, self.spilled, "every run was written");
        if runs.is_empty() {
            return Ok(Counted::of_sorted(&self.records, self.key_len));
        }
        merging.count(runs, self.records)
    }
}

/// How many of sorted records came before.
fn repeated<R: Record>(sorted: &[R]) -> u64 {
    sorted.windows(2).filter(|two| two[0] == two[1]).count() as u64
}
