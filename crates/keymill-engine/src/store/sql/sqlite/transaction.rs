//! One transaction on a SQLite store: where a lease is granted.

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;

use rusqlite::{Connection, Transaction, params};

use super::fold_error;
use super::rows::{identity, space_named};
use super::statements::{
    HELD_ELSEWHERE, INSTANCE_KNOW, LEASE_ADD, LEASE_CLOSE, LEASE_EXISTS, SPACE_DEFINE, SPACE_MOVE,
};
use crate::instance::Instance;
use crate::space::Definition;
use crate::store::floor_file::FloorReader;
use crate::store::values::{json, now, signed, unsigned};
use crate::store::{
    Floor, GiveBack, Grant, LeaseAsk, LeaseId, Mark, Purpose, SpaceRecord, StoreError,
};

/// A transaction whose errors are the store's.
pub(super) struct Tx<'a> {
    pub(super) transaction: Transaction<'a>,
    pub(super) path: &'a Path,
    /// The floors that all processes on this file share.
    floors: &'a RefCell<FloorReader>,
}

impl<'a> Tx<'a> {
    pub(super) fn new(
        transaction: Transaction<'a>,
        path: &'a Path,
        floors: &'a RefCell<FloorReader>,
    ) -> Tx<'a> {
        Tx { transaction, path, floors }
    }
}

impl Tx<'_> {
    pub(super) fn execute(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
    ) -> Result<usize, StoreError> {
        self.transaction
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(params))
            .map_err(|error| fold_error(self.path, &error))
    }

    pub(super) fn query<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        query(&self.transaction).map_err(|error| fold_error(self.path, &error))
    }

    pub(super) fn space(&self, name: &str) -> Result<SpaceRecord, StoreError> {
        let found = self.query(|connection| space_named(connection, name))?;
        found.ok_or_else(|| StoreError::UnknownSpace(name.to_owned()))
    }

    /// The space, unless it lies below its floor.
    pub(super) fn space_above(&self, name: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        let floor = self.shared_floor(name, floor)?;
        let space = match self.space(name) {
            Err(StoreError::UnknownSpace(_)) if floor.mark.is_seen() => {
                return Err(StoreError::gone(name, floor.mark));
            }
            found => found?,
        };
        space.check_floor(&self.query(identity)?, &floor)?;
        Ok(space)
    }

    pub(super) fn grow(
        &self,
        name: &str,
        definition: &Definition,
        capacity: u64,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        let mut space = self.space_above(name, floor)?;
        if space.grow(definition, capacity)? {
            self.define(&space)?;
            self.move_to(&space)?;
        }
        Ok(space)
    }

    /// Writes down the generations of a space.
    pub(super) fn define(&self, space: &SpaceRecord) -> Result<(), StoreError> {
        let (definition, capacity) = (json(&space.definition), signed(space.capacity));
        self.execute(SPACE_DEFINE, params![space.name, definition, capacity]).map(drop)
    }

    pub(super) fn lease(&self, ask: &LeaseAsk, floor: &Floor) -> Result<Grant, StoreError> {
        let mut space = self.space_above(&ask.space, floor)?;
        let instance = &ask.instance.id;
        if let Some(last) = ask.expected_lease(space.mark.revision)
            && !self.has_lease(&ask.space, last, instance)?
        {
            return Err(ask.lost_lease(last, floor));
        }
        for &spent in &ask.spent {
            self.close(&ask.space, spent, instance)?;
        }
        if space.sealed {
            return Err(StoreError::Sealed(ask.space.clone()));
        }
        let Some(grant) = space.grant(ask) else {
            return Err(StoreError::Exhausted {
                space: ask.space.clone(),
                held_elsewhere: self.query(|connection| {
                    connection.query_row(HELD_ELSEWHERE, params![ask.space, instance], |row| {
                        row.get(0).map(unsigned)
                    })
                })?,
            });
        };
        self.know(&ask.instance)?;
        self.record_lease(&space, grant.ordinals.clone(), Purpose::Lease, instance)?;
        self.move_to(&space)?;
        Ok(grant)
    }

    /// Closes many leases. A space that is refused was not changed, and the others go on.
    pub(super) fn give_back_all(
        &self,
        backs: &[(GiveBack, Floor)],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        let mut marks = Vec::with_capacity(backs.len());
        for back in backs {
            marks.push(match self.give_back(back) {
                Err(refusal @ (StoreError::RolledBack(_) | StoreError::UnknownSpace(_))) => {
                    Err(refusal)
                }
                answer => Ok(answer?),
            });
        }
        Ok(marks)
    }

    fn give_back(&self, (back, floor): &(GiveBack, Floor)) -> Result<Mark, StoreError> {
        let mut space = self.space_above(&back.space, floor)?;
        let (lease, end) = (signed(back.lease), signed(back.end));
        let closed_at = signed(back.closed_at);
        let close = params![back.space, lease, back.instance, closed_at, now(), end];
        if self.execute(LEASE_CLOSE, close)? > 0 {
            space.take_back(&back.returned);
            self.move_to(&space)?;
        }
        Ok(space.mark)
    }

    /// The caller's floor, or the one that all processes on this file share where that is higher:
    /// read here, where no other process can be granted anything meanwhile.
    fn shared_floor(&self, name: &str, floor: &Floor) -> Result<Floor, StoreError> {
        let shared = self.floors.borrow_mut().mark(&floor.store, name);
        let shared =
            shared.map_err(|error| StoreError::Unavailable(format!("the floor file {error}")))?;
        Ok(Floor { store: floor.store.clone(), mark: floor.mark.max(shared) })
    }

    /// Writes down how far a space has come.
    pub(super) fn move_to(&self, space: &SpaceRecord) -> Result<(), StoreError> {
        let (next, revision) = (signed(space.mark.next), signed(space.mark.revision));
        let (returned, base) = (json(&space.returned), signed(space.base));
        let params = params![space.name, next, revision, returned, base];
        self.execute(SPACE_MOVE, params).map(drop)
    }

    /// Records a range under the revision that the space has moved to.
    pub(super) fn record_lease(
        &self,
        space: &SpaceRecord,
        ordinals: Range<u64>,
        purpose: Purpose,
        instance: &str,
    ) -> Result<(), StoreError> {
        let lease = signed(space.mark.revision);
        let (start, end) = (signed(ordinals.start), signed(ordinals.end));
        let purpose = purpose.name();
        let params = params![space.name, lease, start, end, purpose, instance, now()];
        self.execute(LEASE_ADD, params).map(drop)
    }

    /// Closes a lease at its end.
    pub(super) fn close(
        &self,
        space: &str,
        lease: LeaseId,
        instance: &str,
    ) -> Result<(), StoreError> {
        let none = None::<i64>;
        let params = params![space, signed(lease), instance, none, now(), none];
        self.execute(LEASE_CLOSE, params).map(drop)
    }

    pub(super) fn has_lease(
        &self,
        space: &str,
        lease: LeaseId,
        instance: &str,
    ) -> Result<bool, StoreError> {
        self.query(|connection| {
            let params = params![space, signed(lease), instance];
            connection.prepare_cached(LEASE_EXISTS)?.query_row(params, |row| row.get(0))
        })
    }

    pub(super) fn know(&self, instance: &Instance) -> Result<(), StoreError> {
        let Instance { id, host, pid, version, started_at } = instance;
        let started_at = started_at.as_millisecond();
        self.execute(INSTANCE_KNOW, params![id, host, pid, version, started_at, now()]).map(drop)
    }
}
