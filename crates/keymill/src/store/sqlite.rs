//! SQLite: the embedded store, one file that processes of one machine may share.
//!
//! A lease is one `BEGIN IMMEDIATE` transaction in WAL mode with `synchronous=FULL`, so it is
//! on disk when it returns. SQLite blocks, so it has threads of its own: one that writes and
//! one that reads, so that reading goes on while another process holds the write lock.
//!
//! # Invariants
//!
//! - The open file is the one that the path names: device and inode are compared before and
//!   after each change, so that a file replaced under a running instance is opened anew (and
//!   then meets its floor) and never two files are live at once.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, Transaction, params};
use tokio::sync::oneshot;

use super::{
    Beat, Created, Finding, GiveBack, Grant, InstancePage, InstanceRecord, LeaseAsk, LeaseId,
    LeasePage, LeaseRecord, NewSpace, Place, Pulse, Purpose, SpaceRecord, Store, StoreError,
    Verdict, must_be_on_record, next_era,
};
use crate::floor::{Floor, Mark};
use crate::instance::Instance;
use crate::space::Tuning;

const SPACE: &str =
    "SELECT name, definition, tuning, fingerprint, capacity, next, revision, sealed, created_at,
    (SELECT coalesce(sum(end_ordinal - start_ordinal), 0) FROM returned WHERE space = name)
    FROM spaces";
const SPACE_MAKE: &str = "INSERT INTO spaces
    (name, definition, tuning, fingerprint, capacity, next, revision, created_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7) ON CONFLICT DO NOTHING";
const SPACE_MOVE: &str = "UPDATE spaces SET next = ?2, revision = ?3 WHERE name = ?1";
const SPACE_TUNE: &str = "UPDATE spaces SET tuning = ?2, revision = revision + 1 WHERE name = ?1";
const SPACE_SEAL: &str =
    "UPDATE spaces SET sealed = 1, revision = revision + 1 WHERE name = ?1 AND sealed = 0";
const RETURNED_FIRST: &str = "SELECT start_ordinal, end_ordinal FROM returned WHERE space = ?1
    ORDER BY start_ordinal LIMIT 1";
