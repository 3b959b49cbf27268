//! MySQL and MariaDB: the store for many instances where one of them is at hand.
//!
//! A lease is one transaction: the space's row is locked with `SELECT … FOR UPDATE`, then
//! updated. The server ends a transaction that lies idle, so that an instance that is paused
//! half-way does not hold the row.
//!
//! # Invariants
//!
//! - Transactions are `READ COMMITTED`: what is read after the lock is what the last holder of
//!   the lock left, and a name that is not there yet is not locked by gaps.
//! - What decides anything is read in a transaction, which looks itself whether its server takes
//!   writes and statements mean what they should (`session`). Lists outside of one have a limit of
//!   their own.

mod bulk;
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
mod pools;
mod rows;
mod session;
mod sightings;
mod statements;
mod transaction;
mod used;
mod windows;

use std::collections::HashMap;

use async_trait::async_trait;
use deadpool::managed::{Object, Pool};
use mysql_async::params;

use hosts::Hosts;
use rows::{column, instance_from, lease_from, name_from};
use statements::{
    INSTANCE_PAGE, LEASE_OF, LEASE_PAGE, NAME_PAGE, SECRET, SECRET_FORGET, SECRET_MAKE, SPACE_SEAL,
    SPACE_TUNE,
};
use transaction::Tx;

use crate::instance::Instance;
use crate::space::{Definition, Tuning};
use crate::store::values::{json, signed, time};
use crate::store::{
    Admin, Beat, Confirm, Confirmed, Created, Evidence, Finding, Floor, GiveBack, Grant,
    InstancePage, InstanceRecord, Instances, LeaseAsk, LeasePage, LeaseRecord, Leases, Mark,
    MovedRow, MovedSpace, Moves, NameBatch, NamePage, NameRecord, Named, Names, NewName, NewSpace,
    Opening, Place, Pulse, Purpose, Rows, RowsPage, Snapshots, SpaceRecord, Spaces, StoreError,
    Window, WindowAsk, WindowRelease, Windows, connections,
};

/// A MySQL or MariaDB database as a store.
#[derive(Debug)]
pub(crate) struct MysqlStore {
    pool: Pool<Hosts>,
    created: bool,
}

impl MysqlStore {
    /// Connects to the server that takes writes, making keymill's tables where there are none if
    /// `create`, and brings them up to date.
    pub(crate) async fn open(url: &str, opening: Opening) -> Result<MysqlStore, StoreError> {
        let pool = connections::new(Hosts::parse(url, opening)?);
        let created = pool.manager().prepare(opening).await?;
        Ok(MysqlStore { pool, created })
    }

    async fn connection(&self) -> Result<Object<Hosts>, StoreError> {
        connections::get(&self.pool).await
    }

    async fn begin(&self) -> Result<Tx, StoreError> {
        Tx::begin(self.connection().await?).await
    }

    /// A transaction that is to change nothing, on a server that was looked at.
    async fn begin_reading(&self) -> Result<Tx, StoreError> {
        let mut tx = self.begin().await?;
        match tx.identity().await {
            Ok(_) => Ok(tx),
            Err(error) => tx.finish_reading(Err(error)).await,
        }
    }

    async fn confirm_once(&self, what: &Confirm) -> Result<Confirmed, StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.confirm(what).await;
        tx.finish_reading(answer).await
    }

    async fn unplaced_once(
        &self,
        what: &Confirm,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.unplaced(what, after, limit).await;
        tx.finish_reading(answer).await
    }

    /// Whether an answer does not count yet. A store that seems to have been rolled back may be a server that
    /// lags behind, at the other end of connections that lead there still: these are given up, and the
    /// question is asked once more over a new one.
    fn is_to_be_asked_again<T>(&self, answer: &Result<T, StoreError>) -> bool {
        let rolled_back = matches!(answer, Err(StoreError::RolledBack(_)));
        if rolled_back {
            self.pool.manager().give_up_all();
        }
        rolled_back
    }
}

