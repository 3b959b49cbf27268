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

mod connection;
mod digests;
mod keys;
mod names;
mod pools;
mod rows;
mod sql;
mod text;
mod tx;
mod used;
mod windows;

use std::ops::Range;

use async_trait::async_trait;
use deadpool::managed::{Object, Pool};
use mysql_async::params;

use connection::Hosts;
use rows::{column, instance_from, lease_from, name_from, space_from};
use sql::{
    IMPORTED, INSTANCE_PAGE, INSTANCE_SEEN, LEASE_OF, LEASE_PAGE, NAME, SECRET, SECRET_FORGET,
    SECRET_MAKE, SKIPS, SPACE, SPACE_SEAL, SPACE_TUNE, SPACES, STORE, UNPLACED,
};
use tx::Tx;

use super::values::{json, signed, time, unsigned};
use super::{
    Beat, Created, Finding, GiveBack, Grant, InstancePage, InstanceRecord, KeyStore, LeaseAsk,
    LeasePage, LeaseRecord, NameBatch, NameRecord, Named, NewName, NewSpace, Opening, Place, Pulse,
    Purpose, SpaceRecord, Store, StoreError, Window, WindowAsk, WindowRelease, pool,
};
use crate::floor::{Floor, Mark};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};

/// A MySQL or MariaDB database as a store.
#[derive(Debug)]
pub struct MysqlStore {
    pool: Pool<Hosts>,
    created: bool,
}

impl MysqlStore {
    /// Connects to the server that takes writes, making keymill's tables where there are none if
    /// `create`, and brings them up to date.
    pub async fn open(url: &str, opening: Opening) -> Result<MysqlStore, StoreError> {
        let pool = pool::new(Hosts::parse(url, opening)?);
        let created = pool.manager().prepare(opening).await?;
        Ok(MysqlStore { pool, created })
    }

    async fn connection(&self) -> Result<Object<Hosts>, StoreError> {
        pool::get(&self.pool).await
    }

    async fn begin(&self) -> Result<Tx, StoreError> {
        Tx::begin(self.connection().await?).await
    }
}

#[async_trait]
impl Store for MysqlStore {
    async fn identity(&self) -> Result<String, StoreError> {
        let rows = self.connection().await?.query(STORE, ()).await?;
        Ok(column(&rows[0], 0))
    }

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
            tx.space_above(space, floor).await?;
            tx.execute(SPACE_TUNE, params! { space, "tuning" => json(tuning) }).await?;
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
        let rows = self.connection().await?.query(SPACE, params! { space }).await?;
        let row = rows.first().ok_or_else(|| StoreError::UnknownSpace(space.to_owned()))?;
        space_from(row)
    }

    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        let rows = self.connection().await?.query(SPACES, ()).await?;
        rows.iter().map(space_from).collect()
    }

    async fn lease(&self, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        let mut tx = self.begin().await?;
        let answer = match tx.lease(ask).await {
            // These answers commit too: they may have closed the leases that were spent.
            Err(end @ (StoreError::Exhausted { .. } | StoreError::Sealed(_))) => Ok(Err(end)),
            answer => answer.map(Ok),
        };
        tx.finish(answer).await?
    }

    async fn give_back(&self, back: &GiveBack) -> Result<Mark, StoreError> {
        let mut tx = self.begin().await?;
        let answer = async {
            let mut space = tx.space_above(&back.space, &back.floor).await?;
            let (start, end) = (Some(signed(back.rest.start)), Some(signed(back.rest.end)));
            if tx.close(&back.space, back.lease, &back.instance, start, end).await? {
                space.take_back(back.rest.clone());
                tx.move_to(&space).await?;
            }
            Ok(space.mark)
        };
        let answer = answer.await;
        tx.finish(answer).await
    }

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

    async fn advance(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        let mut tx = self.begin().await?;
        let answer = async {
            tx.identity().await?;
            let mut space = tx.space(space).await?;
            let passed = space.advance(to)?;
            tx.know(by).await?;
            if !passed.is_empty() {
                tx.record_lease(&space, passed, Purpose::Advance, &by.id).await?;
            }
            tx.define(&space).await?;
            tx.move_to(&space).await?;
            tx.drop_pool(&space.name).await?;
            Ok(space)
        };
        let answer = answer.await;
        tx.finish(answer).await
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
        let mut connection = self.connection().await?;
        let rows = connection.query(NAME, params! { space, "key" => &name.key }).await?;
        if let (None, Some(ordinal)) = (rows.first(), name.ordinal) {
            let params = params! { space, "ordinal" => signed(ordinal) };
            let rows = connection.query(IMPORTED, params).await?;
            return Ok(rows.first().map(|row| name.imported(space, time(column(row, 0)))));
        }
        Ok(rows.first().map(name_from))
    }

    async fn skips(&self, space: &str, ordinals: Range<u64>) -> Result<Vec<u64>, StoreError> {
        let (start, end) = (signed(ordinals.start), signed(ordinals.end));
        let rows = self.connection().await?.query(SKIPS, params! { space, start, end }).await?;
        Ok(rows.iter().map(|row| unsigned(column(row, 0))).collect())
    }

    async fn unplaced(
        &self,
        space: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let after = after.unwrap_or_default();
        let rows =
            self.connection().await?.query(UNPLACED, params! { space, after, limit }).await?;
        Ok(rows.iter().map(|row| column(row, 0)).collect())
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

    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        let mut tx = self.begin().await?;
        let answer = async {
            let id = &pulse.instance.id;
            tx.know(&pulse.instance).await?;
            let (address, stopping) = (pulse.address.clone(), pulse.stopping);
            tx.execute(INSTANCE_SEEN, params! { id, address, stopping }).await?;
            let spaces = tx.spaces().await?;
            let mut lost = Vec::new();
            for (space, lease) in pulse.expected(&spaces) {
                if !tx.has_lease(space, lease, id).await? {
                    lost.push(space.to_owned());
                }
            }
            Ok(Beat { store: tx.identity().await?, spaces, lost })
        };
        let answer = answer.await;
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

    async fn secret(&self, candidate: Option<&str>) -> Result<Option<String>, StoreError> {
        let mut tx = self.begin().await?;
        let answer = async {
            if let Some(secret) = candidate {
                tx.identity().await?;
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

    fn keys(&self) -> Option<&dyn KeyStore> {
        Some(self)
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
            "{place}: {message}; let this user do that, or run `keymill store migrate` as one who may"
        )),
        // Denied: the database, the user; or there is no such database.
        1044 | 1045 | 1049 => StoreError::Broken(format!("{place}: {message}")),
        _ => StoreError::Unavailable(format!("{place}: {message}")),
    }
}
