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
        create(path)?;
        let unfinished = sibling(path, ".unfinished");
        if let Err(error) = create(&unfinished) {
            let _ = fs::remove_file(path);
            return Err(error);
        }
        Ok(Copy { path, unfinished, is_finished: false })
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

/// Makes a new file. One that is there stays, even if it looks like what a killed backup has left.
fn create(path: &Path) -> Result<(), StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(StoreError::Broken(format!(
                "{} already exists, and a backup replaces no file: choose another name, or remove it first",
                path.display()
            )))
        }
        Err(error) => Err(cannot_write(path, &error)),
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Broken(format!("cannot write the backup {}: {error}", path.display()))
}
