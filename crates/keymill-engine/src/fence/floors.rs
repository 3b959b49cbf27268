//! Floors: the highest point of each space that this data directory has seen.
//!
//! A store that was rolled back to an earlier state (a restored backup, a failover that lost commits) would
//! grant again what was granted before. Every request that changes a space therefore carries
//! its floor, and the store refuses when it finds itself below it. The fence raises the floor
//! before anything of a change leaves, and with what its heartbeat says the others did.
//!
//! Floors are kept in logs (`floors.log` in the data directory, `…-floors.log` beside a SQLite file)
//! that processes share. Raising appends to them and reading follows them, so neither depends on how
//! many spaces there are.
//!
//! # Invariants
//!
//! - A floor only rises: logs are appended to under a lock, and compacted without loss.
//! - What [`raise_to`] has returned from survives the process and the machine.
//! - What any process has raised before [`Floors::of`] was called, that call sees.

#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::store::floor_file::durable::named;
use crate::store::floor_file::known::Known;
use crate::store::floor_file::lock::{FileLock, LOCK_TIME_MAX};
use crate::store::floor_file::log::Paths;
use crate::store::floor_file::shared::Shared;
use crate::store::{Floor, Mark, StoreError, TOKENS};
use writer::{Answer, Writer};

/// How long to wait for floors to be written, before the disk must be stuck.
const RAISE_TIME_MAX: Duration = Duration::from_secs(15);

/// How many marks may be looked at without leaving them to the writer.
const FEW: usize = 100;

/// The floors of one store, in memory and in every log that should know.
#[derive(Debug)]
pub(crate) struct Floors {
    store: String,
    shared: Arc<Mutex<Shared>>,
    writer: Writer,
}

/// A data directory belongs to one store; this one knows another.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} belongs to the store {known}, but this is another one ({found}), so nothing is created in \
     it. If the old store was lost, restore it and run `keymill space advance`. To use a second \
     store, give it a data directory of its own with --data-dir or, in a Rust program, \
     `data_dir()`. To start over, and possibly repeat keys that were already handed out, stop every \
     instance and remove {}",
    paths[0].display(), list(paths)
)]
pub struct OtherStore {
    paths: Vec<PathBuf>,
    known: String,
    found: String,
}

impl Floors {
    /// The floors of the store `store`, kept beside `files`: the data directory's and, where the
    /// store has one, that which every process on that store shares.
    pub(crate) fn open(store: String, files: Vec<PathBuf>) -> io::Result<Floors> {
        let files: Vec<Paths> = files.into_iter().map(|path| Paths::of(&path)).collect();
        let mut shared = Shared::new(&store, files.iter().cloned());
        for (file, paths) in files.iter().enumerate() {
            // A log that is broken or cannot be written is better found at start than at the first
            // grant.
            let _lock = FileLock::take(&paths.lock, LOCK_TIME_MAX)?;
            shared.follow(file)?;
            let opened = OpenOptions::new().append(true).open(&paths.log);
            if let Err(error) = opened
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(named(&paths.log, &error));
            }
        }
        let shared = Arc::new(Mutex::new(shared));
        let writer = Writer::start(&store, files, shared.clone())?;
        Ok(Floors { store, shared, writer })
    }

    /// The identity of the store that these floors are of.
    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    /// The highest mark of a space that this process, or another that shares a log, has seen.
    pub(crate) fn of(&self, space: &str) -> io::Result<Floor> {
        let mut shared = lock_shared(&self.shared);
        shared.follow_all()?;
        Ok(Floor { store: self.store.clone(), mark: shared.known.floor(space) })
    }

    /// The same of many spaces, in their order.
    fn of_each(&self, spaces: &[String]) -> io::Result<Vec<Floor>> {
        let mut shared = lock_shared(&self.shared);
        shared.follow_all()?;
        let of =
            |space: &String| Floor { store: self.store.clone(), mark: shared.known.floor(space) };
        Ok(spaces.iter().map(of).collect())
    }

    /// The highest marks of all spaces seen. The token list is not a space.
    pub(crate) fn all(&self) -> io::Result<BTreeMap<String, Mark>> {
        self.with_all(|known| {
            let spaces = known.iter().filter(|(name, _)| *name != TOKENS);
            spaces.map(|(space, mark)| (space.to_owned(), mark)).collect()
        })
    }

    /// Whether a log knows of tokens of another store, as far as it was read: a data directory belongs to
    /// one store, so that one was lost or exchanged.
    pub(crate) fn had_other_tokens(&self) -> bool {
        lock_shared(&self.shared).had_other_tokens()
    }

    /// Looks at the highest marks of all spaces seen, and of the token list, without a copy. Nothing is raised meanwhile, so
    /// it must not take long.
    pub(crate) fn with_all<T>(&self, look: impl FnOnce(&Known) -> T) -> io::Result<T> {
        let mut shared = lock_shared(&self.shared);
        shared.follow_all()?;
        Ok(look(&shared.known))
    }

    /// Refuses where a log knows another store: creating a space or a secret there would
    /// start a second life of what the other store had.
    pub(crate) fn check_store(&self) -> io::Result<Result<(), OtherStore>> {
        let mut shared = lock_shared(&self.shared);
        shared.follow_all()?;
        let Some((paths, known)) = shared.other_store() else {
            return Ok(Ok(()));
        };
        let mut paths = vec![paths.log.clone(), paths.old.clone()];
        paths.retain(|path| path.exists());
        let (known, found) = (known.to_owned(), self.store.clone());
        // Where both are gone by now, there is nothing left that knows another store.
        Ok(if paths.is_empty() { Ok(()) } else { Err(OtherStore { paths, known, found }) })
    }

    /// Has floors raised, and `answer` told of it. It is called on the runtime's threads, so it
    /// neither waits nor looks at many marks.
    fn ask(&self, marks: Vec<(String, Mark)>, answer: Answer) {
        let each = marks.iter().map(|(space, mark)| (space.as_str(), *mark));
        let is_few = marks.len() <= FEW;
        if is_few && self.shared.try_lock().is_ok_and(|shared| shared.holds(each)) {
            return answer(Ok(()));
        }
        self.writer.ask(marks, answer);
    }
}