const RETURNED_ADD: &str = "INSERT INTO returned VALUES (?1, ?2, ?3)";
const RETURNED_TAKE: &str = "DELETE FROM returned WHERE space = ?1 AND start_ordinal = ?2";
const RETURNED_DROP: &str = "DELETE FROM returned WHERE space = ?1";
const LEASE_ADD: &str = "INSERT INTO leases
    (space, lease, start_ordinal, end_ordinal, purpose, instance, granted_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const LEASE_CLOSE: &str =
    "UPDATE leases SET closed_at_ordinal = coalesce(?4, end_ordinal), closed_at = ?5
    WHERE space = ?1 AND lease = ?2 AND instance = ?3 AND closed_at IS NULL
    AND coalesce(?6, end_ordinal) = end_ordinal";
const LEASE_EXISTS: &str =
    "SELECT EXISTS (SELECT 1 FROM leases WHERE space = ?1 AND lease = ?2 AND instance = ?3)";
const LEASE: &str = "SELECT space, lease, start_ordinal, end_ordinal, closed_at_ordinal, purpose,
    granted_at, closed_at, id, host, pid, version, started_at
    FROM leases JOIN instances ON id = instance";
const LEASE_OF: &str = "WHERE space = ?1 AND start_ordinal <= ?2
    AND coalesce(closed_at_ordinal, end_ordinal) > ?2 ORDER BY start_ordinal DESC LIMIT 1";
const LEASE_PAGE: &str = "WHERE (?1 IS NULL OR space = ?1) AND (space, lease) > (?2, ?3)
    ORDER BY space, lease LIMIT ?4";
const HELD_ELSEWHERE: &str = "SELECT coalesce(sum(end_ordinal - start_ordinal), 0) FROM leases
    WHERE space = ?1 AND instance <> ?2 AND closed_at IS NULL AND purpose = 'lease'";
const INSTANCE_KNOW: &str = "INSERT INTO instances
    (id, host, pid, version, started_at, seen_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT DO NOTHING";
const INSTANCE_SEEN: &str = "UPDATE instances SET seen_at = ?2, address = coalesce(?3, address),
    stopped_at = CASE WHEN ?4 THEN ?2 END WHERE id = ?1";
const INSTANCE_PAGE: &str =
    "SELECT id, host, pid, version, started_at, address, seen_at, stopped_at
    FROM instances WHERE ?1 IS NULL
    OR (started_at, id) > (SELECT started_at, id FROM instances WHERE id = ?1)
    ORDER BY started_at, id LIMIT ?2";

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

/// A SQLite database as a store.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    created: bool,
    writer: Worker,
    reader: Worker,
}

impl SqliteStore {
    /// Opens the database at `path`, making it where there is none, and brings its schema up
    /// to date.
    pub fn open(path: &Path) -> Result<SqliteStore, StoreError> {
        let path = std::path::absolute(path).map_err(|error| broken(path, &error))?;
        let created = !path.exists();
        // Ten processes may start at once on a new file: one of them makes it, the others wait.
        let lock_path = sibling(&path, "-lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path);
        let lock = lock.map_err(|error| broken(&lock_path, &error))?;
        lock.lock().map_err(|error| broken(&lock_path, &error))?;
        let mut db = Db::open(&path, true)?;
        db.migrate()?;
        drop(lock);
        let reader = Db::open(&path, false)?;
        Ok(SqliteStore {
            writer: Worker::start("sqlite-write", db),
            reader: Worker::start("sqlite-read", reader),
            path,
            created,
        })
    }

    async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let job = move |db: &mut Db| {
            db.follow_path()?;
            job(&db.connection).map_err(|error| db.fold_error(&error))
        };
        match self.reader.call(job).await {
            Err(StoreError::InDoubt(error)) => Err(StoreError::Unavailable(error)),
            answer => answer,
        }
    }

    /// Runs a job in one transaction and commits it, unless the job fails.
    async fn change<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.call(move |db| db.change(job)).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn identity(&self) -> Result<String, StoreError> {
        self.read(identity).await
    }

    async fn create(&self, new: &NewSpace) -> Result<Created, StoreError> {
        let new = new.clone();
        self.change(move |tx| {
            let made = tx.execute(
                SPACE_MAKE,
                params![
                    new.name,
                    json(&new.definition),
                    json(&new.tuning),
                    new.fingerprint,
                    signed(new.capacity),
                    signed(new.start),
                    now()
                ],
            )?;
            let record = tx.space(&new.name)?;
            Ok(if made == 1 {
                Created::Made(record)
            } else {
                Created::Exists(record)
            })
        })
        .await
    }

    async fn tune(
        &self,
        space: &str,
        tuning: &Tuning,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let (space, tuning, floor) = (space.to_owned(), json(tuning), floor.clone());
        self.change(move |tx| {
            tx.space_above(&space, &floor)?;
            tx.execute(SPACE_TUNE, params![space, tuning])?;
            tx.space(&space)
        })
        .await
    }

    async fn space(&self, space: &str) -> Result<SpaceRecord, StoreError> {
        let name = space.to_owned();
        let found = self
            .read(move |connection| space_named(connection, &name))
            .await?;
        found.ok_or_else(|| StoreError::UnknownSpace(space.to_owned()))
    }

    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        self.read(all_spaces).await
    }

    async fn lease(&self, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        let ask = ask.clone();
        self.change(move |tx| match tx.lease(&ask) {
            // These answers commit too: they may have closed the leases that were spent.
            Err(end @ (StoreError::Exhausted { .. } | StoreError::Sealed(_))) => Ok(Err(end)),
            answer => answer.map(Ok),
        })
        .await?
    }

    async fn give_back(&self, back: &GiveBack) -> Result<Mark, StoreError> {
        let back = back.clone();
        self.change(move |tx| {
            let space = tx.space_above(&back.space, &back.floor)?;
            let closed = tx.execute(
                LEASE_CLOSE,
                params![
                    back.space,
                    signed(back.lease),
                    back.instance,
                    signed(back.rest.start),
                    now(),
                    signed(back.rest.end)
                ],
            )?;
            if closed == 0 {
                return Ok(space.mark);
            }
            if !back.rest.is_empty() {
                let (start, end) = (signed(back.rest.start), signed(back.rest.end));
                tx.execute(RETURNED_ADD, params![back.space, start, end])?;
            }
            let mark = Mark {
                revision: space.mark.revision + 1,
                next: space.mark.next,
            };
            tx.move_to(&back.space, mark)?;
            Ok(mark)
        })
        .await
    }

    async fn advance(
        &self,
        space: &str,
        to: u64,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        let (name, by) = (space.to_owned(), by.clone());
        self.change(move |tx| {
            let space = tx.space(&name)?;
            let next = space.mark.next.max(to).min(space.capacity);
            let mark = Mark {
                revision: next_era(space.mark.revision),
                next,
            };
            tx.execute(RETURNED_DROP, params![name])?;
            tx.know(&by)?;
            if next > space.mark.next {
                tx.record_lease(
                    &name,
                    mark.revision,
                    space.mark.next,
                    next,
                    "advance",
                    &by.id,
                )?;
            }
            tx.move_to(&name, mark)?;
            tx.space(&name)
        })
        .await
    }

    async fn seal(&self, space: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        let (space, floor) = (space.to_owned(), floor.clone());
        self.change(move |tx| {
            tx.space_above(&space, &floor)?;
            tx.execute(SPACE_SEAL, params![space])?;
            tx.space(&space)
        })
        .await
    }

    async fn lease_of(&self, space: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError> {
        let space = space.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(&format!("{LEASE} {LEASE_OF}"))?
                .query_row(params![space, signed(ordinal)], lease_from)
                .optional()
        })
        .await
    }

    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError> {
        let page = page.clone();
        self.read(move |connection| {
            let (space, lease) = page.after.unwrap_or_default();
            connection
                .prepare_cached(&format!("{LEASE} {LEASE_PAGE}"))?
                .query_map(
                    params![page.space, space, signed(lease), page.limit],
                    lease_from,
                )?
                .collect()
        })
        .await
    }

    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        let pulse = pulse.clone();
        self.change(move |tx| {
            let id = &pulse.instance.id;
            tx.know(&pulse.instance)?;
            tx.execute(
                INSTANCE_SEEN,
                params![id, now(), pulse.address, pulse.stopping],
            )?;
            let spaces = tx.query(all_spaces)?;
            let mut lost = Vec::new();
            for (space, lease) in &pulse.last_leases {
                let revision = spaces.iter().find(|found| found.name == *space);
                let revision = revision.map_or(0, |found| found.mark.revision);
                if must_be_on_record(*lease, revision) && !tx.has_lease(space, *lease, id)? {
                    lost.push(space.clone());
                }
            }
            Ok(Beat {
                store: tx.query(identity)?,
                spaces,
                lost,
            })
        })
        .await
    }

    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError> {
        let page = page.clone();
        self.read(move |connection| {
            connection
                .prepare_cached(INSTANCE_PAGE)?
                .query_map(params![page.after, page.limit], |row| {
                    Ok(InstanceRecord {
                        instance: instance_from(row, 0)?,
                        address: row.get(5)?,
                        seen_at: time(row.get(6)?),
                        stopped_at: row.get::<_, Option<i64>>(7)?.map(time),
                    })
                })?
                .collect()
        })
        .await
    }

    async fn secret(&self, candidate: Option<&str>) -> Result<Option<String>, StoreError> {
        let candidate = candidate.map(str::to_owned);
        self.change(move |tx| {
            if let Some(candidate) = candidate {
                let make = "INSERT INTO secret VALUES (1, ?1, ?2) ON CONFLICT DO NOTHING";
                tx.execute(make, params![candidate, now()])?;
            }
            tx.query(|connection| {
                connection
                    .query_row("SELECT secret FROM secret", [], |row| row.get(0))
                    .optional()
            })
        })
        .await
    }

    async fn forget_secret(&self) -> Result<(), StoreError> {
        self.change(|tx| tx.execute("DELETE FROM secret", []).map(drop))
            .await
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        let path = self.path.clone();
        self.writer.call(move |db| db.findings(&path)).await
    }

    fn place(&self) -> Place {
        Place {
            kind: "sqlite",
            location: self.path.display().to_string(),
            created: self.created,
        }
    }

    fn floor_file(&self) -> Option<PathBuf> {
        Some(sibling(&self.path, "-floors.json"))
    }
}