#[async_trait]
impl Spaces for MysqlStore {
    async fn create(&self, new: &NewSpace, floor: &Floor) -> Result<Created, StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.create(new, floor).await;
        tx.finish(answer).await
    }

    async fn tune(
        &self,
        space: &str,
        tuning: &Tuning,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let mut tx = self.begin().await?;
        let answer = async {
            let tuning = tx.space_above(space, floor).await?.tuned(tuning);
            tx.execute(SPACE_TUNE, params! { space, "tuning" => json(&tuning) }).await?;
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
        let mut tx = self.begin().await?;
        let answer = tx.grow(space, definition, capacity, floor).await;
        tx.finish(answer).await
    }

    async fn space(&self, space: &str) -> Result<SpaceRecord, StoreError> {
        let mut tx = self.begin_reading().await?;
        let answer = tx.look(space).await;
        let found = tx.finish_reading(answer).await?;
        found.ok_or_else(|| StoreError::UnknownSpace(space.to_owned()))
    }

    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        let mut tx = self.begin_reading().await?;
        let answer = tx.spaces().await;
        tx.finish_reading(answer).await
    }

    async fn advance(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        let mut tx = self.begin().await?;
        let answer = async {
            let mut space = tx.space(space).await?;
            tx.identity().await?;
            let sighted = tx.sighted(&space.name).await?;
            let passed = space.advance(sighted.map_or(to, |sighted| to.max(sighted)))?;
            tx.know(by).await?;
            if !passed.is_empty() {
                tx.record_lease(&space, passed, Purpose::Advance, &by.id).await?;
            }
            tx.define(&space).await?;
            tx.move_to(&space).await?;
            tx.drop_pool(&space.name).await?;
            tx.drop_sightings(&space.name).await?;
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
        let mut tx = self.begin().await?;
        let answer = tx.report_sighting(space, instance, seen).await;
        tx.finish(answer).await
    }

    async fn sighted(&self, space: &str) -> Result<Option<Mark>, StoreError> {
        let mut tx = self.begin_reading().await?;
        let answer = tx.sighted(space).await;
        tx.finish_reading(answer).await
    }

    async fn seal(&self, space: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        let mut tx = self.begin().await?;
        let answer = async {
            tx.space_above(space, floor).await?;
            tx.execute(SPACE_SEAL, params! { space }).await?;
            tx.space(space).await
        };
        let answer = answer.await;
        tx.finish(answer).await
    }
}

#[async_trait]
impl Leases for MysqlStore {
    async fn lease(&self, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        let mut tx = self.begin().await?;
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
        let mut tx = self.begin().await?;
        let answer = tx.give_back(backs).await;
        tx.finish(answer).await
    }

    async fn lease_of(&self, space: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError> {
        let params = params! { space, "ordinal" => signed(ordinal) };
        let rows = self.connection().await?.query(LEASE_OF, params).await?;
        Ok(rows.first().map(lease_from))
    }

    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError> {
        let (after, lease) = page.after.clone().unwrap_or_default();
        let params = params! {
            "space" => page.space.clone(), after, "lease" => signed(lease), "limit" => page.limit,
        };
        let rows = self.connection().await?.query(LEASE_PAGE, params).await?;
        Ok(rows.iter().map(lease_from).collect())
    }
}

#[async_trait]
impl Windows for MysqlStore {
    async fn window(&self, ask: &WindowAsk) -> Result<Window, StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.window(ask).await;
        tx.finish(answer).await
    }

    async fn clock_ms(&self, _own_ms: i64) -> Result<i64, StoreError> {
        let rows = self.connection().await?.query(windows::CLOCK, ()).await?;
        Ok(rows::column(&rows[0], 0))
    }

    async fn release_window(&self, release: &WindowRelease) -> Result<Mark, StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.release_window(release).await;
        tx.finish(answer).await
    }
}

#[async_trait]
impl Names for MysqlStore {
    async fn add_names(&self, batch: &NameBatch) -> Result<Named, StoreError> {
        let mut tx = self.begin().await?;
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
        let mut tx = self.begin().await?;
        let answer = tx.remove_name(space, key, owner, floor).await;
        tx.finish(answer).await
    }

