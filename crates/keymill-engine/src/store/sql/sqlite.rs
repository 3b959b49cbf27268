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

mod advance;
mod confirm;
mod connection;
mod file;
mod filesystem;
mod heartbeat;
mod key_rows;
mod look;
mod mounts;
mod moving;
mod names;
mod rows;
mod statements;
mod transaction;
mod windows;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use connection::{Db, Worker};
use file::{broken, floor_file, make_private, resolve, sibling};
use filesystem::OtherPath;
pub(in crate::store) use look::look_at;
use rows::{
    all_spaces, identity, instance_from, lease_from, name_counts, name_of, names_of, space_named,
};
use statements::{INSTANCE_PAGE, LEASE, LEASE_OF, LEASE_PAGE, SPACE_MAKE, SPACE_SEAL, SPACE_TUNE};
use transaction::Tx;

use crate::instance::Instance;
use crate::space::{Definition, Tuning};
use crate::store::floor_file::FileLock;
use crate::store::values::{json, now, signed, time};
use crate::store::{
    Admin, Beat, Confirm, Confirmed, Created, Evidence, Finding, Floor, GiveBack, Grant, History,
    InstancePage, InstanceRecord, Instances, LeaseAsk, LeasePage, LeaseRecord, Leases, Mark,
    MovedRow, MovedSpace, Moves, NameBatch, NamePage, NameRecord, Named, Names, NewName, NewSpace,
    Opening, Place, Pulse, Rows, RowsPage, Snapshots, SpaceRecord, Spaces, StoreError, Window,
    WindowAsk, WindowRelease, Windows,
};

/// How long to wait for another process that makes the schema.
const OPEN_TIME_MAX: Duration = Duration::from_secs(15);

/// A SQLite database as a store.
#[derive(Debug)]
pub(crate) struct SqliteStore {
    path: PathBuf,
    created: bool,
    writer: Worker,
    reader: Worker,
}

impl SqliteStore {
    /// Opens the database at `path`, making it where there is none, and bringing its schema up to
    /// date, as far as `opening` allows it.
    pub(crate) fn open(path: &Path, opening: Opening) -> Result<SqliteStore, StoreError> {
        let path = resolve(path).map_err(|error| broken(path, &error))?;
        let if_empty = || match opening.create {
            true => Ok(()),
            false => Err(StoreError::empty(&path.display().to_string(), opening)),
        };
        if path.exists() {
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
        let reader = Db::open(&path, if_empty())?;
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
        self.reader.call(job).await.map_err(StoreError::changing_nothing)
    }

    /// Runs a job on one state of the database, which it cannot change.
    async fn look<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.reader.call(move |db| db.look(job)).await.map_err(StoreError::changing_nothing)
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
impl Spaces for SqliteStore {
    async fn create(&self, new: &NewSpace, floor: &Floor) -> Result<Created, StoreError> {
        let (new, floor) = (new.clone(), floor.clone());
        self.change(move |tx| {
            match tx.space_above(&new.name, &floor) {
                Err(StoreError::UnknownSpace(_)) => {
                    floor.check_new(&new.name, &tx.query(identity)?, History::default())?;
                }
                found => return found.map(Created::Exists),
            }
            tx.execute(
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
            tx.space(&new.name).map(Created::Made)
        })
        .await
    }

    async fn tune(
        &self,
        space: &str,
        tuning: &Tuning,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let (space, tuning, floor) = (space.to_owned(), tuning.clone(), floor.clone());
        self.change(move |tx| {
            let tuning = tx.space_above(&space, &floor)?.tuned(&tuning);
            tx.execute(SPACE_TUNE, params![space, json(&tuning)])?;
            tx.space(&space)
        })
        .await
    }

    async fn grow(
        &self,
        space: &str,
        definition: &Definition,
        capacity: u64,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let (space, definition, floor) = (space.to_owned(), definition.clone(), floor.clone());
        self.change(move |tx| tx.grow(&space, &definition, capacity, &floor)).await
    }

    async fn space(&self, space: &str) -> Result<SpaceRecord, StoreError> {
        let name = space.to_owned();
        let found = self.read(move |connection| space_named(connection, &name)).await?;
        found.ok_or_else(|| StoreError::UnknownSpace(space.to_owned()))
    }

    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        self.read(all_spaces).await
    }

    async fn advance(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        let (space, by) = (space.to_owned(), by.clone());
        self.change(move |tx| tx.advance(&space, to, &by)).await
    }

    async fn report_sighting(
        &self,
        space: &str,
        instance: &str,
        seen: Mark,
    ) -> Result<(), StoreError> {
        let (space, instance) = (space.to_owned(), instance.to_owned());
        self.change(move |tx| tx.report_sighting(&space, &instance, seen)).await
    }

    async fn sighted(&self, space: &str) -> Result<Option<Mark>, StoreError> {
        let space = space.to_owned();
        self.look(move |tx| tx.sighted(&space)).await
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
}

#[async_trait]
impl Leases for SqliteStore {
    async fn lease(&self, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        let ask = ask.clone();
        self.change(move |tx| match tx.lease(&ask) {
            // These answers commit too: they may have closed the leases that were spent.
            Err(end @ (StoreError::Exhausted { .. } | StoreError::Sealed(_))) => Ok(Err(end)),
            answer => answer.map(Ok),
        })
        .await?
    }

    async fn give_back(
        &self,
        backs: &[GiveBack],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        let backs = backs.to_vec();
        self.change(move |tx| tx.give_back_all(&backs)).await
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
                .query_map(params![page.space, space, signed(lease), page.limit], lease_from)?
                .collect()
        })
        .await
    }
}

#[async_trait]
impl Windows for SqliteStore {
    async fn window(&self, ask: &WindowAsk) -> Result<Window, StoreError> {
        let ask = ask.clone();
        self.change(move |tx| tx.window(&ask)).await
    }