/// A transaction whose errors are the store's.
struct Tx<'a> {
    transaction: Transaction<'a>,
    path: &'a Path,
}

impl Tx<'_> {
    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<usize, StoreError> {
        self.transaction
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(params))
            .map_err(|error| fold_error(self.path, &error))
    }

    fn query<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        query(&self.transaction).map_err(|error| fold_error(self.path, &error))
    }

    fn space(&self, name: &str) -> Result<SpaceRecord, StoreError> {
        let found = self.query(|connection| space_named(connection, name))?;
        found.ok_or_else(|| StoreError::UnknownSpace(name.to_owned()))
    }

    /// The space, unless it lies below its floor.
    fn space_above(&self, name: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        let space = match self.space(name) {
            Err(StoreError::UnknownSpace(_)) if floor.mark != Mark::default() => {
                let evidence = format!("the keyspace `{name}` is gone from it");
                return Err(StoreError::went_back(name, floor.mark, evidence));
            }
            found => found?,
        };
        space.check_floor(&self.query(identity)?, floor)?;
        Ok(space)
    }

    fn lease(&self, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        let space = self.space_above(&ask.space, &ask.floor)?;
        let instance = &ask.instance.id;
        if let Some(last) = ask.last_lease
            && must_be_on_record(last, space.mark.revision)
            && !self.has_lease(&ask.space, last, instance)?
        {
            let evidence = format!("lease {last} of `{}` is not on record any more", ask.space);
            return Err(StoreError::went_back(&ask.space, ask.floor.mark, evidence));
        }
        for &spent in &ask.spent {
            let none = None::<i64>;
            self.execute(
                LEASE_CLOSE,
                params![ask.space, signed(spent), instance, none, now(), none],
            )?;
        }
        if space.sealed {
            return Err(StoreError::Sealed(ask.space.clone()));
        }
        let left = space.left();
        if left == 0 {
            return Err(StoreError::Exhausted {
                space: ask.space.clone(),
                held_elsewhere: self.query(|connection| {
                    connection.query_row(HELD_ELSEWHERE, params![ask.space, instance], |row| {
                        row.get(0).map(unsigned)
                    })
                })?,
            });
        }
        let size = ask.size_of(left);
        let mut mark = Mark {
            revision: space.mark.revision + 1,
            next: space.mark.next,
        };
        let returned = self.query(|connection| {
            connection
                .query_row(RETURNED_FIRST, params![ask.space], |row| {
                    Ok(unsigned(row.get(0)?)..unsigned(row.get(1)?))
                })
                .optional()
        })?;
        let ordinals = if let Some(range) = returned {
            self.execute(RETURNED_TAKE, params![ask.space, signed(range.start)])?;
            let end = range.end.min(range.start + size);
            if end < range.end {
                let rest = params![ask.space, signed(end), signed(range.end)];
                self.execute(RETURNED_ADD, rest)?;
            }
            range.start..end
        } else {
            mark.next = space.capacity.min(space.mark.next + size);
            space.mark.next..mark.next
        };
        assert!(
            ordinals.start < ordinals.end,
            "an empty grant: {ordinals:?} of {left} left"
        );
        self.know(&ask.instance)?;
        let (start, end) = (ordinals.start, ordinals.end);
        self.record_lease(&ask.space, mark.revision, start, end, "lease", instance)?;
        self.move_to(&ask.space, mark)?;
        Ok(Grant {
            lease: mark.revision,
            ordinals,
            mark,
            left: left - (end - start),
        })
    }

    fn move_to(&self, space: &str, mark: Mark) -> Result<(), StoreError> {
        let params = params![space, signed(mark.next), signed(mark.revision)];
        self.execute(SPACE_MOVE, params).map(drop)
    }

    fn record_lease(
        &self,
        space: &str,
        lease: LeaseId,
        start: u64,
        end: u64,
        purpose: &str,
        instance: &str,
    ) -> Result<(), StoreError> {
        let (start, end) = (signed(start), signed(end));
        let params = params![space, signed(lease), start, end, purpose, instance, now()];
        self.execute(LEASE_ADD, params).map(drop)
    }

    fn has_lease(&self, space: &str, lease: LeaseId, instance: &str) -> Result<bool, StoreError> {
        self.query(|connection| {
            let params = params![space, signed(lease), instance];
            connection.query_row(LEASE_EXISTS, params, |row| row.get(0))
        })
    }

    fn know(&self, instance: &Instance) -> Result<(), StoreError> {
        let Instance {
            id,
            host,
            pid,
            version,
            started_at,
        } = instance;
        let started_at = started_at.as_millisecond();
        self.execute(
            INSTANCE_KNOW,
            params![id, host, pid, version, started_at, now()],
        )
        .map(drop)
    }
}

