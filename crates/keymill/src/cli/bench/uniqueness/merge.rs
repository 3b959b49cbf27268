//! The merge of sorted runs: where it is counted how many keys are different.
//!
//! `buffer` merges here at the end of a bench. It takes time and the memory of its read buffers, however many keys
//! there are.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::vec;

use super::disk::{self, Need};
use super::record::Record;
use super::runs::{Run, RunReader, RunWriter};
use super::{Duplicate, Progress, SAMPLES_MAX};

/// After how many records the progress is told, and an interruption noticed.
const STEP: u64 = 1 << 16;
/// The read buffer of a run: the smallest and the largest.
const READ_BUFFER_MIN: usize = 1 << 12;
const READ_BUFFER_MAX: usize = 1 << 20;

/// What was counted.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in super::super) struct Counted {
    /// How many keys there are.
    pub(in super::super) keys: u64,
    /// How many of them are different.
    pub(in super::super) unique: u64,
    /// Some of those that came more than once.
    pub(in super::super) samples: Vec<Duplicate>,
}

/// How to merge.
#[derive(Debug)]
pub(super) struct Merging<'a> {
    pub(super) key_len: usize,
    pub(super) folder: &'a Path,
    /// How many bytes the read buffers may take.
    pub(super) memory: usize,
    /// How many runs are read side by side at most. Where there are more, some are merged into one first.
    pub(super) fan_in: usize,
    pub(super) progress: &'a Progress,
}

/// Where sorted records come from.
enum Source<R> {
    File(RunReader<R>),
    Memory(vec::IntoIter<R>),
}

/// A tournament among sources: its winner has the lowest record. `seats[n + i]` is source i, and each seat below that is
/// the better of the two beneath it, up to the winner in seat 1.
struct Tournament<R> {
    sources: Vec<Source<R>>,
    heads: Vec<Option<R>>,
    seats: Vec<usize>,
}

/// Counts records that come in order.
struct Counter<R> {
    key_len: usize,
    counted: Counted,
    last: Option<R>,
    /// How often the last one came.
    times: u64,
}

impl Counted {
    /// Counts sorted records in memory.
    pub(super) fn of_sorted<R: Record>(sorted: &[R], key_len: usize) -> Counted {
        let mut counter = Counter::new(key_len);
        sorted.iter().for_each(|record| counter.add(*record));
        counter.finish()
    }

    pub(super) fn add(&mut self, other: Counted) {
        self.keys += other.keys;
        self.unique += other.unique;
        self.samples.extend(other.samples);
        self.samples.truncate(SAMPLES_MAX);
    }
}

impl Merging<'_> {
    /// Counts the records of all runs, and of those in memory, which are sorted.
    pub(super) fn count<R: Record>(&self, runs: Vec<Run>, sorted: Vec<R>) -> io::Result<Counted> {
        let runs = self.reduce::<R>(runs)?;
        let mut tournament = self.tournament(runs, sorted)?;
        let mut counter = Counter::new(self.key_len);
        while let Some(record) = tournament.next()? {
            counter.add(record);
            if counter.counted.keys.is_multiple_of(STEP) {
                self.tell(STEP)?;
            }
        }
        Ok(counter.finish())
    }

    /// Merges runs until there are few enough to be read side by side.
    fn reduce<R: Record>(&self, mut runs: Vec<Run>) -> io::Result<Vec<Run>> {
        let fan_in = self.fan_in.max(2);
        while runs.len() > fan_in {
            // The shortest first, so that long ones are not copied again and again.
            runs.sort_by_key(|run| std::cmp::Reverse(run.records));
            let some = runs.split_off(runs.len() - fan_in);
            let records: u64 = some.iter().map(|run| run.records).sum();
            // What is merged stays on disk until it is.
            let bytes = records.saturating_mul(self.key_len as u64);
            let need = Need { folder: self.folder.to_owned(), bytes };
            disk::check(&[need]).map_err(io::Error::other)?;
            self.progress.to_merge.fetch_add(records, Ordering::Relaxed);
            let mut tournament = self.tournament::<R>(some, Vec::new())?;
            let mut merged = RunWriter::new(self.folder, self.key_len)?;
            let mut written = 0_u64;
            while let Some(record) = tournament.next()? {
                merged.push(record)?;
                written += 1;
                if written.is_multiple_of(STEP) {
                    self.tell(STEP)?;
                }
            }
            runs.push(merged.finish()?);
        }
        Ok(runs)
    }

    fn tournament<R: Record>(&self, runs: Vec<Run>, sorted: Vec<R>) -> io::Result<Tournament<R>> {
        let buffer = self.memory / runs.len().max(1);
        let buffer = buffer.clamp(READ_BUFFER_MIN, READ_BUFFER_MAX);
        let mut sources = vec![Source::Memory(sorted.into_iter())];
        for run in runs {
            sources.push(Source::File(run.read(self.key_len, buffer)?));
        }
        Tournament::new(sources)
    }

    fn tell(&self, records: u64) -> io::Result<()> {
        self.progress.merged.fetch_add(records, Ordering::Relaxed);
        match self.progress.is_cancelled.load(Ordering::Relaxed) {
            true => Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted")),
            false => Ok(()),
        }
    }
}

