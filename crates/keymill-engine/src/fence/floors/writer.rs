//! The writer: one thread that puts raised floors into the logs, as many at a time as wait.
//!
//! A raise would cost a sync for each log. Here those that come while others are written wait, and
//! share the next write: nobody waits for company, and a crowd pays once.
//!
//! # Invariants
//!
//! - A raise is answered only once every log holds it and has been synced; then memory knows it too.
//! - If a log cannot be written, every raise that shared the write fails.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use super::lock_shared;
use crate::store::Mark;
use crate::store::floor_file::appender::Appender;
use crate::store::floor_file::lock::{FileLock, LOCK_TIME_MAX};
use crate::store::floor_file::log::{self, Paths};
use crate::store::floor_file::shared::Shared;

/// How many raises may wait.
const WAITING_MAX: usize = 65_536;
/// How many floors go into one line, which is read and written as a whole.
const LINE_FLOORS_MAX: usize = 4_096;
/// How much a log has to grow until a compaction that failed is tried again.
const RETRY_GROWTH: u64 = 64 * 1_024;

/// Gets the outcome of a raise, on the writer's thread.
pub(super) type Answer = Box<dyn FnOnce(io::Result<()>) + Send>;

/// The thread and its queue. Dropping it lets the thread write what waits, and waits for its end.
pub(super) struct Writer {
    queue: Arc<RaiseQueue>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct RaiseQueue {
    waiting: Mutex<Waiting>,
    has_changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    raises: Vec<Raise>,
    is_closed: bool,
}

struct Raise {
    marks: Vec<(String, Mark)>,
    answer: Answer,
}

/// What the thread works with.
struct Work {
    store: String,
    shared: Arc<Mutex<Shared>>,
    logs: Vec<Log>,
}

struct Log {
    appender: Appender,
    /// Below this size no compaction is tried, because one has failed.
    compact_from: u64,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(
        store: &str,
        files: Vec<Paths>,
        shared: Arc<Mutex<Shared>>,
    ) -> io::Result<Writer> {
        let log = |paths| Log { appender: Appender::new(paths), compact_from: 0 };
        let logs = files.into_iter().map(log).collect();
        let mut work = Work { store: store.to_owned(), shared, logs };
        let queue = Arc::<RaiseQueue>::default();
        let asked = queue.clone();
        let run = move || {
            while let Some(raises) = asked.next() {
                work.answer(raises);
            }
            work.close();
        };
        let thread = std::thread::Builder::new().name("floors-write".to_owned()).spawn(run)?;
        Ok(Writer { queue, thread: Some(thread) })
    }