/// One open connection and the file it is open on.
struct Db {
    connection: Connection,
    path: PathBuf,
    file: FileId,
}

/// What a path names now: its device and inode.
type FileId = (u64, u64);

impl Db {
    fn open(path: &Path, create: bool) -> Result<Db, StoreError> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
        let fold = |error: rusqlite::Error| fold_error(path, &error);
        let connection = Connection::open_with_flags(path, flags).map_err(fold)?;
        connection.busy_timeout(BUSY_MAX).map_err(fold)?;
        let file = file_id(path)?;
        connection
            .pragma_update(None, "journal_mode", "wal")
            .map_err(fold)?;
        connection
            .pragma_update(None, "synchronous", "full")
            .map_err(fold)?;
        connection.set_prepared_statement_cache_capacity(64);
        let db = Db {
            connection,
            path: path.to_owned(),
            file,
        };
        // Read back, because SQLite answers a setting it cannot have with another one.
        if db.pragma_text("journal_mode")? != "wal" || db.pragma_number("synchronous")? != 2 {
            let path = path.display();
            let problem = "cannot be put into WAL mode with full synchronisation";
            return Err(StoreError::Broken(format!("{path} {problem}")));
        }
        Ok(db)
    }

    fn migrate(&mut self) -> Result<(), StoreError> {
        let found = self.pragma_number("application_id")?;
        let tables = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'";
        let tables: i64 = self
            .connection
            .query_row(tables, [], |row| row.get(0))
            .map_err(|error| self.fold_error(&error))?;
        if found != i64::from(APPLICATION_ID) && (found != 0 || tables > 0) {
            let path = self.path.display();
            return Err(StoreError::Broken(format!(
                "{path} is another program's database; name a new file for keymill"
            )));
        }
        self.connection
            .pragma_update(None, "application_id", APPLICATION_ID)
            .map_err(|error| self.fold_error(&error))?;
        // A newer keymill may have added to the schema, and the older one still runs on it.
        migrations::migrations::runner()
            .set_abort_missing(false)
            .run(&mut self.connection)
            .map_err(|error| self.fold_migration_error(&error))?;
        Ok(())
    }

    fn change<T>(
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
        let tx = Tx {
            transaction,
            path: &path,
        };
        let answer = job(&tx)?;
        tx.transaction
            .commit()
            .map_err(|error| match fold_error(&path, &error) {
                // A commit that found the database busy has not happened; any other may have.
                StoreError::Unavailable(error) => StoreError::Unavailable(error),
                error => StoreError::InDoubt(error.to_string()),
            })?;
        if file_id(&path)? != self.file {
            let path = path.display();
            return Err(StoreError::InDoubt(format!(
                "{path} was replaced during the commit"
            )));
        }
        Ok(answer)
    }

    /// Opens the file anew when the path names another one than is open.
    fn follow_path(&mut self) -> Result<(), StoreError> {
        if file_id(&self.path)? == self.file {
            return Ok(());
        }
        tracing::warn!(path = %self.path.display(), "the database file was replaced; opening the new one");
        *self = Db::open(&self.path, false)?;
        Ok(())
    }

    fn findings(&mut self, path: &Path) -> Result<Vec<Finding>, StoreError> {
        self.follow_path()?;
        let mut findings = Vec::new();
        let mut find = |setting: &str, found: String, wanted: &str, verdict| {
            let (setting, wanted) = (setting.to_owned(), wanted.to_owned());
            findings.push(Finding {
                setting,
                found,
                wanted,
                verdict,
            });
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
        find(
            "synchronous",
            name.to_owned(),
            "full",
            safe_if(synchronous >= 2),
        );
        let (filesystem, local) = filesystem(path)?;
        find("filesystem", filesystem, "a local one", safe_if(local));
        let intact = self.pragma_text("quick_check")?;
        let verdict = safe_if(intact == "ok");
        find("quick_check", intact, "ok", verdict);
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
        StoreError::Broken(format!(
            "the schema of {path} cannot be brought up to date: {error}"
        ))
    }

    fn fold_error(&self, error: &rusqlite::Error) -> StoreError {
        fold_error(&self.path, error)
    }
}

