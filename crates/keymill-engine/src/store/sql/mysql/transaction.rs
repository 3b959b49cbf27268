//! One transaction on a MySQL store: where a lease is granted.

use std::ops::Range;

use deadpool::managed::Object;
use mysql_async::{Params, Row, params};
use tokio::time::{Instant, timeout_at};

use super::connection::Connection;
use super::hosts::Hosts;
use super::rows::{column, space_from};
use super::session::{self, Look};
use super::statements::{
    HELD_ELSEWHERE, INSTANCE_KNOW, LEASE_ADD, LEASE_CLOSE, LEASE_EXISTS, SKIPS, SPACE,
    SPACE_DEFINE, SPACE_LOCK, SPACE_MAKE, SPACE_MOVE, SPACES,
};
use crate::instance::Instance;
use crate::space::Definition;
use crate::store::connections::CALL_MAX;
use crate::store::values::{json, signed, unsigned};
use crate::store::{
    Created, Floor, Grant, History, LeaseAsk, LeaseId, NewSpace, Purpose, SpaceRecord, StoreError,
};

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
        tx.run(session::BEGIN).await?;
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
                self.undo().await;
                Err(error)
            }
        }
    }

    /// Ends one that was to change nothing: there is nothing to commit, and nothing in doubt.
    pub(super) async fn finish_reading<T>(
        mut self,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.undo().await;
        answer
    }

    /// Rolls back, and puts the connection back into the pool where it can be used again.
    async fn undo(&mut self) {
        // Where an answer is missing, the next to come would be taken for another's.
        if self.connection().is_usable() && self.run("ROLLBACK").await.is_ok() {
            drop(self.connection.take());
        }
    }

    /// What tells this store from every other. Looks in the same statement whether this is still the
    /// server that takes writes, and whether statements mean here what they should: every
    /// transaction asks for it, as late as it can.
    pub(super) async fn identity(&mut self) -> Result<String, StoreError> {
        let isolation = self.connection().isolation();
        let rows = self.query_text(&session::look_at(isolation)).await?;
        let row = rows.first().ok_or_else(|| {
            StoreError::Broken("the table `store` has no row: restore a backup".to_owned())
        })?;
        let connection = self.connection();
        match Look::of(row, isolation) {
            Look::Good(identity) => Ok(identity),
            Look::ReadOnly => {
                connection.give_up_all();
                let place = connection.place();
                Err(StoreError::Unavailable(format!("{place} has become read-only")))
            }
            Look::Changed(problem) => {
                connection.give_up();
                let place = connection.place();
                Err(StoreError::Unavailable(format!("{place}: {problem}")))
            }
        }
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
        let space = self.lock(name).await?;
        space.ok_or_else(|| StoreError::UnknownSpace(name.to_owned()))
    }

    /// The same; `None` where there is none.
    pub(super) async fn lock(&mut self, name: &str) -> Result<Option<SpaceRecord>, StoreError> {
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

    pub(super) async fn lease(
        &mut self,
        ask: &LeaseAsk,
        floor: &Floor,
    ) -> Result<Grant, StoreError> {
        let mut space = self.space_above(&ask.space, floor).await?;
        let instance = &ask.instance.id;
        if let Some(last) = ask.expected_lease(space.mark.revision)
            && !self.has_lease(&ask.space, last, instance).await?
        {
            return Err(ask.lost_lease(last, floor));
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

    /// The space, its row not locked; `None` where there is none.
    pub(super) async fn look(&mut self, name: &str) -> Result<Option<SpaceRecord>, StoreError> {
        self.space_by(SPACE, name).await
    }

    async fn space_by(
        &mut self,
        sql: &'static str,
        name: &str,
    ) -> Result<Option<SpaceRecord>, StoreError> {
        let rows = self.query(sql, params! { "space" => name }).await?;
        rows.first().map(space_from).transpose()
    }

    async fn above(
        &mut self,
        sql: &'static str,
        name: &str,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let found = self.space_by(sql, name).await?;
        // Before anything is concluded: a server that follows another may lag behind it.
        let identity = self.identity().await?;
        let Some(space) = found else {
            return Err(missing(name, floor));
        };
        space.check_floor(&identity, floor)?;
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

    /// The ordinals that names occupy, of these; in order.
    pub(super) async fn skips(
        &mut self,
        space: &str,
        ordinals: Range<u64>,
    ) -> Result<Vec<u64>, StoreError> {
        let (start, end) = (signed(ordinals.start), signed(ordinals.end));
        let rows = self.query(SKIPS, params! { space, start, end }).await?;
        Ok(rows.iter().map(|row| unsigned(column(row, 0))).collect())
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

/// What to answer where there is no such space.
pub(super) fn missing(space: &str, floor: &Floor) -> StoreError {
    if floor.mark.is_seen() {
        return StoreError::gone(space, floor.mark);
    }
    StoreError::UnknownSpace(space.to_owned())
}

async fn within<T>(
    deadline: Instant,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout_at(deadline, work)
        .await
        .unwrap_or_else(|_| Err(StoreError::Unavailable(format!("no answer within {CALL_MAX:?}"))))
}
