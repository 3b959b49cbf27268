//! SQLite: the embedded store, one file that processes of one machine may share.
//!
//! A lease is one `BEGIN IMMEDIATE` transaction in WAL mode with `synchronous=FULL`, so it is
//! on disk when it returns. SQLite blocks, so it has threads of its own: one that writes and
//! one that reads, so that reading goes on while another process holds the write lock.
//!
//! # Invariants
//!
//! - The open files, the database and its log, are the ones that their paths name: device and
//!   inode are compared before and after each change, so that a file replaced or removed under
//!   a running instance is opened anew (and then meets its floor) and never two are live at once.
//! - No other path leads to the database: a file with two links, or mounted by itself, is refused
//!   when it is opened.

mod backup;
mod connection;
mod dialect;
mod file;
mod look;
mod thread;
mod transaction;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::ErrorCode;

pub(in crate::store) use backup::back_up;
use connection::Db;
use file::{exists, floor_file, make_private, resolve, sibling};
pub(in crate::store) use look::look_at;
use thread::DbThread;

use super::driver::{Aim, Doing, Driver};
use super::store::SqlStore;
use crate::store::filesystem::{OtherPath, broken};
use crate::store::floor_file::FileLock;
use crate::store::{FILL_MAX, Finding, Opening, StoreDescription, StoreError};

/// How long to wait for another process that makes the schema.
const OPEN_TIME_MAX: Duration = Duration::from_secs(15);

/// A SQLite database.
#[derive(Debug)]
pub(crate) struct Sqlite {
    path: PathBuf,
    created: bool,
    writer: DbThread,
    reader: DbThread,
}

/// Opens the database at `path`, making it where there is none, and bringing its schema up to
/// date, as far as `opening` allows it.
pub(crate) fn open(path: &Path, opening: Opening) -> Result<SqlStore<Sqlite>, StoreError> {
    let path = resolve(path).map_err(|error| broken(path, &error))?;
    let if_empty = || match opening.create {
        true => Ok(()),
        false => Err(StoreError::empty(&path.display().to_string(), opening)),
    };
    if exists(&path)? {
        refuse_other_path(&path, opening)?;
    } else {
        if_empty()?;
    }
    // Ten processes may start at once on a new file: one of them makes it, the others wait.
    let lock = lock(&path)?;
    make_private(&path).map_err(|error| broken(&path, &error))?;
    let mut db = Db::open(&path, if_empty())?;
    let created = db.was_empty && opening.migrate;
    if opening.migrate {
        db.migrate()?;
    }
    drop(lock);
    let reader = DbThread::start("sqlite-read", Db::open(&path, if_empty())?);
    let writer = DbThread::start("sqlite-write", db);
    Ok(SqlStore::new(Sqlite { path, created, writer, reader }))
}

impl Driver for Sqlite {
    type Tx = Db;

    const FILL_MAX: u64 = FILL_MAX;

    async fn run<T, J>(&self, aim: Aim, job: J) -> Result<T, StoreError>
    where
        T: Send + 'static,
        J: for<'t> FnOnce(&'t mut Db) -> Doing<'t, T> + Send + 'static,
    {
        if aim == Aim::Change {
            return self.writer.call(move |db| db.change(job)).await;
        }
        self.reader.call(move |db| db.look(job)).await.map_err(StoreError::changing_nothing)
    }

    async fn clock_ms(&self, own_ms: i64) -> Result<i64, StoreError> {
        Ok(own_ms)
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        let path = self.path.clone();
        self.writer.call(move |db| db.findings(&path)).await
    }

    async fn migrate(&self) -> Result<Vec<String>, StoreError> {
        let path = self.path.clone();
        let migrate = move |db: &mut Db| {
            let _lock = lock(&path)?;
            db.migrate()
        };
        self.writer.call(migrate).await
    }

    fn describe(&self) -> StoreDescription {
        StoreDescription {
            kind: "sqlite",
            location: self.path.display().to_string(),
            created: self.created,
        }
    }

    fn floor_file(&self) -> Option<PathBuf> {
        Some(floor_file(&self.path))
    }
}

/// Held while the file or its schema is made.
fn lock(path: &Path) -> Result<FileLock, StoreError> {
    if let Some(folder) = path.parent()
        && !exists(folder)?
    {
        return Err(StoreError::Broken(format!(
            "cannot keep a database in {}: the folder does not exist; create it, or correct the path",
            folder.display()
        )));
    }
    FileLock::take(&sibling(path, "-lock"), OPEN_TIME_MAX)
        .map_err(|error| StoreError::Broken(format!("cannot keep a database there: {error}")))
}

/// Refuses a file that another path leads to, unless an unsafe store is allowed.
fn refuse_other_path(path: &Path, opening: Opening) -> Result<(), StoreError> {
    match OtherPath::find(path).map_err(|error| broken(path, &error))? {
        // Whatever else is allowed: only a look at the store, which changes nothing, may use it.
        Some(other) if opening.migrate => Err(StoreError::Broken(other.describe(path))),
        _ => Ok(()),
    }
}

/// The one place where SQLite's errors become the store's.
fn fold_error(path: &Path, error: &rusqlite::Error) -> StoreError {
    let shown = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Unavailable(format!("{shown} is locked by another process"))
        }
        Some(ErrorCode::NotADatabase) => {
            StoreError::Broken(format!("{shown} is not a SQLite database"))
        }
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Broken(format!(
            "{shown} is corrupt ({error}); restore a backup, then run `keymill space advance`"
        )),
        Some(ErrorCode::CannotOpen) => StoreError::Broken(format!(
            "{shown} cannot be opened; check that this user may read and write it"
        )),
        Some(ErrorCode::ReadOnly) => {
            StoreError::Broken(format!("{shown} cannot be written by this user"))
        }
        Some(ErrorCode::DiskFull) => {
            StoreError::Unavailable(format!("the disk of {shown} is full"))
        }
        _ => StoreError::Unavailable(format!("{shown}: {error}")),
    }
}
