//! Looking once more at what a change has left on record, in one state of a SQLite file. Called by
//! the store on the connection that reads. Nothing here changes anything, or keeps a writer waiting.

use rusqlite::{Connection, params};

use super::key_rows::{digest_of, found_at};
use super::rows::{name_of, skips_in, space_named};
use super::statements::{LEASE_REACHES, UNPLACED};
use super::transaction::Tx;
use crate::store::values::signed;
use crate::store::{Confirm, Confirmed, Evidence, Found, SpaceRecord, StoreError};

impl Tx<'_> {
    pub(super) fn confirm(&self, what: &Confirm) -> Result<Confirmed, StoreError> {
        let space = self.space_reached(what)?;
        let on_record = self.query(|connection| is_on_record(connection, what))?;
        let skips = self.query(|connection| skips_in(connection, &what.space, &what.skips_in))?;
        Ok(Confirmed { space, on_record, skips })
    }

    pub(super) fn unplaced(
        &self,
        what: &Confirm,
        after: &str,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        self.space_reached(what)?;
        self.query(|connection| {
            connection
                .prepare_cached(UNPLACED)?
                .query_map(params![what.space, after, limit], |row| row.get(0))?
                .collect()
        })
    }

    /// The space, which is read first: everything after it is of the same state.
    fn space_reached(&self, what: &Confirm) -> Result<SpaceRecord, StoreError> {
        let found = self.query(|connection| space_named(connection, &what.space))?;
        let space = found.ok_or_else(|| StoreError::gone(&what.space, what.reached))?;
        what.check(&space)?;
        Ok(space)
    }
}

fn is_on_record(connection: &Connection, what: &Confirm) -> rusqlite::Result<bool> {
    let space = &what.space;
    match &what.evidence {
        Evidence::Mark => Ok(true),
        Evidence::Lease { lease, holder, end } => {
            let lease = params![space, signed(*lease), holder, signed(*end)];
            connection.prepare_cached(LEASE_REACHES)?.query_row(lease, |row| row.get(0))
        }
        Evidence::Name { name, .. } => {
            let found = name_of(connection, space, name)?;
            Ok(what.evidence.is_name(found.as_ref()))
        }
        Evidence::Used { at, instance } => {
            let found = found_at(connection, at)?;
            Ok(matches!(found, Some(Found::Used(used)) if used.instance == *instance))
        }
        Evidence::Digest { hash, key } => {
            let found = digest_of(connection, space, hash)?;
            Ok(found.is_some_and(|found| found == *key))
        }
    }
}
