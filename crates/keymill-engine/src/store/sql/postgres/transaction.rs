//! One transaction on a PostgreSQL store: where a lease is granted.

use std::ops::Range;

use deadpool::managed::Object;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::begin::View;
use super::hosts::Hosts;
use super::param::Params;
use super::rows::space_from;
use super::statements::{
    HELD_ELSEWHERE, INSTANCE_KNOW, LEASE_ADD, LEASE_CLOSE, LEASE_EXISTS, LEASES_SPENT, SPACE,
    SPACE_DEFINE, SPACE_LOCK, SPACE_MAKE, SPACE_MOVE,
};
use crate::instance::Instance;
use crate::space::Definition;
use crate::store::connections::CALL_MAX;
use crate::store::values::{json, signed, unsigned};
use crate::store::{
    Created, Floor, Grant, History, LeaseAsk, LeaseId, NewSpace, Purpose, SpaceRecord, StoreError,
};

/// An open transaction. One that is dropped before it has ended takes its connection with it, and
/// the server rolls it back.
pub(super) struct Tx {
    connection: Option<Object<Hosts>>,
    identity: String,
    history: History,
    deadline: Instant,
}

impl Tx {
    pub(super) async fn begin(connection: Object<Hosts>, view: View) -> Result<Tx, StoreError> {
        let mut tx = Tx {
            connection: Some(connection),
            identity: String::new(),
            history: History::default(),
            deadline: Instant::now() + CALL_MAX,
        };
        let begun = tx.within(tx.connection().begin(view)).await;
        match begun {
            Ok(begun) => {
                tx.identity = begun.identity;
                tx.history = begun.history;
                Ok(tx)
            }
            Err(error) => {
                tx.give_up_outlived();
                Err(error)
            }
        }
    }

