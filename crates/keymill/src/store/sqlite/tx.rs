//! One transaction on a SQLite store: where a lease is granted.

use std::path::Path;

use rusqlite::{Connection, Transaction, params};

use super::rows::{Returned, identity, json, now, parse, signed, space_named, unsigned};
use super::{
    HELD_ELSEWHERE, INSTANCE_KNOW, LEASE_ADD, LEASE_CLOSE, LEASE_EXISTS, SPACE_MOVE,
    SPACE_RETURNED, floor_file, fold_error,
};
use crate::floor::{Floor, Mark, mark_in};
use crate::instance::Instance;
use crate::store::{Grant, LeaseAsk, LeaseId, SpaceRecord, StoreError, must_be_on_record};

/// A transaction whose errors are the store's.
pub(super) struct Tx<'a> {
    pub(super) transaction: Transaction<'a>,
    pub(super) path: &'a Path,
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

    /// The space, unless it lies below its floor: the caller's, and the one that all processes on
    /// this file share, read here where no other process can be granted anything meanwhile.
    pub(super) fn space_above(&self, name: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        let shared = mark_in(&floor_file(self.path), &floor.store, name)
            .map_err(|error| StoreError::Unavailable(format!("the floor file {error}")))?;
        let floor = Floor { store: floor.store.clone(), mark: floor.mark.max(shared) };
        let space = match self.space(name) {
            Err(StoreError::UnknownSpace(_)) if floor.mark != Mark::default() => {
                return Err(StoreError::gone(name, floor.mark));
            }
            found => found?,
        };
        space.check_floor(&self.query(identity)?, &floor)?;
        Ok(space)
    }

    /// Refuses when this is another store than the caller means.
    pub(super) fn check_identity(&self, space: &str, floor: &Floor) -> Result<(), StoreError> {
        let found = self.query(identity)?;
        if found == floor.store {
            Ok(())
        } else {
            Err(StoreError::other_store(space, floor, &found))
        }
    }

    pub(super) fn lease(&self, ask: &LeaseAsk) -> Result<Grant, StoreError> {
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
        let mut mark = Mark { revision: space.mark.revision + 1, next: space.mark.next };
        let mut returned = self.returned(&ask.space)?;
        let ordinals = if let Some((start, end)) = returned.first_mut() {
            let taken = *start..(*end).min(*start + size);
            *start = taken.end;
            returned.retain(|(start, end)| start < end);
            taken
        } else {
            mark.next = space.capacity.min(space.mark.next + size);
            space.mark.next..mark.next
        };
        assert!(ordinals.start < ordinals.end, "an empty grant: {ordinals:?} of {left} left");
        self.know(&ask.instance)?;
        let (start, end) = (ordinals.start, ordinals.end);
        self.record_lease(&ask.space, mark.revision, start, end, "lease", instance)?;
        self.move_to(&ask.space, mark, &returned)?;
        Ok(Grant { lease: mark.revision, ordinals, mark, left: left - (end - start) })
    }

    /// The ranges that came back, by start.
    pub(super) fn returned(&self, space: &str) -> Result<Vec<Returned>, StoreError> {
        self.query(|connection| {
            connection.prepare_cached(SPACE_RETURNED)?.query_row([space], |row| parse(row, 0))
        })
    }

    pub(super) fn move_to(
        &self,
        space: &str,
        mark: Mark,
        returned: &[Returned],
    ) -> Result<(), StoreError> {
        let (next, revision) = (signed(mark.next), signed(mark.revision));
        self.execute(SPACE_MOVE, params![space, next, revision, json(&returned)]).map(drop)
    }

    pub(super) fn record_lease(
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

    pub(super) fn has_lease(
        &self,
        space: &str,
        lease: LeaseId,
        instance: &str,
    ) -> Result<bool, StoreError> {
        self.query(|connection| {
            let params = params![space, signed(lease), instance];
            connection.query_row(LEASE_EXISTS, params, |row| row.get(0))
        })
    }

    pub(super) fn know(&self, instance: &Instance) -> Result<(), StoreError> {
        let Instance { id, host, pid, version, started_at } = instance;
        let started_at = started_at.as_millisecond();
        self.execute(INSTANCE_KNOW, params![id, host, pid, version, started_at, now()]).map(drop)
    }
}
