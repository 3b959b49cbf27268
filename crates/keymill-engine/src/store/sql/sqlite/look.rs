//! A look at a SQLite file for `store check`: nothing is made, changed or locked.
//!
//! Opening a store puts the file into WAL mode, makes a lock beside it, and leaves SQLite's log there
//! for as long as it is open. Here the file is read as it is.
//!
//! # Invariants
//!
//! - Where nobody has the database open, SQLite is told that it cannot change, so that it makes no
//!   log. Where there is a log, SQLite reads it, because the file alone may be incomplete; of all
//!   files, only the log's index may change, which SQLite shares with those that have it open.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::connection::{BUSY_MAX, check_owner};
use super::file::{exists, resolve, sibling};
use super::fold_error;
use crate::store::filesystem::{broken, filesystem, paths};
use crate::store::{Finding, Opening, StoreDescription, StoreError};

/// Where a file's header says how it is written: 2 is WAL mode.
const WRITE_VERSION_AT: u64 = 18;
const WAL: u8 = 2;

/// What is found at a path, setting by setting.
pub(in crate::store) fn look_at(
    path: &Path,
    opening: Opening,
) -> Result<(StoreDescription, Vec<Finding>), StoreError> {
    let path = resolve(path).map_err(|error| broken(path, &error))?;
    let location = path.display().to_string();
    let missing = || StoreError::empty(&location, Opening { existing_only: true, ..opening });
    if !exists(&path)? {
        return Err(missing());
    }
    // Read and closed before SQLite has the file open: closing it later would drop SQLite's locks.
    let version = write_version(&path).map_err(|error| broken(&path, &error))?;
    if check_owner(&open(&path)?, &path)? {
        return Err(missing());
    }
    let journal = match version {
        Some(WAL) => Finding::new("journal_mode", "wal", "wal", true),
        _ => {
            let wanted = "wal; `keymill serve` sets it when it starts";
            Finding::new("journal_mode", "a rollback journal", wanted, false).warning()
        }
    };
    let findings = vec![
        journal,
        // Not a property of the file: keymill sets it for every connection, and reads it back.
        Finding::new("synchronous", "full", "full", true),
        filesystem(&path)?,
        paths(&path)?,
    ];
    Ok((StoreDescription { kind: "sqlite", location, created: false }, findings))
}

/// Opens a file for reading.
fn open(path: &Path) -> Result<Connection, StoreError> {
    let fold = |error: rusqlite::Error| fold_error(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let has_log = ["-wal", "-shm"].iter().all(|suffix| sibling(path, suffix).exists());
    let opened = if has_log {
        Connection::open_with_flags(path, flags)
    } else {
        Connection::open_with_flags(immutable(path), flags | OpenFlags::SQLITE_OPEN_URI)
    };
    let connection = opened.map_err(fold)?;
    connection.busy_timeout(BUSY_MAX).map_err(fold)?;
    Ok(connection)
}

/// The URI of a file that nobody changes.
fn immutable(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                uri.push(char::from(byte));
            }
            _ => write!(uri, "%{byte:02x}").expect("writing to a String cannot fail"),
        }
    }
    uri + "?immutable=1"
}

/// How the header says that the file is written; nothing, in a file without a header.
fn write_version(path: &Path) -> io::Result<Option<u8>> {
    let mut header = Vec::new();
    File::open(path)?.take(WRITE_VERSION_AT + 1).read_to_end(&mut header)?;
    let is_whole = header.len() as u64 > WRITE_VERSION_AT;
    Ok(header.last().copied().filter(|_| is_whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_any_characters_is_one_file() {
        let path = Path::new("/srv/50% new?/k#1.db");
        assert_eq!(immutable(path), "file:/srv/50%25%20new%3f/k%231.db?immutable=1");
    }
}
