//! Uniqueness: every key that was received, and whether one came twice. It is exact, and takes bounded memory.
//!
//! Workers send keys in chunks; a thread of its own takes them in. Some millions of keys are kept and sorted in memory.
//! More become sorted runs on disk, which are merged at the end. The same thread writes the keys to a file, if one is
//! wanted.
//!
//! # Invariants
//!
//! - Every key that was sent here is counted, or the verdict is an error.
//! - At most two buffers are in memory: one that is filled, and one that is sorted and written.

mod buffer;
mod disk;
mod merge;
mod record;
mod runs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self as blocking, Receiver as JobReceiver, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use self::buffer::{Buffer, Job};
use self::disk::Need;
pub(super) use self::merge::Counted;
use self::merge::Merging;
pub(super) use self::record::KEY_LEN_MAX;

/// How many duplicates are shown.
const SAMPLES_MAX: usize = 10;
/// How many chunks may wait.
const CHUNKS_MAX: usize = 64;
/// How many runs are read side by side: a billion UUIDs become 470 with the usual memory, and need no second pass.
const FAN_IN: usize = 512;
/// How often to look for duplicates in memory.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Keys of one length, without anything in between.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) key_len: usize,
    pub(super) bytes: Vec<u8>,
}

/// What to do with keys.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// The folder for runs.
    pub(super) folder: PathBuf,
    /// How many bytes of memory buffers may take.
    pub(super) memory: usize,
    /// How many runs are read side by side.
    pub(super) fan_in: usize,
    /// The file that all keys are written to.
    pub(super) keys_out: Option<PathBuf>,
    /// How many keys will come, if that is known.
    pub(super) planned: Option<u64>,
}

/// A key that came more than once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Duplicate {
    pub(super) key: String,
    pub(super) times: u64,
}

/// How far it is, for whoever shows it.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// How many duplicates were found so far. There may be more, until all is merged.
    pub(super) found: AtomicU64,
    /// How many records will be merged, and how many were.
    pub(super) to_merge: AtomicU64,
    pub(super) merged: AtomicU64,
    /// Set to give up.
    pub(super) is_cancelled: AtomicBool,
}

/// The thread that takes keys in. Its verdict comes when all senders are gone.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) chunks: mpsc::Sender<Chunk>,
    pub(super) progress: Arc<Progress>,
    pub(super) verdict: JoinHandle<Result<Counted, String>>,
}

impl Settings {
    pub(super) fn new(folder: PathBuf, memory: usize) -> Settings {
        Settings { folder, memory, fan_in: FAN_IN, keys_out: None, planned: None }
    }
}

impl Check {
    /// Starts it. An error says which file or folder cannot be written to.
    pub(super) fn start(settings: Settings) -> anyhow::Result<Check> {
        let cannot = |path: &PathBuf, error: io::Error| {
            anyhow::anyhow!("cannot write to {}: {error}", path.display())
        };
        tempfile::tempfile_in(&settings.folder).map_err(|error| cannot(&settings.folder, error))?;
        let keys_out = match &settings.keys_out {
            Some(path) => Some(File::create(path).map_err(|error| cannot(path, error))?),
            None => None,
        };
        let (chunks, receiver) = mpsc::channel(CHUNKS_MAX);
        let progress = Arc::new(Progress::default());
        let shown = progress.clone();
        let thread = std::thread::Builder::new().name("uniqueness".to_owned());
        let verdict = thread.spawn(move || {
            let keys_out = keys_out.map(|file| BufWriter::with_capacity(1 << 18, file));
            Intake::new(settings, keys_out, shown).run(receiver)
        })?;
        Ok(Check { chunks, progress, verdict })
    }
}

/// The state of that thread.
struct Intake {
    settings: Settings,
    keys_out: Option<BufWriter<File>>,
    progress: Arc<Progress>,
    /// By the length of keys.
    buffers: BTreeMap<usize, Box<dyn Buffer>>,
    /// How many bytes all buffers may have before one of them becomes a run. The other parts of the memory are for the run
    /// that is sorted meanwhile, and for what sorting and merging need.
    bytes_max: usize,
    looked: Instant,
    sorter: Option<Sorter>,
}

/// The thread that sorts and writes runs, one at a time.
struct Sorter {
    jobs: SyncSender<Job>,
    /// How many duplicates it found within runs.
    found: Arc<AtomicU64>,
    thread: JoinHandle<io::Result<()>>,
}

impl Intake {
    fn new(
        settings: Settings,
        keys_out: Option<BufWriter<File>>,
        progress: Arc<Progress>,
    ) -> Intake {
        let bytes_max = settings.memory / 3;
        let (buffers, looked) = (BTreeMap::new(), Instant::now());
        Intake { settings, keys_out, progress, buffers, bytes_max, looked, sorter: None }
    }

    fn run(mut self, mut chunks: mpsc::Receiver<Chunk>) -> Result<Counted, String> {
        while let Some(chunk) = chunks.blocking_recv() {
            self.take_in(&chunk)?;
            if self.looked.elapsed() >= LOOK_EVERY {
                self.look();
            }
        }
        self.finish()
    }

