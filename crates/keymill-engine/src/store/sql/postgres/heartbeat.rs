//! Heartbeats in a PostgreSQL transaction: a few statements, however many spaces there are. Sightings
//! too, which follow from what a heartbeat has shown.

use super::rows::space_from;
use super::statements::{
    INSTANCE_SEEN, LEASES_LOST, MARKS, SIGHTING, SIGHTING_PUT, SIGHTINGS, SPACE_LOCK, SPACES_OF,
};
use super::transaction::Tx;
use crate::store::values::{from_json, json, signed, unsigned};
use crate::store::{Beat, LeaseId, Lengths, Mark, Pulse, SpaceRecord, StoreError};

impl Tx {
    pub(super) async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        let id = &pulse.instance.id;
        self.know(&pulse.instance).await?;
        self.execute(INSTANCE_SEEN, &[id, &pulse.address, &pulse.stopping]).await?;
        let marks = self.marks().await?;
        let changed = self.spaces_of(&pulse.outdated(&marks)).await?;
        let lost = self.lost(pulse.expected(&marks), id).await?;
        Ok(Beat { store: self.identity().to_owned(), marks, changed, lost })
    }

    pub(super) async fn report_sighting(
        &self,
        space: &str,
        instance: &str,
        seen: Mark,
    ) -> Result<(), StoreError> {
        // Locked, so that none of two at once is lost.
        if self.query(SPACE_LOCK, &[&space]).await?.is_empty() {
            return Ok(());
        }
        let rows = self.query(SIGHTING, &[&space, &instance]).await?;
        let known = rows.first().map(|row| from_json::<Mark>(row.get(0))).transpose()?;
        let seen = known.map_or(seen, |known| known.max(seen));
        self.execute(SIGHTING_PUT, &[&space, &instance, &json(&seen)]).await.map(drop)
    }

    /// The highest of the sightings of a space.
    pub(super) async fn sighted(&self, space: &str) -> Result<Option<Mark>, StoreError> {
        let rows = self.query(SIGHTINGS, &[&space]).await?;
        let mut highest: Option<Mark> = None;
        for row in &rows {
            let seen: Mark = from_json(row.get(0))?;
            highest = Some(highest.map_or(seen, |highest| highest.max(seen)));
        }
        Ok(highest)
    }

    /// How far all spaces have come, by name; but for what they have grown to.
    async fn marks(&self) -> Result<Vec<(String, Mark)>, StoreError> {
        let rows = self.query(MARKS, &[]).await?;
        let mark = |row: &tokio_postgres::Row| Mark {
            next: unsigned(row.get(1)),
            revision: unsigned(row.get(2)),
            history: self.history(),
            grown: Lengths::NONE,
        };
        Ok(rows.iter().map(|row| (row.get(0), mark(row))).collect())
    }

    async fn spaces_of(&self, names: &[&str]) -> Result<Vec<SpaceRecord>, StoreError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.query(SPACES_OF, &[&names]).await?;
        rows.iter().map(|row| space_from(row, self.history())).collect()
    }

    /// The spaces of which such a lease is not on record.
    async fn lost(
        &self,
        leases: Vec<(&str, LeaseId)>,
        instance: &str,
    ) -> Result<Vec<String>, StoreError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let (spaces, leases): (Vec<&str>, Vec<i64>) =
            leases.into_iter().map(|(space, lease)| (space, signed(lease))).unzip();
        let rows = self.query(LEASES_LOST, &[&spaces, &leases, &instance]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}