    async fn named(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError> {
        let mut tx = self.begin_reading().await?;
        let answer = tx.named(space, name).await;
        tx.finish_reading(answer).await
    }

    async fn names(&self, page: &NamePage) -> Result<Vec<NameRecord>, StoreError> {
        let params = params! {
            "space" => &page.space,
            "purpose" => page.purpose.name(),
            "removed" => page.removed,
            // No key is empty.
            "after" => page.after.as_deref().unwrap_or_default(),
            "limit" => page.limit,
        };
        let rows = self.connection().await?.query(NAME_PAGE, params).await?;
        Ok(rows.iter().map(name_from).collect())
    }

    async fn count_names(&self, space: Option<&str>) -> Result<HashMap<String, u64>, StoreError> {
        let mut tx = self.begin_reading().await?;
        let answer = tx.count_names(space).await;
        tx.finish_reading(answer).await
    }
}

#[async_trait]
impl Snapshots for MysqlStore {
    async fn confirm(&self, what: &Confirm) -> Result<Confirmed, StoreError> {
        let answer = self.confirm_once(what).await;
        if self.is_to_be_asked_again(&answer) {
            return self.confirm_once(what).await;
        }
        answer
    }

    async fn unplaced(
        &self,
        space: &str,
        reached: Mark,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let (space, evidence) = (space.to_owned(), Evidence::Mark);
        let what = Confirm { space, reached, evidence, skips_in: 0..0 };
        let answer = self.unplaced_once(&what, after, limit).await;
        if self.is_to_be_asked_again(&answer) {
            return self.unplaced_once(&what, after, limit).await;
        }
        answer
    }
}

#[async_trait]
impl Moves for MysqlStore {
    async fn moved_rows(&self, page: &RowsPage) -> Result<Rows, StoreError> {
        let mut tx = self.begin_reading().await?;
        let answer = tx.moved_rows(page).await;
        tx.finish_reading(answer).await
    }

    async fn begin_import(&self, space: &MovedSpace) -> Result<Created, StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.begin_import(space).await;
        tx.finish(answer).await
    }

    async fn import_rows(
        &self,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.import_rows(space, importing, rows).await;
        tx.finish(answer).await
    }

    async fn finish_import(&self, space: &MovedSpace) -> Result<SpaceRecord, StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.finish_import(space).await;
        tx.finish(answer).await
    }
}

#[async_trait]
impl Instances for MysqlStore {
    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.heartbeat(pulse).await;
        tx.finish(answer).await
    }

    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError> {
        let params = params! { "after" => page.after.clone(), "limit" => page.limit };
        let rows = self.connection().await?.query(INSTANCE_PAGE, params).await?;
        let record = |row: &mysql_async::Row| InstanceRecord {
            instance: instance_from(row, 0),
            address: column(row, 5),
            seen_at: time(column(row, 6)),
            stopped_at: column::<Option<i64>>(row, 7).map(time),
        };
        Ok(rows.iter().map(record).collect())
    }
}

#[async_trait]
impl Admin for MysqlStore {
    async fn identity(&self) -> Result<String, StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.identity().await;
        tx.finish_reading(answer).await
    }

    async fn secret(&self, candidate: Option<&str>) -> Result<Option<String>, StoreError> {
        let mut tx = self.begin().await?;
        let answer = async {
            tx.identity().await?;
            if let Some(secret) = candidate {
                tx.execute(SECRET_MAKE, params! { secret }).await?;
            }
            let rows = tx.query(SECRET, ()).await?;
            Ok(rows.first().map(|row| column(row, 0)))
        };
        let answer = answer.await;
        tx.finish(answer).await
    }

    async fn forget_secret(&self) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let answer = async {
            tx.identity().await?;
            tx.execute(SECRET_FORGET, ()).await.map(drop)
        };
        let answer = answer.await;
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
        Place { kind: "mysql", location, created: self.created }
    }
}

/// The one place where MySQL's errors become the store's.
fn fold_error(place: &str, error: &mysql_async::Error) -> StoreError {
    let mysql_async::Error::Server(refusal) = error else {
        return StoreError::Unavailable(format!("{place}: {error}"));
    };
    let message = &refusal.message;
    match refusal.code {
        // Unknown table, or column.
        1146 | 1054 => StoreError::Broken(format!(
            "{place} lacks keymill's tables ({message}); run `keymill store migrate`"
        )),
        // Denied: a command, a table, a column.
        1142 | 1143 | 1227 => StoreError::Broken(format!(
            "{place}: {message}; grant this user the privilege, or run `keymill store migrate` as \
             a user who has it"
        )),
        // Denied: the database, the user; or there is no such database.
        1044 | 1045 | 1049 => StoreError::Broken(format!("{place}: {message}")),
        _ => StoreError::Unavailable(format!("{place}: {message}")),
    }
}
