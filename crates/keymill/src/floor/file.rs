//! Floor files: read at any time, written under a lock, replaced whole.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Mark;

/// How long another process may hold a floor file, before it must be paused or gone astray.
const LOCK_TIME_MAX: Duration = Duration::from_secs(3);

/// The marks of spaces, by store.
pub(super) type FileContent = BTreeMap<String, BTreeMap<String, Mark>>;

/// A lock among processes, held until it is dropped.
#[derive(Debug)]
pub(crate) struct FileLock {
    _file: File,
}

impl FileLock {
    /// Waits for the lock, but not for ever: its holder may be paused.
    pub(crate) fn take(path: &Path, time_max: Duration) -> io::Result<FileLock> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
        let file = file.map_err(|error| named(path, &error))?;
        let deadline = Instant::now() + time_max;
        loop {
            match file.try_lock() {
                // Closing the file unlocks it.
                Ok(()) => return Ok(FileLock { _file: file }),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(TryLockError::WouldBlock) => {
                    let held = format!("held by another process for over {time_max:?}");
                    return Err(named(path, &io::Error::new(io::ErrorKind::TimedOut, held)));
                }
                Err(TryLockError::Error(error)) => return Err(named(path, &error)),
            }
        }
    }
}

/// A floor file under its lock, so that processes merge and never overwrite each other's.
pub(super) struct LockedFile {
    _lock: FileLock,
    path: PathBuf,
    pub(super) content: FileContent,
}

impl LockedFile {
    pub(super) fn open(path: &Path) -> io::Result<LockedFile> {
        // The lock is a file of its own, because the floor file itself is replaced by rename.
        let lock = FileLock::take(&path.with_extension("lock"), LOCK_TIME_MAX)?;
        Ok(LockedFile { _lock: lock, path: path.to_owned(), content: read(path)? })
    }

    pub(super) fn write(&mut self) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(&self.content).map_err(io::Error::other)?;
        let new_path = self.path.with_extension("new");
        let write = || {
            let mut file = File::create(&new_path)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new_path, &self.path)?;
            match self.path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
                _ => Ok(()),
            }
        };
        write().map_err(|error| named(&self.path, &error))
    }
}

/// The mark of a space in one floor file.
#[cfg(feature = "sqlite")]
pub(crate) fn mark_in(path: &Path, store: &str, space: &str) -> io::Result<Mark> {
    let content = read(path)?;
    let mark = content.get(store).and_then(|spaces| spaces.get(space));
    Ok(mark.copied().unwrap_or_default())
}

pub(super) fn read(path: &Path) -> io::Result<FileContent> {
    let mut text = String::new();
    match File::open(path) {
        Ok(mut file) => {
            file.read_to_string(&mut text).map_err(|error| named(path, &error))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FileContent::new()),
        Err(error) => return Err(named(path, &error)),
    }
    serde_json::from_str(&text).map_err(|error| {
        named(
            path,
            &io::Error::new(io::ErrorKind::InvalidData, format!("not a floor file: {error}")),
        )
    })
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
