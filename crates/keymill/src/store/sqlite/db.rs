//! A connection to a SQLite file, the thread that owns it, and what is looked at to keep it safe.
//!
//! # Invariants
//!
//! - The database file is opened by SQLite alone. Closing any other descriptor of it would drop
//!   the locks that SQLite holds, and the next process to close the database would remove the
//!   log under us.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, TrySendError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::oneshot;

use super::file::{broken, sibling};
use super::{Tx, fold_error};
use crate::store::{Finding, StoreError, Verdict, schema};

/// Marks a file as keymill's: "kmil".
const APPLICATION_ID: i32 = 0x6b6d_696c;
/// How long SQLite waits for another process's lock.
const BUSY_MAX: Duration = Duration::from_secs(3);
/// How long a caller waits for its turn and its answer.
const CALL_MAX: Duration = Duration::from_secs(8);
const QUEUE_MAX: usize = 256;

mod migrations {
    refinery::embed_migrations!("migrations/sqlite");
}

/// One open connection and the files it is open on.
pub(super) struct Db {
    pub(super) connection: Connection,
    path: PathBuf,
    files: Files,
}

/// What the paths of a database, of its log and of the log's index name now: their devices and
/// inodes.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    database: FileId,
    log: Option<FileId>,
    log_index: Option<FileId>,
}

type FileId = (u64, u64);

impl Db {
    /// Opens a file that is there, if it is keymill's, or still nobody's where `is_new` allows it.
    pub(super) fn open(path: &Path, is_new: bool) -> Result<Db, StoreError> {
        let before = files(path)?.database;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let fold = |error: rusqlite::Error| fold_error(path, &error);
        let connection = Connection::open_with_flags(path, flags).map_err(fold)?;
        connection.busy_timeout(BUSY_MAX).map_err(fold)?;
        let mut db = Db { connection, files: files(path)?, path: path.to_owned() };
        // Nothing is written to a file before it is known whose it is.
        db.check_owner(is_new)?;
        let connection = &db.connection;
        connection.pragma_update(None, "journal_mode", "wal").map_err(fold)?;
        connection.pragma_update(None, "synchronous", "full").map_err(fold)?;
        connection.set_prepared_statement_cache_capacity(64);
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
        if db.pragma_text("journal_mode")? != "wal" || db.pragma_number("synchronous")? != 2 {
            let path = path.display();
            let problem = "cannot be put into WAL mode with full synchronisation";
            return Err(StoreError::Broken(format!("{path} {problem}")));
        }
        Ok(db)
    }

    fn check_owner(&self, is_new: bool) -> Result<(), StoreError> {
        let path = self.path.display();
        let owner = self.pragma_number("application_id")?;
        let tables = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'";
        let tables: i64 = self
            .connection
            .query_row(tables, [], |row| row.get(0))
            .map_err(|error| self.fold_error(&error))?;
        match (owner, tables) {
            _ if owner == i64::from(APPLICATION_ID) => Ok(()),
            (0, 0) if is_new => Ok(()),
            (0, 0) => Err(StoreError::Unavailable(format!("{path} is empty"))),
            _ => Err(StoreError::Broken(format!(
                "{path} is another program's database; name a new file for keymill"
            ))),
        }
    }

    /// Brings the schema up to date; the names of what was applied.
    pub(super) fn migrate(&mut self) -> Result<Vec<String>, StoreError> {
        self.connection
            .pragma_update(None, "application_id", APPLICATION_ID)
            .map_err(|error| self.fold_error(&error))?;
        let report = schema::tolerant(migrations::migrations::runner())
            .run(&mut self.connection)
            .map_err(|error| self.fold_migration_error(&error))?;
        Ok(schema::applied(&report))
    }

