//! PostgreSQL: the store for many instances that most already have.
//!
//! A lease is one transaction on the space's row, committed with `synchronous_commit = on` or
//! more; never a sequence, which a crash may set back. Several hosts may be named: the one that
//! takes writes is found, and found again after a failover.
//!
//! Everything runs in transactions that bring their settings along, and nothing lasts longer than one:
//! so a pooler in transaction mode may stand in between, and the defaults of a server do not matter.
//!
//! # Invariants
//!
//! - Every transaction learns the system identifier and the timeline of the server it runs on,
//!   and they are part of the floor: a primary that was cut off and comes back is refused.
//! - A warning at commit is a doubt: the server says so when it gave up waiting for its
//!   synchronous standby.

mod begin;
mod confirm;
mod connection;
mod digests;
mod export;
mod give_back;
mod heartbeat;
mod hosts;
mod import;
mod key_rows;
mod names;
mod param;
mod rows;
mod safety;
mod schema;
mod statements;
mod transaction;
mod windows;

use std::collections::HashMap;

use async_trait::async_trait;
use deadpool::managed::{Object, Pool};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use begin::View;
use hosts::Hosts;
use param::Params;
use rows::{instance_from, lease_from, name_from, space_from};
use statements::{
    INSTANCE_PAGE, LEASE_OF, LEASE_PAGE, NAME_PAGE, NAME_PAGE_REMOVED, SECRET, SECRET_FORGET,
    SECRET_MAKE, SIGHTINGS_DROP, SPACE_SEAL, SPACE_TUNE, SPACES,
};
use transaction::Tx;

use crate::instance::Instance;
use crate::space::{Definition, Tuning};
use crate::store::values::{json, signed, time};
use crate::store::{
    Admin, Beat, Confirm, Confirmed, Created, Finding, Floor, GiveBack, Grant, InstancePage,
    InstanceRecord, Instances, LeaseAsk, LeasePage, LeaseRecord, Leases, Mark, MovedRow,
    MovedSpace, Moves, NameBatch, NamePage, NameRecord, Named, Names, NewName, NewSpace, Opening,
    Place, Pulse, Purpose, Rows, RowsPage, Snapshots, SpaceRecord, Spaces, StoreError, Window,
    WindowAsk, WindowRelease, Windows, connections,
};

/// A PostgreSQL database as a store.
#[derive(Debug)]
pub(crate) struct PostgresStore {
    pool: Pool<Hosts>,
    created: bool,
}

impl PostgresStore {
    /// Connects to the server that takes writes, making keymill's schema where there is none if
    /// `create`, and brings it up to date.
    pub(crate) async fn open(url: &str, opening: Opening) -> Result<PostgresStore, StoreError> {
        let pool = connections::new(Hosts::parse(url, opening)?);
        let created = pool.manager().prepare(opening).await?;
        Ok(PostgresStore { pool, created })
    }

    async fn connection(&self) -> Result<Object<Hosts>, StoreError> {
        connections::get(&self.pool).await
    }

    /// A transaction that changes something.
    async fn begin(&self) -> Result<Tx, StoreError> {
        self.begin_with(View::Latest).await
    }

    /// A transaction that changes nothing.
    async fn look(&self) -> Result<Tx, StoreError> {
        self.begin_with(View::Snapshot).await
    }

    /// Where a connection turns out to lead to a server that is not the one to use any more, nothing was
    /// asked of it yet: a new one is asked.
    async fn begin_with(&self, view: View) -> Result<Tx, StoreError> {
        let hosts = self.pool.manager();
        let generation = hosts.generation();
        let tx = Tx::begin(self.connection().await?, view).await;
        if tx.is_ok() || hosts.generation() == generation {
            return tx;
        }
        Tx::begin(self.connection().await?, view).await
    }

    /// One statement that changes nothing.
    async fn read(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        let tx = self.look().await?;
        let answer = tx.query(sql, params).await;
        tx.end(answer).await
    }

    async fn confirm_once(&self, what: &Confirm) -> Result<Confirmed, StoreError> {
        let tx = self.look().await?;
        let answer = tx.confirm(what).await;
        tx.end(answer).await
    }

    async fn unplaced_once(
        &self,
        space: &str,
        reached: Mark,
        after: &str,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let tx = self.look().await?;
        let answer = tx.unplaced(space, reached, after, limit).await;
        tx.end(answer).await
    }
}

