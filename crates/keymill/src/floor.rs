//! Floors: the highest point of each space that this data directory has seen.
//!
//! A store that went back in time (a restored backup, a failover that lost commits) would
//! grant again what was granted before. Every request that changes a space therefore carries
//! its floor, and the store refuses when it finds itself below it. `refill` raises the floor
//! before a key of a new grant leaves; `heartbeat` raises it with what the others did.
//!
//! # Invariants
//!
//! - A floor only rises: a file is merged under its lock, never overwritten.
//! - What [`Floors::raise`] has returned from survives the process and the machine.

mod file;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::store::{ERA, StoreError, is_later_era};

#[cfg(feature = "sqlite")]
pub(crate) use file::{FileLock, mark_in};
use file::{LockedFile, read};

/// A point in the life of a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mark {
    /// How many changes the space has seen.
    pub revision: u64,
    /// The lowest ordinal never granted.
    pub next: u64,
    /// The server's history that it was seen on.
    #[serde(default, skip_serializing_if = "History::is_unknown")]
    pub history: History,
    /// The lengths that it had grown to. Where a generation begins depends on those before it, so
    /// a growth that was lost must be made again just as it was.
    #[serde(default, skip_serializing_if = "Lengths::is_empty")]
    pub grown: Lengths,
}

/// A set of key lengths, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lengths(u32);

/// Which server keeps a store, and which course of its history: a server that was cut off and
/// comes back has the same data as the one that took its place, on an older timeline.
///
/// Zeroes where a store has nothing of the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct History {
    /// The server or the cluster: it changes when data are moved to another one.
    pub server: u64,
    /// Rises with every failover.
    pub timeline: u64,
}

/// What a request carries: the store it means, and the mark that the store must have reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Floor {
    /// The identity of the store that was seen.
    pub store: String,
    /// The highest mark seen there.
    pub mark: Mark,
}

/// The floors of one store, in memory and in every file that should know.
#[derive(Debug)]
pub struct Floors {
    store: String,
    files: Vec<PathBuf>,
    memory: Mutex<HashMap<String, Mark>>,
}

/// A data directory belongs to one store; this one knows another.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} knows the store {known}, and this is another one ({found}), so nothing is created in it. \
     If the old store was lost, restore it and run `keymill space advance`. To use a second store, \
     give it a data directory of its own with --data-dir. To start over, with no regard for keys \
     already handed out, remove that file", path.display()
)]
pub struct OtherStore {
    path: PathBuf,
    known: String,
    found: String,
}

impl Mark {
    /// The higher of both, part by part.
    pub fn max(self, other: Mark) -> Mark {
        let (low, high) =
            if self.revision <= other.revision { (self, other) } else { (other, self) };
        let mut history = high.history;
        if !is_later_era(high.revision, low.revision) && low.history.server == history.server {
            history.timeline = history.timeline.max(low.history.timeline);
        }
        let grown = Lengths(self.grown.0 | other.grown.0);
        Mark { revision: high.revision, next: self.next.max(other.next), history, grown }
    }

    /// Whether a store that stands here has reached `floor`.
    pub fn has_reached(self, floor: Mark) -> bool {
        self.revision >= floor.revision
            && self.next >= floor.next
            && self.grown.contain(floor.grown)
            && self.continues(floor)
    }

    /// Whether what was seen at `floor` is on the history seen here. An advance since then
    /// allows any other: whoever ordered it has chosen.
    pub fn continues(self, floor: Mark) -> bool {
        floor.history.is_unknown()
            || is_later_era(self.revision, floor.revision)
            || (self.history.server == floor.history.server
                && self.history.timeline >= floor.history.timeline)
    }

    /// Whether anything was seen of the space at all.
    pub fn is_seen(self) -> bool {
        self.revision > 0
    }
}

impl Lengths {
    /// No lengths.
    pub const NONE: Lengths = Lengths(0);

    /// The set of these lengths, each below 32.
    pub fn of(lengths: &[u8]) -> Lengths {
        Lengths(lengths.iter().fold(0, |bits, length| bits | 1 << (length & 31)))
    }

    /// The lengths, the shortest first.
    pub fn list(self) -> Vec<u8> {
        (0..32).filter(|length| self.0 & 1 << length != 0).collect()
    }

