//! One transaction on a MySQL store: where a lease is granted.

use std::ops::Range;

use deadpool::managed::Object;
use mysql_async::{Params, Row, params};
use tokio::time::{Instant, timeout_at};

use super::connection::{Connection, Hosts};
use super::rows::{column, space_from};
use super::sql::{
    HELD_ELSEWHERE, INSTANCE_KNOW, LEASE_ADD, LEASE_CLOSE, LEASE_EXISTS, SPACE, SPACE_DEFINE,
    SPACE_LOCK, SPACE_MAKE, SPACE_MOVE, SPACES, STORE,
};
use crate::floor::{Floor, History};
use crate::instance::Instance;
use crate::space::Definition;
use crate::store::pool::CALL_MAX;
use crate::store::values::{json, signed, unsigned};
use crate::store::{Created, Grant, LeaseAsk, LeaseId, NewSpace, Purpose, SpaceRecord, StoreError};

/// An open transaction. One that is dropped before [`Tx::finish`] takes its connection with it,
/// and the server rolls it back.
pub(super) struct Tx {
    connection: Option<Object<Hosts>>,
    deadline: Instant,
}

impl Tx {
    pub(super) async fn begin(connection: Object<Hosts>) -> Result<Tx, StoreError> {
        let deadline = Instant::now() + CALL_MAX;
        let mut tx = Tx { connection: Some(connection), deadline };
        tx.run("START TRANSACTION").await?;
        Ok(tx)
    }

    /// Commits what was done, or undoes it where the answer is an error.
    pub(super) async fn finish<T>(
        mut self,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match answer {
            Ok(answer) => {
                let committed = self.run("COMMIT").await;
                committed.map_err(|error| StoreError::InDoubt(error.to_string()))?;
                // Back into the pool.
                drop(self.connection.take());
                Ok(answer)
            }
            Err(error) => {
                // Where an answer is missing, the next to come would be taken for another's.
                if self.connection().is_usable() && self.run("ROLLBACK").await.is_ok() {
                    drop(self.connection.take());
                }
                Err(error)
            }
        }
    }

    pub(super) async fn identity(&mut self) -> Result<String, StoreError> {
        let rows = self.query(STORE, ()).await?;
        let row = rows.first().ok_or_else(|| {
            StoreError::Broken("the table `store` has no row: restore a backup".to_owned())
        })?;
        if !column::<bool>(row, 1) {
            self.connection().give_up();
            return Err(StoreError::Unavailable("the server has become read-only".to_owned()));
        }
        Ok(column(row, 0))
    }