    async fn release_window(&self, release: &WindowRelease) -> Result<Mark, StoreError> {
        let release = release.clone();
        self.change(move |tx| tx.release_window(&release)).await
    }
}

#[async_trait]
impl Names for SqliteStore {
    async fn add_names(&self, batch: &NameBatch) -> Result<Named, StoreError> {
        let batch = batch.clone();
        self.change(move |tx| tx.add_names(&batch)).await
    }

    async fn remove_name(
        &self,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<Option<NameRecord>, StoreError> {
        let (space, key) = (space.to_owned(), key.to_owned());
        let (owner, floor) = (owner.to_owned(), floor.clone());
        self.change(move |tx| tx.remove_name(&space, &key, &owner, &floor)).await
    }

    async fn named(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError> {
        let (space, name) = (space.to_owned(), name.clone());
        self.read(move |connection| name_of(connection, &space, &name)).await
    }

    async fn names(&self, page: &NamePage) -> Result<Vec<NameRecord>, StoreError> {
        let page = page.clone();
        self.read(move |connection| names_of(connection, &page)).await
    }

    async fn count_names(&self, space: Option<&str>) -> Result<HashMap<String, u64>, StoreError> {
        let space = space.map(str::to_owned);
        self.read(move |connection| name_counts(connection, space.as_deref())).await
    }
}

#[async_trait]
impl Snapshots for SqliteStore {
    async fn confirm(&self, what: &Confirm) -> Result<Confirmed, StoreError> {
        let what = what.clone();
        self.look(move |tx| tx.confirm(&what)).await
    }

    async fn unplaced(
        &self,
        space: &str,
        reached: Mark,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let (space, after) = (space.to_owned(), after.unwrap_or_default().to_owned());
        let what = Confirm { space, reached, evidence: Evidence::Mark, skips_in: 0..0 };
        self.look(move |tx| tx.unplaced(&what, &after, limit)).await
    }
}

#[async_trait]
impl Moves for SqliteStore {
    async fn moved_rows(&self, page: &RowsPage) -> Result<Rows, StoreError> {
        let page = page.clone();
        self.look(move |tx| tx.moved_rows(&page)).await
    }

    async fn begin_import(&self, space: &MovedSpace) -> Result<Created, StoreError> {
        let space = space.clone();
        self.change(move |tx| tx.begin_import(&space)).await
    }

    async fn import_rows(
        &self,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
    ) -> Result<(), StoreError> {
        let (space, importing, rows) = (space.to_owned(), importing.to_owned(), rows.to_vec());
        self.change(move |tx| tx.import_rows(&space, &importing, &rows)).await
    }

    async fn finish_import(&self, space: &MovedSpace) -> Result<SpaceRecord, StoreError> {
        let space = space.clone();
        self.change(move |tx| tx.finish_import(&space)).await
    }
}

#[async_trait]
impl Instances for SqliteStore {
    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        let pulse = pulse.clone();
        self.change(move |tx| tx.heartbeat(&pulse)).await
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
}

#[async_trait]
impl Admin for SqliteStore {
    async fn identity(&self) -> Result<String, StoreError> {
        self.read(identity).await
    }

    async fn secret(&self, candidate: Option<&str>) -> Result<Option<String>, StoreError> {
        let candidate = candidate.map(str::to_owned);
        self.change(move |tx| {
            if let Some(candidate) = candidate {
                let make = "INSERT INTO secret VALUES (1, ?1, ?2) ON CONFLICT DO NOTHING";
                tx.execute(make, params![candidate, now()])?;
            }
            tx.query(|connection| {
                connection.query_row("SELECT secret FROM secret", [], |row| row.get(0)).optional()
            })
        })
        .await
    }

    async fn forget_secret(&self) -> Result<(), StoreError> {
        self.change(|tx| tx.execute("DELETE FROM secret", []).map(drop)).await
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

    fn place(&self) -> Place {
        Place { kind: "sqlite", location: self.path.display().to_string(), created: self.created }
    }

    fn floor_file(&self) -> Option<PathBuf> {
        Some(floor_file(&self.path))
    }
}

/// Held while the file or its schema is made.
fn lock(path: &Path) -> Result<FileLock, StoreError> {
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
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