/// A thread that owns a connection and does one job after the other.
#[derive(Debug)]
struct Worker {
    jobs: mpsc::SyncSender<Job>,
}

type Job = Box<dyn FnOnce(&mut Db) + Send>;

impl Worker {
    fn start(name: &str, mut db: Db) -> Worker {
        let (jobs, queue) = mpsc::sync_channel::<Job>(QUEUE_MAX);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || queue.into_iter().for_each(|job| job(&mut db)))
            .expect("the system can start a thread");
        Worker { jobs }
    }

    /// Has the thread do a job. One that is not answered in time may still be done later:
    /// whether it was is in doubt.
    async fn call<T: Send + 'static>(
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
        self.jobs.try_send(job).map_err(|_| {
            StoreError::Unavailable("too many requests wait for the database".to_owned())
        })?;
        match tokio::time::timeout(CALL_MAX, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(StoreError::InDoubt("the database thread ended".to_owned())),
            Err(_) => Err(StoreError::InDoubt(format!("no answer in {CALL_MAX:?}"))),
        }
    }
}

fn identity(connection: &Connection) -> rusqlite::Result<String> {
    connection
        .prepare_cached("SELECT identity FROM store")?
        .query_row([], |row| row.get(0))
}

fn space_named(connection: &Connection, name: &str) -> rusqlite::Result<Option<SpaceRecord>> {
    connection
        .prepare_cached(&format!("{SPACE} WHERE name = ?1"))?
        .query_row([name], space_from)
        .optional()
}

