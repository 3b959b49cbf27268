//! A lock among processes: a file that only one of them may hold.
//!
//! Appending to a floor log and replacing it happen under such a lock; reading needs none. SQLite
//! makes its schema under one. It is a file of its own, because what it guards is replaced by rename.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::durable::named;

/// How long another process may hold a floor log before it must be paused or stuck.
pub(crate) const LOCK_TIME_MAX: Duration = Duration::from_secs(3);

/// A lock among processes, held until it is dropped.
#[derive(Debug)]
pub(crate) struct FileLock {
    _file: File,
}

impl FileLock {
    /// Waits for the lock, but not for ever: its holder may be paused.
    pub(crate) fn take(path: &Path, time_max: Duration) -> io::Result<FileLock> {
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).mode(0o600).open(path);
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
                    let held = format!(
                        "held by another process for over {time_max:?}; if that process is paused \
                         or stuck, resume or stop it"
                    );
                    return Err(named(path, &io::Error::new(io::ErrorKind::TimedOut, held)));
                }
                Err(TryLockError::Error(error)) => return Err(named(path, &error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_by_one_alone_and_who_waits_in_vain_is_told_which() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("floors.lock");
        let held = FileLock::take(&path, Duration::ZERO).unwrap();
        let error = FileLock::take(&path, Duration::from_millis(5)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let error = error.to_string();
        assert!(error.contains("floors.lock") && error.contains("paused"), "{error}");
        drop(held);
        FileLock::take(&path, Duration::ZERO).unwrap();
    }
}
