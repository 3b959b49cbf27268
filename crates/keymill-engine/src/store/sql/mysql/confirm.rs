//! Looking once more, in a MySQL transaction that changes nothing and locks nothing.

use mysql_async::params;

use super::rows::column;
use super::statements::UNPLACED;
use super::transaction::Tx;
use crate::store::values::signed;
use crate::store::{Confirm, Confirmed, Evidence, Found, SpaceRecord, StoreError};

const LEASE_UP_TO: &str = "SELECT 1 FROM leases WHERE space = :space AND lease = :lease
    AND instance = :holder AND end_ordinal >= :end";
const DIGEST: &str =
    "SELECT 1 FROM digests WHERE space = :space AND input = :hash AND `key` = :key";

impl Tx {
    pub(super) async fn confirm(&mut self, what: &Confirm) -> Result<Confirmed, StoreError> {
        let space = self.reached(what).await?;
        let on_record = self.is_on_record(&what.space, &what.evidence).await?;
        let skips = if what.skips_in.is_empty() {
            Vec::new()
        } else {
            self.skips(&what.space, what.skips_in.clone()).await?
        };
        Ok(Confirmed { space, on_record, skips })
    }

    /// Names without an ordinal, where the space has come as far as it should.
    pub(super) async fn unplaced(
        &mut self,
        what: &Confirm,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        self.reached(what).await?;
        let (space, after) = (&what.space, after.unwrap_or_default());
        let rows = self.query(UNPLACED, params! { space, after, limit }).await?;
        Ok(rows.iter().map(|row| column(row, 0)).collect())
    }

    /// The space, where it has come as far as it should.
    async fn reached(&mut self, what: &Confirm) -> Result<SpaceRecord, StoreError> {
        let found = self.look(&what.space).await?;
        // Before anything is concluded: a server that follows another may lag behind it.
        self.identity().await?;
        let space = found.ok_or_else(|| StoreError::gone(&what.space, what.reached))?;
        what.check(&space)?;
        Ok(space)
    }

    /// What is read later in a READ COMMITTED transaction is at least as new as what was read before.
    async fn is_on_record(&mut self, space: &str, evidence: &Evidence) -> Result<bool, StoreError> {
        let rows = match evidence {
            Evidence::Mark => return Ok(true),
            Evidence::Name { name, .. } => {
                let found = self.named(space, name).await?;
                return Ok(evidence.is_name(found.as_ref()));
            }
            Evidence::Used { at, instance } => {
                let found = self.find(at).await?;
                return Ok(matches!(found, Some(Found::Used(used)) if used.instance == *instance));
            }
            Evidence::Lease { lease, holder, end } => {
                let (lease, end) = (signed(*lease), signed(*end));
                self.query(LEASE_UP_TO, params! { space, lease, holder, end }).await?
            }
            Evidence::Digest { hash, key } => {
                let hash = hash.to_vec();
                self.query(DIGEST, params! { space, hash, key }).await?
            }
        };
        Ok(!rows.is_empty())
    }
}