    pub(super) fn change<T>(
        &mut self,
        job: impl FnOnce(&Tx<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.follow_path()?;
        let path = self.path.clone();
        let begin = rusqlite::TransactionBehavior::Immediate;
        let transaction = self
            .connection
            .transaction_with_behavior(begin)
            .map_err(|error| fold_error(&path, &error))?;
        let tx = Tx { transaction, path: &path };
        let answer = job(&tx)?;
        tx.transaction.commit().map_err(|error| match error.sqlite_error_code() {
            // A commit that found the database busy has not happened; any other may have.
            Some(ErrorCode::DatabaseBusy) => fold_error(&path, &error),
            _ => StoreError::InDoubt(fold_error(&path, &error).to_string()),
        })?;
        match files(&path) {
            Ok(files) if files == self.files => Ok(answer),
            _ => {
                let path = path.display();
                Err(StoreError::InDoubt(format!("{path} was replaced during the commit")))
            }
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
                "the log of {path} was removed under this instance, which cannot go on with it; \
                 start the instance again"
            )));
        }
        if found.log.is_some() && found.log == self.files.log {
            return Err(StoreError::Unavailable(format!(
                "{path} was replaced, but the log of the old one still lies beside it and would \
                 spoil the new one: stop every instance, remove {path}-wal and {path}-shm, put the \
                 backup in place once more, and start"
            )));
        }
        tracing::warn!(%path, "the database was replaced; opening the new one");
        *self = Db::open(&self.path, false)?;
        Ok(())
    }

    pub(super) fn findings(&mut self, path: &Path) -> Result<Vec<Finding>, StoreError> {
        self.follow_path()?;
        let mut findings = Vec::new();
        let mut find = |setting: &str, found: String, wanted: &str, verdict| {
            let (setting, wanted) = (setting.to_owned(), wanted.to_owned());
            findings.push(Finding { setting, found, wanted, verdict });
        };
        let safe_if = |safe| if safe { Verdict::Safe } else { Verdict::Unsafe };
        let mode = self.pragma_text("journal_mode")?;
        let verdict = safe_if(mode == "wal");
        find("journal_mode", mode, "wal", verdict);
        let synchronous = self.pragma_number("synchronous")?;
        let name = match synchronous {
            0 => "off",
            1 => "normal",
            2 => "full",
            3 => "extra",
            _ => "unknown",
        };
        find("synchronous", name.to_owned(), "full", safe_if(synchronous >= 2));
        let (filesystem, local) = filesystem(path)?;
        find("filesystem", filesystem, "a local one", safe_if(local));
        Ok(findings)
    }

    fn pragma_text(&self, name: &str) -> Result<String, StoreError> {
        self.connection
            .pragma_query_value(None, name, |row| row.get(0))
            .map_err(|error| self.fold_error(&error))
    }

    fn pragma_number(&self, name: &str) -> Result<i64, StoreError> {
        self.connection
            .pragma_query_value(None, name, |row| row.get(0))
            .map_err(|error| self.fold_error(&error))
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

/// A thread that owns a connection and does one job after the other. Dropping it waits for the
/// job under way and closes the connection, so that a clean stop leaves one whole file.
#[derive(Debug)]
pub(super) struct Worker {
    jobs: Option<mpsc::SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type Job = Box<dyn FnOnce(&mut Db) + Send>;

impl Worker {
    pub(super) fn start(name: &str, mut db: Db) -> Worker {
        let (jobs, queue) = mpsc::sync_channel::<Job>(QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                for job in queue {
                    // A job that panics fails alone: its caller sees that no answer comes.
                    let _ = catch_unwind(AssertUnwindSafe(|| job(&mut db)));
                }
            })
            .expect("the system can start a thread");
        Worker { jobs: Some(jobs), thread: Some(thread) }
    }

    /// Has the thread do a job. One that is not answered in time may still be done later:
    /// whether it was is in doubt.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Db) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move |db: &mut Db| {
            // Whoever asked may have stopped waiting; then nobody needs the answer.
            if !answer.is_closed() {
                let _ = answer.send(job(db));
            }
        });
        let jobs = self.jobs.as_ref().expect("taken only when dropped");
        jobs.try_send(job).map_err(|error| {
            StoreError::Unavailable(match error {
                TrySendError::Full(_) => "too many requests wait for the database".to_owned(),
                TrySendError::Disconnected(_) => "the database thread ended".to_owned(),
            })
        })?;
        match tokio::time::timeout(CALL_MAX, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                Err(StoreError::InDoubt("the request failed half-way; the log has more".to_owned()))
            }
            Err(_) => Err(StoreError::InDoubt(format!("no answer in {CALL_MAX:?}"))),
        }
    }
}

fn files(path: &Path) -> Result<Files, StoreError> {
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let database = fs::metadata(path).map_err(|error| {
        StoreError::Unavailable(format!("the database {} is gone: {error}", path.display()))
    })?;
    let beside = |suffix| fs::metadata(sibling(path, suffix)).ok().map(id);
    Ok(Files { database: id(database), log: beside("-wal"), log_index: beside("-shm") })
}

/// The filesystem under a path, and whether it is of this machine. Locks and syncs of network
/// filesystems are not to be relied on.
fn filesystem(path: &Path) -> Result<(String, bool), StoreError> {
    let magic = rustix::fs::statfs(path).map_err(|error| broken(path, &error.into()))?.f_type;
    let remote = match magic {
        0x6969 => "nfs",
        0x517b => "smb",
        0xff53_4d42 => "cifs",
        0xfe53_4d42 => "smb2",
        0x0102_1997 => "9p",
        0x00c3_6400 => "ceph",
        0x5346_414f => "afs",
        _ => return Ok((format!("local ({magic:#x})"), true)),
    };
    Ok((remote.to_owned(), false))
}