    /// Whether all of the others are among these.
    pub fn contain(self, others: Lengths) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

impl History {
    /// Whether nothing is known of it.
    pub fn is_unknown(&self) -> bool {
        *self == History::default()
    }
}

impl Floor {
    /// Refuses to make a space in another store than was seen, or on a history left behind.
    pub fn check_new(&self, space: &str, store: &str, history: History) -> Result<(), StoreError> {
        if self.store != store {
            return Err(StoreError::other_store(space, self, store));
        }
        let here = Mark { history, ..Mark::default() };
        if !here.continues(self.mark) {
            return Err(StoreError::other_history(space, self.mark, history));
        }
        Ok(())
    }
}

impl Floors {
    /// The floors of the store `store`, kept in `files`: the data directory's and, where the
    /// store has one, the file that every process on that store shares.
    pub fn open(store: String, files: Vec<PathBuf>) -> io::Result<Floors> {
        let floors = Floors { store, files, memory: Mutex::default() };
        for path in &floors.files {
            // A broken or unwritable file is better found at start than at the first grant.
            drop(LockedFile::open(path)?);
        }
        Ok(floors)
    }

    /// The identity of the store that these floors are of.
    pub fn store(&self) -> &str {
        &self.store
    }

    /// The highest mark of a space that this process, or another that shares a file, has seen.
    pub fn of(&self, space: &str) -> io::Result<Floor> {
        let all = self.all()?;
        let mark = all.get(space).copied().unwrap_or_else(|| unseen(all.values()));
        Ok(Floor { store: self.store.clone(), mark })
    }

    /// The highest marks of all spaces seen.
    pub fn all(&self) -> io::Result<BTreeMap<String, Mark>> {
        let mut all: BTreeMap<String, Mark> = BTreeMap::new();
        let mut add = |space: &String, mark: Mark| {
            let known = all.entry(space.clone()).or_default();
            *known = known.max(mark);
        };
        self.memory().iter().for_each(|(space, &mark)| add(space, mark));
        for path in &self.files {
            if let Some(spaces) = read(path)?.get(&self.store) {
                spaces.iter().for_each(|(space, &mark)| add(space, mark));
            }
        }
        Ok(all)
    }

    /// Raises the floor of a space, on disk before in memory.
    pub fn raise(&self, space: &str, mark: Mark) -> io::Result<()> {
        if self.memory().get(space).is_some_and(|known| known.has_reached(mark)) {
            return Ok(());
        }
        for path in &self.files {
            let mut file = LockedFile::open(path)?;
            let known = file
                .content
                .entry(self.store.clone())
                .or_default()
                .entry(space.to_owned())
                .or_default();
            if !known.has_reached(mark) {
                *known = known.max(mark);
                file.write()?;
            }
        }
        let mut memory = self.memory();
        let known = memory.entry(space.to_owned()).or_default();
        *known = known.max(mark);
        Ok(())
    }