/// The floor of a space, read off the runtime's threads.
pub(crate) async fn floor_of(floors: &Arc<Floors>, space: &str) -> Result<Floor, StoreError> {
    let (floors, space) = (floors.clone(), space.to_owned());
    blocking(move || floors.of(&space)).await
}

/// The floors of many spaces, in their order, read off the runtime's threads.
pub(crate) async fn floors_of(
    floors: &Arc<Floors>,
    spaces: Vec<String>,
) -> Result<Vec<Floor>, StoreError> {
    let floors = floors.clone();
    blocking(move || floors.of_each(&spaces)).await
}

/// The floors of all spaces, read off the runtime's threads.
pub(crate) async fn all_floors(floors: &Arc<Floors>) -> Result<BTreeMap<String, Mark>, StoreError> {
    let floors = floors.clone();
    blocking(move || floors.all()).await
}

/// Makes the floor files know how far a space has come.
pub(crate) async fn raise_to(
    floors: &Arc<Floors>,
    space: &str,
    mark: Mark,
) -> Result<(), StoreError> {
    raise_all(floors, vec![(space.to_owned(), mark)]).await
}

/// Makes the floor files know how far many spaces have come, with few writes.
pub(crate) async fn raise_all(
    floors: &Arc<Floors>,
    marks: Vec<(String, Mark)>,
) -> Result<(), StoreError> {
    let (answer, answered) = oneshot::channel();
    floors.ask(marks, Box::new(move |done| drop(answer.send(done))));
    let done = match tokio::time::timeout(RAISE_TIME_MAX, answered).await {
        Ok(answered) => answered.unwrap_or_else(|_| Err(unanswered())),
        Err(_) => {
            let late = format!("not written within {RAISE_TIME_MAX:?}; the disk may be stuck");
            Err(io::Error::new(io::ErrorKind::TimedOut, late))
        }
    };
    done.map_err(|error| problem(&error))
}

async fn blocking<T: Send + 'static>(
    job: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(job).await {
        Ok(done) => done.map_err(|error| problem(&error)),
        Err(stopped) if stopped.is_cancelled() => Err(problem(&stopped)),
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

fn problem(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Unavailable(format!("the floor file: {error}"))
}

fn unanswered() -> io::Error {
    io::Error::other("the thread that writes the floor file failed; the log says why")
}

fn lock_shared(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().expect("no code panics while it holds the floors")
}

/// Files as a sentence names them.
fn list(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    names.join(" and ")
}