#[async_trait]
impl Spaces for PostgresStore {
    async fn create(&self, new: &NewSpace, floor: &Floor) -> Result<Created, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.create(new, floor).await;
        tx.finish(answer).await
    }

    async fn tune(
        &self,
        space: &str,
        tuning: &Tuning,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let tx = self.begin().await?;
        let answer = async {
            let tuning = tx.space_above(space, floor).await?.tuned(tuning);
            tx.execute(SPACE_TUNE, &[&space, &json(&tuning)]).await?;
            tx.space(space).await
        };
        let answer = answer.await;
        tx.finish(answer).await
    }

    async fn grow(
        &self,
        space: &str,
        definition: &Definition,
        capacity: u64,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.grow(space, definition, capacity, floor).await;
        tx.finish(answer).await
    }

    async fn space(&self, space: &str) -> Result<SpaceRecord, StoreError> {
        let tx = self.look().await?;
        let answer = tx.look(space).await;
        tx.end(answer).await?.ok_or_else(|| StoreError::UnknownSpace(space.to_owned()))
    }

    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        let tx = self.look().await?;
        let history = tx.history();
        let answer = tx.query(SPACES, &[]).await;
        let rows = tx.end(answer).await?;
        rows.iter().map(|row| space_from(row, history)).collect()
    }

    async fn advance(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        let tx = self.begin().await?;
        let answer = async {
            let mut space = tx.space(space).await?;
            let sighted = tx.sighted(&space.name).await?;
            let passed = space.advance(sighted.map_or(to, |sighted| to.max(sighted)))?;
            tx.know(by).await?;
            if !passed.is_empty() {
                tx.record_lease(&space, passed, Purpose::Advance, &by.id).await?;
            }
            tx.define(&space).await?;
            tx.move_to(&space).await?;
            tx.drop_pool(&space.name).await?;
            tx.execute(SIGHTINGS_DROP, &[&space.name]).await?;
            Ok(space)
        };
        let answer = answer.await;
        tx.finish(answer).await
    }

    async fn report_sighting(
        &self,
        space: &str,
        instance: &str,
        seen: Mark,
    ) -> Result<(), StoreError> {
        let tx = self.begin().await?;
        let answer = tx.report_sighting(space, instance, seen).await;
        tx.finish(answer).await
    }

    async fn sighted(&self, space: &str) -> Result<Option<Mark>, StoreError> {
        let tx = self.look().await?;
        let answer = tx.sighted(space).await;
        tx.end(answer).await
    }

    async fn seal(&self, space: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        let tx = self.begin().await?;
        let answer = async {
            tx.space_above(space, floor).await?;
            tx.execute(SPACE_SEAL, &[&space]).await?;
            tx.space(space).await
        };
        let answer = answer.await;
        tx.finish(answer).await
    }
}

#[async_trait]
impl Leases for PostgresStore {
    async fn lease(&self, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        let tx = self.begin().await?;
        let answer = match tx.lease(ask).await {
            // These answers commit too: they may have closed the leases that were spent.
            Err(end @ (StoreError::Exhausted { .. } | StoreError::Sealed(_))) => Ok(Err(end)),
            answer => answer.map(Ok),
        };
        tx.finish(answer).await?
    }

    async fn give_back(
        &self,
        backs: &[GiveBack],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.give_back(backs).await;
        tx.finish(answer).await
    }

    async fn lease_of(&self, space: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError> {
        let rows = self.read(LEASE_OF, &[&space, &signed(ordinal)]).await?;
        Ok(rows.first().map(lease_from))
    }

    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError> {
        let (space, lease) = page.after.clone().unwrap_or_default();
        let limit = i64::from(page.limit);
        let rows = self.read(LEASE_PAGE, &[&page.space, &space, &signed(lease), &limit]).await?;
        Ok(rows.iter().map(lease_from).collect())
    }
}

#[async_trait]
impl Windows for PostgresStore {
    async fn window(&self, ask: &WindowAsk) -> Result<Window, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.window(ask).await;
        tx.finish(answer).await
    }

    async fn clock_ms(&self, _own_ms: i64) -> Result<i64, StoreError> {
        let row = self.connection().await?.inspect(windows::CLOCK).await?;
        let clock = row.get(0).and_then(|millis| millis.parse().ok());
        clock.ok_or_else(|| StoreError::Broken("the server's clock shows no time".to_owned()))
    }

    async fn release_window(&self, release: &WindowRelease) -> Result<Mark, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.release_window(release).await;
        tx.finish(answer).await
    }
}

#[async_trait]
impl Names for PostgresStore {
    async fn add_names(&self, batch: &NameBatch) -> Result<Named, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.add_names(batch).await;
        tx.finish(answer).await
    }

    async fn remove_name(
        &self,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<Option<NameRecord>, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.remove_name(space, key, owner, floor).await;
        tx.finish(answer).await
    }

    async fn named(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError> {
        let tx = self.look().await?;
        let answer = tx.named(space, name).await;
        tx.end(answer).await
    }

    async fn names(&self, page: &NamePage) -> Result<Vec<NameRecord>, StoreError> {
        let (purpose, limit) = (page.purpose.name(), i64::from(page.limit));
        let after = page.after.as_deref().unwrap_or_default();
        let sql = if page.removed { NAME_PAGE_REMOVED } else { NAME_PAGE };
        let rows = self.read(sql, &[&page.space, &purpose, &after, &limit]).await?;
        Ok(rows.iter().map(name_from).collect())
    }

    async fn count_names(&self, space: Option<&str>) -> Result<HashMap<String, u64>, StoreError> {
        let tx = self.look().await?;
        let answer = tx.count_names(space).await;
        tx.end(answer).await
    }
}