    /// Commits what was done, or undoes it where the answer is an error.
    pub(super) async fn finish<T>(
        mut self,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.end(Err(error)).await,
        };
        let connection = self.connection();
        let warned = connection.warnings();
        let committed = self.within(connection.run("COMMIT")).await;
        let doubt = match committed {
            Err(error) => Some(error.to_string()),
            Ok(()) if connection.warnings() != warned => Some(
                "the server gave a warning at the commit: the change may not be on its standby"
                    .to_owned(),
            ),
            Ok(()) => None,
        };
        match (self.connection.take(), &doubt) {
            (Some(connection), Some(_)) => Hosts::doubt(connection),
            // Back into the pool.
            (connection, _) => drop(connection),
        }
        doubt.map_or(Ok(answer), |doubt| Err(StoreError::InDoubt(doubt)))
    }

    /// Ends a transaction that is to change nothing: so there is no doubt about it. Where the store seems
    /// to have been rolled back, the next one to ask does so over a new connection.
    pub(super) async fn end<T>(mut self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if matches!(answer, Err(StoreError::RolledBack(_)))
            && let Some(connection) = self.connection.take()
        {
            Hosts::give_up(connection);
        } else if self.within(self.connection().run("ROLLBACK")).await.is_ok()
            && self.connection().is_good()
        {
            drop(self.connection.take());
        } else {
            self.give_up_outlived();
        }
        answer
    }

    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    pub(super) async fn execute(&self, sql: &str, params: Params<'_>) -> Result<u64, StoreError> {
        self.within(self.connection().execute(sql, params)).await
    }

    pub(super) async fn query(
        &self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.within(self.connection().query(sql, params)).await
    }

    /// Writes rows in bulk; how many.
    pub(super) async fn copy<'a>(
        &self,
        sql: &'static str,
        types: &[Type],
        rows: impl Iterator<Item = [&'a (dyn ToSql + Sync); 3]> + Send,
    ) -> Result<u64, StoreError> {
        self.within(self.connection().copy(sql, types, rows)).await
    }

    /// The history of the server.
    pub(super) fn history(&self) -> History {
        self.history
    }

    /// The space, its row locked until the transaction ends.
    pub(super) async fn space(&self, name: &str) -> Result<SpaceRecord, StoreError> {
        let rows = self.query(SPACE_LOCK, &[&name]).await?;
        let row = rows.first().ok_or_else(|| StoreError::UnknownSpace(name.to_owned()))?;
        space_from(row, self.history)
    }

    /// The space; its row is not locked.
    pub(super) async fn look(&self, name: &str) -> Result<Option<SpaceRecord>, StoreError> {
        let rows = self.query(SPACE, &[&name]).await?;
        rows.first().map(|row| space_from(row, self.history)).transpose()
    }

    /// The space, unless it lies below its floor.
    pub(super) async fn space_above(
        &self,
        name: &str,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let rows = self.query(SPACE_LOCK, &[&name]).await?;
        self.checked(name, rows.first(), floor)
    }

    /// The space of a row, unless it lies below its floor.
    pub(super) fn checked(
        &self,
        name: &str,
        row: Option<&Row>,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let row = row.ok_or_else(|| missing(name, floor))?;
        let space = space_from(row, self.history)?;
        space.check_floor(&self.identity, floor)?;
        Ok(space)
    }

    pub(super) async fn create(
        &self,
        new: &NewSpace,
        floor: &Floor,
    ) -> Result<Created, StoreError> {
        match self.space_above(&new.name, floor).await {
            Err(StoreError::UnknownSpace(_)) => {
                floor.check_new(&new.name, &self.identity, self.history)?;
            }
            found => return found.map(Created::Exists),
        }
        let (definition, tuning) = (json(&new.definition), json(&new.tuning));
        let (capacity, start) = (signed(new.capacity), signed(new.start));
        let made = self
            .execute(
                SPACE_MAKE,
                &[&new.name, &definition, &tuning, &new.fingerprint, &capacity, &start],
            )
            .await?;
        let space = self.space(&new.name).await?;
        // Another may have made it in between.
        Ok(if made > 0 { Created::Made(space) } else { Created::Exists(space) })
    }

    pub(super) async fn grow(
        &self,
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
    pub(super) async fn define(&self, space: &SpaceRecord) -> Result<(), StoreError> {
        let (definition, capacity) = (json(&space.definition), signed(space.capacity));
        self.execute(SPACE_DEFINE, &[&space.name, &definition, &capacity]).await.map(drop)
    }

    pub(super) async fn lease(&self, ask: &LeaseAsk, floor: &Floor) -> Result<Grant, StoreError> {
        let mut space = self.space_above(&ask.space, floor).await?;
        let instance = &ask.instance.id;
        if let Some(last) = ask.expected_lease(space.mark.revision)
            && !self.has_lease(&ask.space, last, instance).await?
        {
            return Err(ask.lost_lease(last, floor));
        }
        if !ask.spent.is_empty() {
            let spent: Vec<i64> = ask.spent.iter().map(|&spent| signed(spent)).collect();
            self.execute(LEASES_SPENT, &[&ask.space, &spent, instance]).await?;
        }
        if space.sealed {
            return Err(StoreError::Sealed(ask.space.clone()));
        }
        let Some(grant) = space.grant(ask) else {
            let rows = self.query(HELD_ELSEWHERE, &[&ask.space, instance]).await?;
            let held_elsewhere = unsigned(rows[0].get(0));
            return Err(StoreError::Exhausted { space: ask.space.clone(), held_elsewhere });
        };
        // Sent one behind the other, without waiting for each.
        let (known, recorded, moved) = tokio::join!(
            self.know(&ask.instance),
            self.record_lease(&space, grant.ordinals.clone(), Purpose::Lease, instance),
            self.move_to(&space)
        );
        known?;
        recorded?;
        moved?;
        Ok(grant)
    }

    /// Writes down how far a space has come.
    pub(super) async fn move_to(&self, space: &SpaceRecord) -> Result<(), StoreError> {
        let (next, revision) = (signed(space.mark.next), signed(space.mark.revision));
        let (returned, base) = (json(&space.returned), signed(space.base));
        let params: Params<'_> = &[&space.name, &next, &revision, &returned, &base];
        self.execute(SPACE_MOVE, params).await.map(drop)
    }

    /// Records a range under the revision that the space has moved to.
    pub(super) async fn record_lease(
        &self,
        space: &SpaceRecord,
        ordinals: Range<u64>,
        purpose: Purpose,
        instance: &str,
    ) -> Result<(), StoreError> {
        let lease = signed(space.mark.revision);
        let (start, end) = (signed(ordinals.start), signed(ordinals.end));
        let params: Params<'_> = &[&space.name, &lease, &start, &end, &purpose.name(), &instance];
        self.execute(LEASE_ADD, params).await.map(drop)
    }

    /// Closes a lease, at its end or where its rest begins; whether it was open.
    pub(super) async fn close(
        &self,
        space: &str,
        lease: LeaseId,
        instance: &str,
        start: Option<i64>,
        end: Option<i64>,
    ) -> Result<bool, StoreError> {
        let params: Params<'_> = &[&space, &signed(lease), &instance, &start, &end];
        Ok(self.execute(LEASE_CLOSE, params).await? > 0)
    }

    pub(super) async fn has_lease(
        &self,
        space: &str,
        lease: LeaseId,
        instance: &str,
    ) -> Result<bool, StoreError> {
        let rows = self.query(LEASE_EXISTS, &[&space, &signed(lease), &instance]).await?;
        Ok(rows[0].get(0))
    }

    pub(super) async fn know(&self, instance: &Instance) -> Result<(), StoreError> {
        let Instance { id, host, pid, version, started_at } = instance;
        let (pid, started_at) = (i64::from(*pid), started_at.as_millisecond());
        self.execute(INSTANCE_KNOW, &[id, host, &pid, version, &started_at]).await.map(drop)
    }

    /// Closes the connection; where its server is not the one to use any more, all others too.
    fn give_up_outlived(&mut self) {
        match self.connection.take() {
            Some(connection) if connection.is_outlived() => Hosts::give_up(connection),
            connection => drop(connection.map(Object::take)),
        }
    }

    fn connection(&self) -> &Object<Hosts> {
        self.connection.as_ref().expect("taken only when it ends")
    }

    async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        timeout_at(self.deadline, work).await.unwrap_or_else(|_| {
            Err(StoreError::Unavailable(format!("no answer within {CALL_MAX:?}")))
        })
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        // What is half done must not go back into the pool.
        drop(self.connection.take().map(Object::take));
    }
}

/// What to answer of a space that is not there.
pub(super) fn missing(name: &str, floor: &Floor) -> StoreError {
    if floor.mark.is_seen() {
        StoreError::gone(name, floor.mark)
    } else {
        StoreError::UnknownSpace(name.to_owned())
    }
}
