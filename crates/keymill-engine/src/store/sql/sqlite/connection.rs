//! A connection to a SQLite file, its transactions, and what is looked at to keep it safe.
//!
//! # Invariants
//!
//! - The database file is opened by SQLite alone. Closing any other descriptor of it would drop
//!   the locks that SQLite holds, and the next process to close the database would remove the
//!   log under us.

use std::fs;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::FromSql;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::file::{floor_file, sibling};
use super::fold_error;
use crate::store::filesystem::{OtherPath, filesystem, paths};
use crate::store::floor_file::FloorReader;
use crate::store::floor_file::tail::{FileId, id};
use crate::store::sql::driver::Doing;
use crate::store::{Finding, StoreError};

/// Marks a file as keymill's: "kmil".
const APPLICATION_ID: i32 = 0x6b6d_696c;
/// How long SQLite waits for another process's lock.
pub(super) const BUSY_MAX: Duration = Duration::from_secs(3);

mod embedded {
    refinery::embed_migrations!("migrations/sqlite");
}

/// One open connection and the files it is open on.
pub(in crate::store::sql) struct Db {
    pub(super) connection: Connection,
    path: PathBuf,
    files: Files,
    /// The floors that all processes on this file share, as far as they were read.
    pub(super) floors: FloorReader,
    /// Whether nothing was in it when it was opened.
    pub(super) was_empty: bool,
    /// Whether another path to the file was found and logged.
    noticed: bool,
}

/// What the paths of a database, of its log and of the log's index name now: their devices and
/// inodes.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    database: FileId,
    log: Option<FileId>,
    log_index: Option<FileId>,
}

impl Db {
    /// Opens a file that is there, if it is keymill's. One that is empty is still nobody's: then
    /// `if_empty` says what becomes of it.
    pub(super) fn open(path: &Path, if_empty: Result<(), StoreError>) -> Result<Db, StoreError> {
        let before = files(path)?.database;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let fold = |error: rusqlite::Error| fold_error(path, &error);
        let connection = Connection::open_with_flags(path, flags).map_err(fold)?;
        connection.busy_timeout(BUSY_MAX).map_err(fold)?;
        let (files_now, path_now) = (files(path)?, path.to_owned());
        let mut db = Db {
            connection,
            path: path_now,
            files: files_now,
            floors: FloorReader::new(&floor_file(path)),
            was_empty: false,
            noticed: false,
        };
        // Nothing is written to a file before it is known whose it is.
        db.was_empty = check_owner(&db.connection, path)?;
        if db.was_empty {
            if_empty?;
        }
        let connection = &db.connection;
        connection.pragma_update(None, "journal_mode", "wal").map_err(fold)?;
        connection.pragma_update(None, "synchronous", "full").map_err(fold)?;
        // On macOS, a plain fsync leaves data in the drive's cache. Elsewhere, this changes nothing.
        connection.pragma_update(None, "fullfsync", "on").map_err(fold)?;
        connection.set_prepared_statement_cache_capacity(128);
        // The first read opens the log, which from then on stays for as long as we do.
        let read = "SELECT count(*) FROM sqlite_schema";
        connection.query_row(read, [], |row| row.get::<_, i64>(0)).map_err(fold)?;
        db.files = files(path)?;
        if db.files.database != before {
            let path = path.display();
            return Err(StoreError::Unavailable(format!(
                "{path} was replaced while it was opened"
            )));
        }
        // Read back, because SQLite answers a setting it cannot have with another one.
        if db.pragma::<String>("journal_mode")? != "wal" || db.pragma::<i64>("synchronous")? != 2 {
            let path = path.display();
            let problem = "cannot be put into WAL mode with full synchronisation";
            return Err(StoreError::Broken(format!("{path} {problem}")));
        }
        Ok(db)
    }

