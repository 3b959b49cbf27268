//! The file of a SQLite store, and what lies beside it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The absolute path, with links followed where it exists: every name of one file must lead to
/// one log, one lock and one floor file.
pub(super) fn resolve(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    Ok(path.canonicalize().unwrap_or(path))
}

/// Makes the file where there is none, readable by its owner alone, because the secret may be kept
/// in it.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Where the floors of all processes on this file are kept, beside it.
pub(super) fn floor_file(path: &Path) -> PathBuf {
    sibling(path, "-floors.json")
}

pub(super) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
