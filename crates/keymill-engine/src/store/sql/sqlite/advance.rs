//! An advance in a SQLite transaction, and the sightings that it goes beyond.

use rusqlite::{OptionalExtension, params};

use super::rows::parse;
use super::statements::{SIGHTING, SIGHTING_PUT, SIGHTINGS, SIGHTINGS_DROP};
use super::transaction::Tx;
use crate::instance::Instance;
use crate::store::values::{json, now};
use crate::store::{Mark, Purpose, SpaceRecord, StoreError};

impl Tx<'_> {
    pub(super) fn advance(
        &self,
        name: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        let mut space = self.space(name)?;
        let to = self.sighted(name)?.map_or(to, |seen| to.max(seen));
        let passed = space.advance(to)?;
        self.know(by)?;
        if !passed.is_empty() {
            self.record_lease(&space, passed, Purpose::Advance, &by.id)?;
        }
        self.define(&space)?;
        self.move_to(&space)?;
        self.drop_pool(name)?;
        self.execute(SIGHTINGS_DROP, [name])?;
        Ok(space)
    }

    pub(super) fn report_sighting(
        &self,
        space: &str,
        instance: &str,
        seen: Mark,
    ) -> Result<(), StoreError> {
        let known: Option<Mark> = self.query(|connection| {
            let mut sighting = connection.prepare_cached(SIGHTING)?;
            sighting.query_row([space, instance], |row| parse(row, 0)).optional()
        })?;
        let mark = known.map_or(seen, |known| known.max(seen));
        self.execute(SIGHTING_PUT, params![space, instance, json(&mark), now()]).map(drop)
    }

    /// The highest of the sightings of a space, part by part.
    pub(super) fn sighted(&self, space: &str) -> Result<Option<Mark>, StoreError> {
        let marks: Vec<Mark> = self.query(|connection| {
            let mut sightings = connection.prepare_cached(SIGHTINGS)?;
            sightings.query_map([space], |row| parse(row, 0))?.collect()
        })?;
        Ok(marks.into_iter().reduce(Mark::max))
    }
}