#[async_trait]
impl Snapshots for PostgresStore {
    async fn confirm(&self, what: &Confirm) -> Result<Confirmed, StoreError> {
        let answer = self.confirm_once(what).await;
        or_again(answer, self.confirm_once(what)).await
    }

    async fn unplaced(
        &self,
        space: &str,
        reached: Mark,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let after = after.unwrap_or_default();
        let answer = self.unplaced_once(space, reached, after, limit).await;
        or_again(answer, self.unplaced_once(space, reached, after, limit)).await
    }
}

#[async_trait]
impl Moves for PostgresStore {
    async fn moved_rows(&self, page: &RowsPage) -> Result<Rows, StoreError> {
        let tx = self.look().await?;
        let answer = tx.moved_rows(page).await;
        tx.end(answer).await
    }

    async fn begin_import(&self, space: &MovedSpace) -> Result<Created, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.begin_import(space).await;
        tx.finish(answer).await
    }

    async fn import_rows(
        &self,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
    ) -> Result<(), StoreError> {
        let tx = self.begin().await?;
        let answer = tx.import_rows(space, importing, rows).await;
        tx.finish(answer).await
    }

    async fn finish_import(&self, space: &MovedSpace) -> Result<SpaceRecord, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.finish_import(space).await;
        tx.finish(answer).await
    }
}

#[async_trait]
impl Instances for PostgresStore {
    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.heartbeat(pulse).await;
        tx.finish(answer).await
    }

    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError> {
        let limit = i64::from(page.limit);
        let rows = self.read(INSTANCE_PAGE, &[&page.after, &limit]).await?;
        let record = |row: &Row| InstanceRecord {
            instance: instance_from(row, 0),
            address: row.get(5),
            seen_at: time(row.get(6)),
            stopped_at: row.get::<_, Option<i64>>(7).map(time),
        };
        Ok(rows.iter().map(record).collect())
    }
}

#[async_trait]
impl Admin for PostgresStore {
    async fn identity(&self) -> Result<String, StoreError> {
        let tx = self.look().await?;
        let identity = tx.identity().to_owned();
        tx.end(Ok(identity)).await
    }

    async fn secret(&self, candidate: Option<&str>) -> Result<Option<String>, StoreError> {
        let tx = self.begin().await?;
        let answer = async {
            if let Some(candidate) = candidate {
                tx.execute(SECRET_MAKE, &[&candidate]).await?;
            }
            let rows = tx.query(SECRET, &[]).await?;
            Ok(rows.first().map(|row| row.get(0)))
        };
        let answer = answer.await;
        tx.finish(answer).await
    }

    async fn forget_secret(&self) -> Result<(), StoreError> {
        let tx = self.begin().await?;
        let answer = tx.execute(SECRET_FORGET, &[]).await.map(drop);
        tx.finish(answer).await
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        self.connection().await?.findings().await
    }

    async fn migrate(&self) -> Result<Vec<String>, StoreError> {
        self.pool.manager().migrate().await
    }

    fn place(&self) -> Place {
        let location = self.pool.manager().shown();
        Place { kind: "postgres", location, created: self.created }
    }
}

/// An answer that reads what a change has left on record. Where the store seems to lie below that change,
/// [`Tx::end`] has given up all connections, and the answer over a new one is what counts: an old
/// primary may still answer over those that were made to it before.
async fn or_again<T>(
    answer: Result<T, StoreError>,
    again: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match answer {
        Err(StoreError::RolledBack(_)) => again.await,
        answer => answer,
    }
}

/// The one place where PostgreSQL's errors become the store's.
fn fold_error(place: &str, error: &tokio_postgres::Error) -> StoreError {
    let Some(refusal) = error.as_db_error() else {
        // The driver's own words hide the cause: "error communicating with the server".
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        return StoreError::Unavailable(format!("{place}: {error}{}", cause.unwrap_or_default()));
    };
    let message = refusal.message();
    match refusal.code() {
        &SqlState::UNDEFINED_TABLE
        | &SqlState::UNDEFINED_COLUMN
        | &SqlState::INVALID_SCHEMA_NAME => StoreError::Broken(format!(
            "{place} lacks keymill's tables ({message}); run `keymill store migrate`"
        )),
        &SqlState::READ_ONLY_SQL_TRANSACTION
        | &SqlState::FEATURE_NOT_SUPPORTED
        | &SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE => StoreError::Unavailable(format!(
            "{place} accepts no writes, it may be a standby: {message}"
        )),
        &SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Broken(format!(
            "{place}: {message}; grant this user the privilege, or run `keymill store migrate` as \
             a user who has it"
        )),
        &SqlState::INVALID_CATALOG_NAME => {
            StoreError::Broken(format!("{place}: {message}; create it with CREATE DATABASE"))
        }
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            StoreError::Broken(format!("{place}: {message}"))
        }
        _ => StoreError::Unavailable(format!("{place}: {message}")),
    }
}
