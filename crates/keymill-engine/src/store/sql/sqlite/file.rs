//! The file of a SQLite store, and what lies beside it.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::store::StoreError;
use crate::store::filesystem::broken;

/// The absolute path, with links followed where it exists: every name of one file must lead to
/// one log, one lock and one floor file.
pub(super) fn resolve(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    Ok(path.canonicalize().unwrap_or(path))
}

/// Whether a file or a folder is there. In a folder that this user may not enter, that cannot be known, and it is
/// neither missing nor empty.
pub(super) fn exists(path: &Path) -> Result<bool, StoreError> {
    path.try_exists().map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => StoreError::Broken(closed(path)),
        _ => broken(path, &error),
    })
}

/// Which folder on the way to a path this user may not enter, and whose it is.
fn closed(path: &Path) -> String {
    // Those below it cannot be looked at.
    let folder = path.ancestors().skip(1).find(|folder| folder.try_exists().is_ok());
    let folder = folder.unwrap_or(path);
    let owner = fs::metadata(folder).map_or(String::new(), |found| {
        let mode = found.mode() & 0o7777;
        format!(", which belongs to the user with ID {} and has mode {mode:04o}", found.uid())
    });
    format!(
        "{}: this user may not enter the folder {}{owner}; run keymill as that user, or choose another path",
        path.display(),
        folder.display()
    )
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
