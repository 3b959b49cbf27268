//! A copy of a SQLite database, for `store backup`: one state of it in one new file, while instances go on.
//!
//! SQLite writes the copy (`VACUUM INTO`), without holding up anybody who writes. It contains only what is in tables: not
//! what was deleted and still lies in the file, such as a secret that was moved out. The schema stays as it is, so that
//! a newer keymill can make the backup before it updates the schema.
//!
//! # Invariants
//!
//! - A file that exists is never replaced.
//! - Under the name that was asked for, there is a whole copy that is on disk, or a file with nothing in it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::connection::Db;
use super::file::{exists, resolve, sibling};
use crate::store::filesystem::{OtherPath, broken};
use crate::store::floor_file::durable::sync_folder;
use crate::store::{Opening, StoreError};

/// Copies the database at `path` into a new file, readable by its owner alone, because the secret may be in it.
pub(in crate::store) fn back_up(path: &Path, to: &Path) -> Result<(), StoreError> {
    let path = resolve(path).map_err(|error| broken(path, &error))?;
    let opening = Opening { create: false, existing_only: true, ..Opening::default() };
    let empty = || StoreError::empty(&path.display().to_string(), opening);
    if !exists(&path)? {
        return Err(empty());
    }
    // By another path, the log would not be found, and what is in it would be missing.
    if let Some(other) = OtherPath::find(&path).map_err(|error| broken(&path, &error))? {
        return Err(StoreError::Broken(other.describe(&path)));
    }
    let mut db = Db::open(&path, Err(empty()))?;
    let copy = Copy::begin(to)?;
    db.copy_into(&copy.unfinished)?;
    copy.finish()
}

/// A copy that is being made. Dropping it removes what there is of it.
struct Copy<'a> {
    /// Under its name, an empty file, so that nobody else makes one there.
    path: &'a Path,
    /// Where it is written.
    unfinished: PathBuf,
    is_finished: bool,
}

impl<'a> Copy<'a> {
    fn begin(path: &'a Path) -> Result<Copy<'a>, StoreError> {
        let create =
            |path: &Path| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        create(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => StoreError::Broken(format!(
                "{} already exists, and a backup replaces no file: choose another name, or remove it first",
                path.display()
            )),
            _ => cannot_write(path, &error),
        })?;
        let copy = Copy { path, unfinished: sibling(path, ".unfinished"), is_finished: false };
        // A backup that was killed may have left one.
        let _ = fs::remove_file(&copy.unfinished);
        create(&copy.unfinished).map_err(|error| cannot_write(&copy.unfinished, &error))?;
        Ok(copy)
    }

    fn finish(mut self) -> Result<(), StoreError> {
        // SQLite does not sync what `VACUUM INTO` writes.
        let finish = || {
            File::open(&self.unfinished)?.sync_all()?;
            fs::rename(&self.unfinished, self.path)?;
            sync_folder(self.path)
        };
        finish().map_err(|error| cannot_write(self.path, &error))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = fs::remove_file(&self.unfinished);
            let _ = fs::remove_file(self.path);
        }
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Broken(format!("cannot write the backup {}: {error}", path.display()))
}