    pub(super) async fn execute(
        &mut self,
        sql: &'static str,
        params: impl Into<Params> + Send,
    ) -> Result<u64, StoreError> {
        let deadline = self.deadline;
        within(deadline, self.connection().execute(sql, params)).await
    }

    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        params: impl Into<Params> + Send,
    ) -> Result<Vec<Row>, StoreError> {
        let deadline = self.deadline;
        within(deadline, self.connection().query(sql, params)).await
    }

    /// Runs a text that is made for one use.
    pub(super) async fn execute_text(&mut self, sql: &str) -> Result<u64, StoreError> {
        let deadline = self.deadline;
        within(deadline, self.connection().execute_text(sql)).await
    }

    pub(super) async fn query_text(&mut self, sql: &str) -> Result<Vec<Row>, StoreError> {
        let deadline = self.deadline;
        within(deadline, self.connection().query_text(sql)).await
    }

    /// The space, its row locked until the transaction ends.
    pub(super) async fn space(&mut self, name: &str) -> Result<SpaceRecord, StoreError> {
        self.space_by(SPACE_LOCK, name).await
    }

    pub(super) async fn spaces(&mut self) -> Result<Vec<SpaceRecord>, StoreError> {
        self.query(SPACES, ()).await?.iter().map(space_from).collect()
    }

    /// The space, unless it lies below its floor; its row locked until the transaction ends.
    pub(super) async fn space_above(
        &mut self,
        name: &str,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        self.above(SPACE_LOCK, name, floor).await
    }

    /// The space, unless it lies below its floor. Its row is not locked.
    pub(super) async fn look_above(
        &mut self,
        name: &str,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        self.above(SPACE, name, floor).await
    }

    pub(super) async fn create(
        &mut self,
        new: &NewSpace,
        floor: &Floor,
    ) -> Result<Created, StoreError> {
        match self.space_above(&new.name, floor).await {
            Err(StoreError::UnknownSpace(_)) => {
                let identity = self.identity().await?;
                floor.check_new(&new.name, &identity, History::default())?;
            }
            found => return found.map(Created::Exists),
        }
        let params = params! {
            "space" => &new.name,
            "definition" => json(&new.definition),
            "tuning" => json(&new.tuning),
            "fingerprint" => new.fingerprint.clone(),
            "capacity" => signed(new.capacity),
            "start" => signed(new.start),
        };
        let made = self.execute(SPACE_MAKE, params).await?;
        let space = self.space(&new.name).await?;
        // Another may have made it in between.
        Ok(if made > 0 { Created::Made(space) } else { Created::Exists(space) })
    }

    pub(super) async fn grow(
        &mut self,
        name: &str,
        definition: &Definition,
        capacity: u64,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let mut space = self.space_above(name, floor).await?;
        if space.grow(definition, capacity)? {
            self.define(&space).await?;
            self.move_to(&space).await?;
        }
        Ok(space)
    }

    /// Writes down the generations of a space.
    pub(super) async fn define(&mut self, space: &SpaceRecord) -> Result<(), StoreError> {
        let params = params! {
            "space" => &space.name,
            "definition" => json(&space.definition),
            "capacity" => signed(space.capacity),
        };
        self.execute(SPACE_DEFINE, params).await.map(drop)
    }

    pub(super) async fn lease(&mut self, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        let mut space = self.space_above(&ask.space, &ask.floor).await?;
        let instance = &ask.instance.id;
        if let Some(last) = ask.expected_lease(space.mark.revision)
            && !self.has_lease(&ask.space, last, instance).await?
        {
            return Err(ask.lost_lease(last));
        }
        for &spent in &ask.spent {
            self.close(&ask.space, spent, instance, None, None).await?;
        }
        if space.sealed {
            return Err(StoreError::Sealed(ask.space.clone()));
        }
        let Some(grant) = space.grant(ask) else {
            let params = params! { "space" => &ask.space, instance };
            let rows = self.query(HELD_ELSEWHERE, params).await?;
            let held_elsewhere = unsigned(column(&rows[0], 0));
            return Err(StoreError::Exhausted { space: ask.space.clone(), held_elsewhere });
        };
        self.know(&ask.instance).await?;
        self.record_lease(&space, grant.ordinals.clone(), Purpose::Lease, instance).await?;
        self.move_to(&space).await?;
        Ok(grant)
    }

    async fn space_by(&mut self, sql: &'static str, name: &str) -> Result<SpaceRecord, StoreError> {
        let rows = self.query(sql, params! { "space" => name }).await?;
        let row = rows.first().ok_or_else(|| StoreError::UnknownSpace(name.to_owned()))?;
        space_from(row)
    }

    async fn above(
        &mut self,
        sql: &'static str,
        name: &str,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let space = match self.space_by(sql, name).await {
            Err(StoreError::UnknownSpace(_)) if floor.mark.is_seen() => {
                return Err(StoreError::gone(name, floor.mark));
            }
            found => found?,
        };
        space.check_floor(&self.identity().await?, floor)?;
        Ok(space)
    }

    /// Writes down how far a space has come.
    pub(super) async fn move_to(&mut self, space: &SpaceRecord) -> Result<(), StoreError> {
        let params = params! {
            "space" => &space.name,
            "next" => signed(space.mark.next),
            "revision" => signed(space.mark.revision),
            "returned" => json(&space.returned),
            "base" => signed(space.base),
        };
        self.execute(SPACE_MOVE, params).await.map(drop)
    }

    /// Records a range under the revision that the space has moved to.
    pub(super) async fn record_lease(
        &mut self,
        space: &SpaceRecord,
        ordinals: Range<u64>,
        purpose: Purpose,
        instance: &str,
    ) -> Result<(), StoreError> {
        let params = params! {
            "space" => &space.name,
            "lease" => signed(space.mark.revision),
            "start" => signed(ordinals.start),
            "end" => signed(ordinals.end),
            "purpose" => purpose.name(),
            instance,
        };
        self.execute(LEASE_ADD, params).await.map(drop)
    }

    /// Closes a lease, at its end or where its rest begins; whether it was open.
    pub(super) async fn close(
        &mut self,
        space: &str,
        lease: LeaseId,
        instance: &str,
        start: Option<i64>,
        end: Option<i64>,
    ) -> Result<bool, StoreError> {
        let params = params! { space, "lease" => signed(lease), instance, start, end };
        Ok(self.execute(LEASE_CLOSE, params).await? > 0)
    }

    pub(super) async fn has_lease(
        &mut self,
        space: &str,
        lease: LeaseId,
        instance: &str,
    ) -> Result<bool, StoreError> {
        let params = params! { space, "lease" => signed(lease), instance };
        Ok(!self.query(LEASE_EXISTS, params).await?.is_empty())
    }

    pub(super) async fn know(&mut self, instance: &Instance) -> Result<(), StoreError> {
        let Instance { id, host, pid, version, started_at } = instance;
        let started_at = started_at.as_millisecond();
        self.execute(INSTANCE_KNOW, params! { id, host, pid, version, started_at }).await.map(drop)
    }

    async fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        let deadline = self.deadline;
        within(deadline, self.connection().run(sql)).await
    }

    fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("taken only when it ends")
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        // What is half done must not go back into the pool.
        drop(self.connection.take().map(Object::take));
    }
}

async fn within<T>(
    deadline: Instant,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout_at(deadline, work)
        .await
        .unwrap_or_else(|_| Err(StoreError::Unavailable(format!("no answer in {CALL_MAX:?}"))))
}
