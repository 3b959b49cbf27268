//! Sightings in a MySQL transaction: how far instances have seen a space that lies below that now.

use mysql_async::params;

use super::rows::column;
use super::statements::now;
use super::transaction::Tx;
use crate::store::values::{from_json, json};
use crate::store::{Mark, StoreError};

const SIGHTINGS: &str = "SELECT mark FROM sightings WHERE space = :space";
const SIGHTING: &str = "SELECT mark FROM sightings WHERE space = :space AND instance = :instance";
const SIGHTING_PUT: &str = concat!(
    "INSERT INTO sightings (space, instance, mark, seen_at)
    VALUES (:space, :instance, :mark, ",
    now!(),
    ") ON DUPLICATE KEY UPDATE mark = VALUES(mark), seen_at = VALUES(seen_at)"
);
const SIGHTINGS_DROP: &str = "DELETE FROM sightings WHERE space = :space";

impl Tx {
    /// Under the lock of the space, so that an advance sees it or comes before it.
    pub(super) async fn report_sighting(
        &mut self,
        space: &str,
        instance: &str,
        seen: Mark,
    ) -> Result<(), StoreError> {
        let found = self.lock(space).await?;
        self.identity().await?;
        if found.is_none() {
            return Ok(());
        }
        let known = self.query(SIGHTING, params! { space, instance }).await?;
        let seen = match known.first() {
            Some(row) => seen.max(from_json(&column::<String>(row, 0))?),
            None => seen,
        };
        let params = params! { space, instance, "mark" => json(&seen) };
        self.execute(SIGHTING_PUT, params).await.map(drop)
    }

    /// The highest of the sightings, part by part.
    pub(super) async fn sighted(&mut self, space: &str) -> Result<Option<Mark>, StoreError> {
        let mut highest: Option<Mark> = None;
        for row in self.query(SIGHTINGS, params! { space }).await? {
            let mark: Mark = from_json(&column::<String>(&row, 0))?;
            highest = Some(highest.map_or(mark, |highest| highest.max(mark)));
        }
        Ok(highest)
    }

    pub(super) async fn drop_sightings(&mut self, space: &str) -> Result<(), StoreError> {
        self.execute(SIGHTINGS_DROP, params! { space }).await.map(drop)
    }
}