impl<R: Record> Source<R> {
    #[inline]
    fn next(&mut self) -> io::Result<Option<R>> {
        match self {
            Source::File(run) => run.next(),
            Source::Memory(records) => Ok(records.next()),
        }
    }
}

impl<R: Record> Tournament<R> {
    fn new(mut sources: Vec<Source<R>>) -> io::Result<Tournament<R>> {
        let count = sources.len();
        let heads = sources.iter_mut().map(Source::next).collect::<io::Result<Vec<_>>>()?;
        let seats = (0..2 * count).map(|seat| seat.saturating_sub(count)).collect();
        let mut tournament = Tournament { sources, heads, seats };
        (1..count).rev().for_each(|seat| tournament.play(seat));
        Ok(tournament)
    }

    /// The lowest record of all; `None` when there are no more.
    #[inline]
    fn next(&mut self) -> io::Result<Option<R>> {
        let winner = self.seats[1];
        let Some(record) = self.heads[winner] else { return Ok(None) };
        self.heads[winner] = self.sources[winner].next()?;
        let mut seat = (self.sources.len() + winner) / 2;
        while seat > 0 {
            self.play(seat);
            seat /= 2;
        }
        Ok(Some(record))
    }

    /// Seats the better of the two beneath a seat. A source that has ended loses.
    #[inline]
    fn play(&mut self, seat: usize) {
        let [one, other] = [self.seats[2 * seat], self.seats[2 * seat + 1]];
        let is_lower = match (self.heads[one], self.heads[other]) {
            (Some(one), Some(other)) => one <= other,
            (one, _) => one.is_some(),
        };
        self.seats[seat] = if is_lower { one } else { other };
    }
}

impl<R: Record> Counter<R> {
    fn new(key_len: usize) -> Counter<R> {
        Counter { key_len, counted: Counted::default(), last: None, times: 0 }
    }

    #[inline]
    fn add(&mut self, record: R) {
        debug_assert!(self.last.is_none_or(|last| last <= record), "records come in order");
        self.counted.keys += 1;
        if self.last == Some(record) {
            self.times += 1;
            return;
        }
        self.end_last();
        self.counted.unique += 1;
        (self.last, self.times) = (Some(record), 1);
    }

    fn finish(mut self) -> Counted {
        self.end_last();
        self.counted
    }

    /// Keeps the last record as a sample, if it came more than once.
    fn end_last(&mut self) {
        let Some(last) = self.last.filter(|_| self.times > 1) else { return };
        if self.counted.samples.len() < SAMPLES_MAX {
            let mut key = vec![0; self.key_len];
            last.unpack(&mut key);
            let key = String::from_utf8_lossy(&key).into_owned();
            self.counted.samples.push(Duplicate { key, times: self.times });
        }
    }
}