    fn take_in(&mut self, chunk: &Chunk) -> Result<(), String> {
        if self.buffers.is_empty() {
            // The first key tells how long keys are.
            self.check_room(chunk.key_len)?;
        }
        if let Some(out) = &mut self.keys_out {
            let mut keys = chunk.bytes.chunks_exact(chunk.key_len);
            let written = keys.try_for_each(|key| {
                out.write_all(key)?;
                out.write_all(b"\n")
            });
            written.map_err(|error| self.cannot_write_keys(&error))?;
        }
        let room = self.bytes_max;
        let new = || buffer::for_length(chunk.key_len, room + chunk.bytes.len() * 8);
        self.buffers.entry(chunk.key_len).or_insert_with(new).add(&chunk.bytes);
        let bytes: usize = self.buffers.values().map(|buffer| buffer.bytes()).sum();
        if bytes >= self.bytes_max {
            self.spill()?;
        }
        Ok(())
    }

    /// Refuses, at the first key, what will not fit on the disk.
    fn check_room(&self, key_len: usize) -> Result<(), String> {
        let Some(planned) = self.settings.planned else { return Ok(()) };
        let bytes = |each: usize| planned.saturating_mul(each as u64);
        let in_memory = self.bytes_max as u64;
        let mut needs = Vec::new();
        if bytes(key_len) > in_memory {
            needs.push(Need { folder: self.settings.folder.clone(), bytes: bytes(key_len) });
        }
        if let Some(parent) = self.settings.keys_out.as_ref().and_then(|path| path.parent()) {
            let here = parent.as_os_str().is_empty();
            let folder = if here { PathBuf::from(".") } else { parent.to_owned() };
            needs.push(Need { folder, bytes: bytes(key_len + 1) });
        }
        disk::check(&needs)
    }

    /// Makes a run of the largest buffer.
    fn spill(&mut self) -> Result<(), String> {
        let largest = self.buffers.values_mut().max_by_key(|buffer| buffer.bytes());
        let Some(largest) = largest else { return Ok(()) };
        let folder = self.settings.folder.clone();
        let need = Need { folder: folder.clone(), bytes: largest.bytes() as u64 };
        disk::check(&[need])?;
        let job = largest.spill(folder);
        let sorter = self.sorter.get_or_insert_with(Sorter::start);
        match sorter.jobs.send(job) {
            Ok(()) => Ok(()),
            // It has ended with an error.
            Err(_) => {
                Err(self.end_sorter().err().unwrap_or_else(|| "sorting has ended".to_owned()))
            }
        }
    }

    /// Looks for duplicates among the keys in memory.
    fn look(&mut self) {
        let in_memory: u64 = self.buffers.values_mut().map(|buffer| buffer.look()).sum();
        let in_runs = self.sorter.as_ref().map_or(0, |it| it.found.load(Ordering::Relaxed));
        self.progress.found.fetch_max(in_memory + in_runs, Ordering::Relaxed);
        self.looked = Instant::now();
    }

    fn finish(mut self) -> Result<Counted, String> {
        if let Some(mut out) = self.keys_out.take() {
            out.flush().map_err(|error| self.cannot_write_keys(&error))?;
        }
        self.end_sorter()?;
        let keys: u64 = self.buffers.values().map(|buffer| buffer.keys()).sum();
        self.progress.to_merge.store(keys, Ordering::Relaxed);
        let mut counted = Counted::default();
        for (key_len, buffer) in std::mem::take(&mut self.buffers) {
            let merging = Merging {
                key_len,
                folder: &self.settings.folder,
                memory: self.bytes_max,
                fan_in: self.settings.fan_in,
                progress: &self.progress,
            };
            counted.add(buffer.count(&merging).map_err(|error| self.cannot_sort(&error))?);
        }
        assert_eq!(counted.keys, keys, "every key that came was counted");
        Ok(counted)
    }

    /// Waits until all runs are written.
    fn end_sorter(&mut self) -> Result<(), String> {
        let Some(Sorter { jobs, thread, .. }) = self.sorter.take() else { return Ok(()) };
        drop(jobs);
        let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
        ended.map_err(|error| self.cannot_sort(&error))
    }

    fn cannot_sort(&self, error: &io::Error) -> String {
        if error.kind() == io::ErrorKind::Interrupted {
            return "it was interrupted".to_owned();
        }
        format!("cannot sort keys in {}: {error}", self.settings.folder.display())
    }

    fn cannot_write_keys(&self, error: &io::Error) -> String {
        let path = self.settings.keys_out.as_ref().map(|path| path.display().to_string());
        format!("cannot write keys to {}: {error}", path.unwrap_or_default())
    }
}

impl Sorter {
    fn start() -> Sorter {
        // Without room: who hands over a job waits until the one before it is done, so there are never three buffers.
        let (jobs, receiver): (_, JobReceiver<Job>) = blocking::sync_channel(0);
        let found = Arc::new(AtomicU64::new(0));
        let told = found.clone();
        let thread = std::thread::spawn(move || {
            for job in receiver {
                told.fetch_add(job()?, Ordering::Relaxed);
            }
            Ok(())
        });
        Sorter { jobs, found, thread }
    }
}