    /// Refuses where a file knows another store: creating a space or a secret there would
    /// start a second life of what the other store had.
    pub fn check_store(&self) -> io::Result<Result<(), OtherStore>> {
        for path in &self.files {
            let content = read(path)?;
            if let Some(known) = content.keys().find(|known| **known != self.store) {
                return Ok(Err(OtherStore {
                    path: path.clone(),
                    known: known.clone(),
                    found: self.store.clone(),
                }));
            }
        }
        Ok(Ok(()))
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, HashMap<String, Mark>> {
        self.memory.lock().expect("no code panics while it holds the floors")
    }
}

/// The floor of a space that was never seen: nothing is known but the history that it must be on.
/// That is the server of the latest advance, and the latest timeline that was met there.
pub(crate) fn unseen<'a>(known: impl Iterator<Item = &'a Mark> + Clone) -> Mark {
    let latest = known.clone().max_by_key(|mark| (mark.revision / ERA, mark.history.timeline));
    let server = latest.map(|mark| mark.history.server).unwrap_or_default();
    let there = known.map(|mark| mark.history).filter(|history| history.server == server);
    let history = there.max_by_key(|history| history.timeline).unwrap_or_default();
    Mark { history, ..Mark::default() }
}

/// The floor of a space, read off the runtime's threads.
pub(crate) async fn floor_of(floors: &Arc<Floors>, space: &str) -> Result<Floor, StoreError> {
    let (floors, space) = (floors.clone(), space.to_owned());
    blocking(move || floors.of(&space)).await
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
    let (floors, space) = (floors.clone(), space.to_owned());
    blocking(move || floors.raise(&space, mark)).await
}

async fn blocking<T: Send + 'static>(
    job: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    let problem =
        |error: &dyn std::fmt::Display| StoreError::Unavailable(format!("the floor file: {error}"));
    match tokio::task::spawn_blocking(job).await {
        Ok(done) => done.map_err(|error| problem(&error)),
        Err(stopped) if stopped.is_cancelled() => Err(problem(&stopped)),
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(revision: u64, next: u64) -> Mark {
        Mark { revision, next, ..Mark::default() }
    }

    fn on(history: (u64, u64), revision: u64) -> Mark {
        let history = History { server: history.0, timeline: history.1 };
        Mark { revision, next: 10, history, ..Mark::default() }
    }

    #[test]
    fn a_lower_timeline_or_another_server_has_not_reached_a_floor_until_an_advance() {
        let floor = on((7, 2), 5);
        for (history, reached) in [((7, 2), true), ((7, 3), true), ((7, 1), false), ((8, 3), false)]
        {
            assert_eq!(on(history, 9).has_reached(floor), reached, "{history:?}");
            assert!(on(history, crate::store::ERA).has_reached(floor), "{history:?}");
        }
        assert!(on((7, 1), 5).has_reached(mark(5, 10)));
        // Once advanced there, that history is the one that counts.
        assert_eq!(floor.max(on((8, 1), crate::store::ERA)).history, on((8, 1), 0).history);
        assert_eq!(floor.max(on((7, 1), 9)).history, floor.history);
    }

    #[test]
    fn a_new_space_must_be_made_on_the_latest_timeline() {
        let floors = Floors::open("s1".to_owned(), Vec::new()).unwrap();
        floors.raise("links", on((7, 2), 5)).unwrap();
        let new = floors.of("new").unwrap().mark;
        assert!(!new.is_seen() && new.history == on((7, 2), 0).history);
        // An advance on another server has decided for all.
        floors.raise("orders", on((8, 1), ERA)).unwrap();
        assert_eq!(floors.of("new").unwrap().mark.history, on((8, 1), 0).history);
    }

    #[test]
    fn a_floor_survives_the_process_and_only_rises() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("floors.json");
        let open = || Floors::open("s1".to_owned(), vec![file.clone()]).unwrap();
        open().raise("links", mark(7, 500)).unwrap();
        let again = open();
        again.raise("links", mark(3, 900)).unwrap();
        assert_eq!(open().of("links").unwrap().mark, mark(7, 900));
        assert_eq!(open().of("other").unwrap().mark, Mark::default());
    }

    #[test]
    fn processes_that_share_a_file_see_each_others_floors_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("floors.json");
        let open = || Floors::open("s1".to_owned(), vec![file.clone()]).unwrap();
        let (one, two) = (open(), open());
        one.raise("a", mark(1, 10)).unwrap();
        two.raise("b", mark(2, 20)).unwrap();
        two.raise("a", mark(5, 50)).unwrap();
        assert_eq!(one.of("a").unwrap().mark, mark(5, 50));
        assert_eq!(one.of("b").unwrap().mark, mark(2, 20));
    }

    #[test]
    fn another_store_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("floors.json");
        let first = Floors::open("s1".to_owned(), vec![file.clone()]).unwrap();
        assert!(first.check_store().unwrap().is_ok());
        first.raise("a", mark(1, 1)).unwrap();
        assert!(first.check_store().unwrap().is_ok());
        let second = Floors::open("s2".to_owned(), vec![file]).unwrap();
        let refusal = second.check_store().unwrap().unwrap_err().to_string();
        assert!(refusal.contains("s1") && refusal.contains("s2"), "{refusal}");
    }

    #[test]
    fn a_broken_file_is_named_and_not_taken_for_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("floors.json");
        std::fs::write(&file, "{").unwrap();
        let error = Floors::open("s1".to_owned(), vec![file]).unwrap_err().to_string();
        assert!(error.contains("floors.json") && error.contains("not a floor file"), "{error}");
    }
}