    /// Brings the schema up to date; the names of what was applied.
    pub(super) fn migrate(&mut self) -> Result<Vec<String>, StoreError> {
        self.connection
            .pragma_update(None, "application_id", APPLICATION_ID)
            .map_err(|error| self.fold_error(&error))?;
        // A newer keymill may have added to the schema, and the older one still runs on it.
        let report = embedded::migrations::runner()
            .set_abort_missing(false)
            .run(&mut self.connection)
            .map_err(|error| self.fold_migration_error(&error))?;
        Ok(report.applied_migrations().iter().map(ToString::to_string).collect())
    }

    /// Runs a job on one state of the file: what it reads is all of the time of its first read.
    pub(super) fn look<T>(
        &mut self,
        job: impl for<'t> FnOnce(&'t mut Db) -> Doing<'t, T>,
    ) -> Result<T, StoreError> {
        self.follow_path()?;
        self.run("BEGIN")?;
        let answer = done(job(self));
        self.leave();
        let answer = answer?;
        self.still_there("while it was read").map_err(StoreError::Unavailable)?;
        Ok(answer)
    }

    /// Runs a job in one transaction and commits it, unless the job fails.
    pub(super) fn change<T>(
        &mut self,
        job: impl for<'t> FnOnce(&'t mut Db) -> Doing<'t, T>,
    ) -> Result<T, StoreError> {
        self.follow_path()?;
        self.notice_other_path();
        self.run("BEGIN IMMEDIATE")?;
        let answer = done(job(self)).and_then(|answer| {
            let committed = self.connection.execute_batch("COMMIT");
            committed.map_err(|error| match error.sqlite_error_code() {
                // A commit that found the database busy has not happened; any other may have.
                Some(ErrorCode::DatabaseBusy) => self.fold_error(&error),
                _ => StoreError::InDoubt(self.fold_error(&error).to_string()),
            })?;
            Ok(answer)
        });
        self.leave();
        let answer = answer?;
        self.still_there("during the commit").map_err(StoreError::InDoubt)?;
        Ok(answer)
    }

    /// Writes one state of the database into another file, which is empty. Whoever writes meanwhile is not held up.
    pub(super) fn copy_into(&mut self, file: &Path) -> Result<(), StoreError> {
        self.follow_path()?;
        let name = file.to_str().ok_or_else(|| {
            StoreError::Broken(format!("{} is not UTF-8, which SQLite needs", file.display()))
        })?;
        let copied = self.connection.execute("VACUUM INTO ?1", [name]);
        copied.map_err(|error| {
            let (from, to) = (self.path.display(), file.display());
            StoreError::Broken(format!("cannot copy {from} to {to}: {error}"))
        })?;
        self.still_there("while it was copied").map_err(StoreError::Unavailable)
    }

    /// Undoes what is not committed.
    pub(super) fn leave(&mut self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!("a transaction cannot be rolled back: {error}");
        }
    }

    fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.connection.execute_batch(sql).map_err(|error| self.fold_error(&error))
    }

    /// Whether the paths name the open files still.
    fn still_there(&self, when: &str) -> Result<(), String> {
        match files(&self.path) {
            Ok(files) if files == self.files => Ok(()),
            _ => Err(format!("{} was replaced {when}", self.path.display())),
        }
    }

    /// Opens the file anew when the path names another one than is open.
    ///
    /// A log that was removed beside the same file is another matter: SQLite shares the log's
    /// index among all connections of a process to one file, so opening anew would join the
    /// removed one, where no other process looks. Then nothing is read or changed any more.
    pub(super) fn follow_path(&mut self) -> Result<(), StoreError> {
        let found = files(&self.path)?;
        if found == self.files {
            return Ok(());
        }
        let path = self.path.display();
        if found.database == self.files.database {
            return Err(StoreError::Unavailable(format!(
                "the log of {path} was removed while this instance was using it; restart the \
                 instance"
            )));
        }
        if found.log.is_some() && found.log == self.files.log {
            return Err(StoreError::Unavailable(format!(
                "{path} was replaced, but the log of the old file is still beside it and would \
                 damage the new one: stop every instance, remove {path}-wal and {path}-shm, put \
                 the backup in place again, and start"
            )));
        }
        tracing::warn!(%path, "the database was replaced; opening the new one");
        let empty = StoreError::Unavailable(format!("{path} is empty"));
        *self = Db::open(&self.path, Err(empty))?;
        Ok(())
    }

    /// Another path to the file may be a backup under way: whoever runs goes on, and nobody starts.
    fn notice_other_path(&mut self) {
        if self.noticed {
            return;
        }
        if let Ok(Some(other)) = OtherPath::find(&self.path) {
            self.noticed = true;
            let problem = other.describe(&self.path);
            tracing::warn!(
                "{problem}. This instance keeps running; no other one starts until then"
            );
        }
    }

    pub(super) fn findings(&mut self, path: &Path) -> Result<Vec<Finding>, StoreError> {
        self.follow_path()?;
        let mode: String = self.pragma("journal_mode")?;
        let synchronous: i64 = self.pragma("synchronous")?;
        let name = match synchronous {
            0 => "off",
            1 => "normal",
            2 => "full",
            3 => "extra",
            _ => "unknown",
        };
        Ok(vec![
            Finding::new("journal_mode", &mode, "wal", mode == "wal"),
            Finding::new("synchronous", name, "full", synchronous >= 2),
            filesystem(path)?,
            paths(path)?,
        ])
    }

    fn pragma<T: FromSql>(&self, name: &str) -> Result<T, StoreError> {
        let value = self.connection.pragma_query_value(None, name, |row| row.get(0));
        value.map_err(|error| self.fold_error(&error))
    }

    /// A migration fails for a reason of SQLite's, or because the schema is not what it was.
    fn fold_migration_error(&self, error: &refinery::Error) -> StoreError {
        let mut cause: Option<&dyn std::error::Error> = Some(error);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<rusqlite::Error>() {
                return self.fold_error(error);
            }
            cause = error.source();
        }
        let path = self.path.display();
        StoreError::Broken(format!("the schema of {path} cannot be brought up to date: {error}"))
    }

    pub(super) fn fold_error(&self, error: &rusqlite::Error) -> StoreError {
        fold_error(&self.path, error)
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // Closing folds the log into the database. Where either is not ours any more, what the log
        // holds must not be written into whatever has its place now.
        if files(&self.path).is_ok_and(|files| files == self.files) {
            return;
        }
        let keep_log = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        if let Err(error) = self.connection.set_db_config(keep_log, true) {
            tracing::error!("the log of a replaced database may be folded into it: {error}");
        }
    }
}