    /// Has floors raised together with whatever else waits.
    pub(super) fn ask(&self, marks: Vec<(String, Mark)>, answer: Answer) {
        let mut waiting = self.queue.waiting();
        if waiting.raises.len() >= WAITING_MAX {
            drop(waiting);
            let problem = format!(
                "more than {WAITING_MAX} changes are waiting to be written; the disk of the data \
                 directory may be too slow"
            );
            return answer(Err(io::Error::other(problem)));
        }
        waiting.raises.push(Raise { marks, answer });
        drop(waiting);
        self.queue.has_changed.notify_one();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.waiting().is_closed = true;
        self.queue.has_changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl RaiseQueue {
    /// All that waits, once something does; `None` when nothing more will come.
    fn next(&self) -> Option<Vec<Raise>> {
        let waiting = self.waiting();
        let mut waiting = self
            .has_changed
            .wait_while(waiting, |waiting| waiting.raises.is_empty() && !waiting.is_closed)
            .expect("nothing panics while it is held");
        let raises = std::mem::take(&mut waiting.raises);
        (!raises.is_empty()).then_some(raises)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nothing panics while it is held")
    }
}

impl Work {
    /// Writes what was asked for together, and tells everyone how it went.
    fn answer(&mut self, raises: Vec<Raise>) {
        // A write that panics fails alone: those who wait see that no answer comes.
        let Ok(done) = catch_unwind(AssertUnwindSafe(|| self.write(&raises))) else {
            return;
        };
        for raise in raises {
            let done = done.as_ref().copied();
            (raise.answer)(done.map_err(|error| io::Error::new(error.kind(), error.to_string())));
        }
    }

    fn write(&mut self, raises: &[Raise]) -> io::Result<()> {
        let mut marks: BTreeMap<&str, Mark> = BTreeMap::new();
        for (space, mark) in raises.iter().flat_map(|raise| &raise.marks) {
            let highest = marks.entry(space).or_default();
            *highest = highest.max(*mark);
        }
        if lock_shared(&self.shared).holds(each(&marks)) {
            return Ok(());
        }
        for file in 0..self.logs.len() {
            self.write_log(file, &marks)?;
        }
        // Reading the logs back has raised them; but a log that was removed since has not.
        let mut shared = lock_shared(&self.shared);
        each(&marks).for_each(|(space, mark)| shared.known.add(space, mark, None));
        Ok(())
    }

    /// Makes one log hold these marks.
    fn write_log(&mut self, file: usize, marks: &BTreeMap<&str, Mark>) -> io::Result<()> {
        let Log { appender, compact_from } = &mut self.logs[file];
        let _lock = FileLock::take(&appender.paths().lock, LOCK_TIME_MAX)?;
        // From here on nobody else writes; what others wrote before counts.
        let mut shared = lock_shared(&self.shared);
        shared.follow(file)?;
        // A log that is gone has lost the floors of all spaces, not only of those that are raised.
        let is_gone = shared.end(file).is_none();
        let all: Vec<(String, Mark)> = if is_gone {
            let others = shared.known.iter().filter(|(space, _)| !marks.contains_key(space));
            others.map(|(space, mark)| (space.to_owned(), mark)).collect()
        } else {
            Vec::new()
        };
        let mut lacking = shared.lacking(file, each(marks));
        lacking.extend(all.iter().map(|(space, mark)| (space.as_str(), *mark)));
        if lacking.is_empty() && shared.is_synced(file) {
            return Ok(());
        }
        if is_gone {
            drop(shared);
            appender.compact()?;
            shared = lock_shared(&self.shared);
            shared.follow(file)?;
        }
        let (id, mut end) = shared.end(file).ok_or_else(|| {
            let problem = format!("{} was removed", appender.paths().log.display());
            io::Error::new(io::ErrorKind::NotFound, problem)
        })?;
        drop(shared);

        let mut syncs = 0;
        if lacking.is_empty() {
            appender.sync(id)?;
            syncs += 1;
        }
        for floors in lacking.chunks(LINE_FLOORS_MAX) {
            let line = log::record(&self.store, floors);
            appender.append(id, end, &line)?;
            end += line.len() as u64;
            syncs += 1;
        }

        let mut shared = lock_shared(&self.shared);
        shared.follow(file)?;
        shared.set_synced(file);
        shared.syncs += syncs;
        if end <= shared.size_max(file).max(*compact_from) {
            return Ok(());
        }
        drop(shared);
        let compacted = appender.compact().and_then(|()| {
            let mut shared = lock_shared(&self.shared);
            shared.follow(file)?;
            shared.set_synced(file);
            Ok(())
        });
        if let Err(error) = compacted {
            // What was asked for is safe; the log is only larger than it need be.
            tracing::warn!("a floor log could not be compacted: {error}");
            *compact_from = end + RETRY_GROWTH;
        }
        Ok(())
    }

    fn close(&mut self) {
        self.logs.iter_mut().for_each(|log| log.appender.close());
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writer({} waiting)", self.queue.waiting().raises.len())
    }
}

fn each<'a>(marks: &BTreeMap<&'a str, Mark>) -> impl Iterator<Item = (&'a str, Mark)> {
    marks.iter().map(|(space, mark)| (*space, *mark))
}