fn all_spaces(connection: &Connection) -> rusqlite::Result<Vec<SpaceRecord>> {
    connection
        .prepare_cached(&format!("{SPACE} ORDER BY name"))?
        .query_map([], space_from)?
        .collect()
}

fn space_from(row: &Row<'_>) -> rusqlite::Result<SpaceRecord> {
    Ok(SpaceRecord {
        name: row.get(0)?,
        definition: parse(row, 1)?,
        tuning: parse(row, 2)?,
        fingerprint: row.get(3)?,
        capacity: unsigned(row.get(4)?),
        mark: Mark {
            next: unsigned(row.get(5)?),
            revision: unsigned(row.get(6)?),
        },
        sealed: row.get(7)?,
        created_at: time(row.get(8)?),
        returned: unsigned(row.get(9)?),
    })
}

fn lease_from(row: &Row<'_>) -> rusqlite::Result<LeaseRecord> {
    Ok(LeaseRecord {
        space: row.get(0)?,
        lease: unsigned(row.get(1)?),
        ordinals: unsigned(row.get(2)?)..unsigned(row.get(3)?),
        closed_at_ordinal: row.get::<_, Option<i64>>(4)?.map(unsigned),
        purpose: match row.get_ref(5)?.as_str()? {
            "advance" => Purpose::Advance,
            _ => Purpose::Lease,
        },
        granted_at: time(row.get(6)?),
        closed_at: row.get::<_, Option<i64>>(7)?.map(time),
        holder: instance_from(row, 8)?,
    })
}

fn instance_from(row: &Row<'_>, first: usize) -> rusqlite::Result<Instance> {
    Ok(Instance {
        id: row.get(first)?,
        host: row.get(first + 1)?,
        pid: row.get(first + 2)?,
        version: row.get(first + 3)?,
        started_at: time(row.get(first + 4)?),
    })
}

fn parse<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|error| {
        let kind = rusqlite::types::Type::Text;
        rusqlite::Error::FromSqlConversionFailure(column, kind, Box::new(error))
    })
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("a plain struct can be written as JSON")
}

fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

fn time(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).expect("ordinals and revisions fit 63 bits")
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).expect("the database holds no negative ordinals")
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn file_id(path: &Path) -> Result<FileId, StoreError> {
    let metadata = fs::metadata(path).map_err(|error| {
        StoreError::Unavailable(format!("the database {} is gone: {error}", path.display()))
    })?;
    Ok((metadata.dev(), metadata.ino()))
}

/// The filesystem under a path, and whether it is of this machine. Locks and syncs of network
/// filesystems are not to be relied on.
fn filesystem(path: &Path) -> Result<(String, bool), StoreError> {
    let file = File::open(path).map_err(|error| broken(path, &error))?;
    let magic = rustix::fs::fstatfs(&file)
        .map_err(|error| broken(path, &error.into()))?
        .f_type;
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

fn broken(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Broken(format!("{}: {error}", path.display()))
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
            "{shown} cannot be opened; may this user read and write it?"
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