/// The answer of a job on this thread.
fn done<T>(mut doing: Doing<'_, T>) -> Result<T, StoreError> {
    match doing.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("every call of SQLite answers at once, so a job never waits"),
    }
}

/// Refuses another program's database; whether it is empty.
pub(super) fn check_owner(connection: &Connection, path: &Path) -> Result<bool, StoreError> {
    let fold = |error: rusqlite::Error| fold_error(path, &error);
    let owner: i64 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(fold)?;
    let tables = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'";
    let tables: i64 = connection.query_row(tables, [], |row| row.get(0)).map_err(fold)?;
    match (owner, tables) {
        _ if owner == i64::from(APPLICATION_ID) => Ok(false),
        (0, 0) => Ok(true),
        _ => Err(StoreError::Broken(format!(
            "{} is another program's database; name a new file for keymill",
            path.display()
        ))),
    }
}

fn files(path: &Path) -> Result<Files, StoreError> {
    let database = fs::metadata(path).map_err(|error| {
        StoreError::Unavailable(format!("the database {} is missing: {error}", path.display()))
    })?;
    let beside = |suffix| fs::metadata(sibling(path, suffix)).ok().map(|found| id(&found));
    Ok(Files { database: id(&database), log: beside("-wal"), log_index: beside("-shm") })
}
