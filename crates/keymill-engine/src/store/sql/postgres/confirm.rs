//! Looking once more at what a change has left on record, and what else is read with the mark of its
//! space: in one transaction, whose statements all see one state of the store.

use std::ops::Range;

use super::digests::DIGESTS;
use super::statements::{LEASE_REACHES, SKIPS, UNPLACED};
use super::transaction::Tx;
use crate::store::values::{signed, unsigned};
use crate::store::{Confirm, Confirmed, Evidence, Found, Mark, SpaceRecord, StoreError};

impl Tx {
    pub(super) async fn confirm(&self, what: &Confirm) -> Result<Confirmed, StoreError> {
        // Sent one behind the other, without waiting for each; the space goes first.
        let (space, on_record, skips) = tokio::join!(
            self.reached(what),
            self.is_on_record(what),
            self.skips(&what.space, what.skips_in.clone())
        );
        Ok(Confirmed { space: space?, on_record: on_record?, skips: skips? })
    }

    /// Names without an ordinal, of a space that has come as far as `reached`.
    pub(super) async fn unplaced(
        &self,
        space: &str,
        reached: Mark,
        after: &str,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let (evidence, skips_in) = (Evidence::Mark, 0..0);
        self.reached(&Confirm { space: space.to_owned(), reached, evidence, skips_in }).await?;
        let rows = self.query(UNPLACED, &[&space, &after, &i64::from(limit)]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// The ordinals that names occupy, of those between two.
    pub(super) async fn skips(
        &self,
        space: &str,
        ordinals: Range<u64>,
    ) -> Result<Vec<u64>, StoreError> {
        if ordinals.is_empty() {
            return Ok(Vec::new());
        }
        let (start, end) = (signed(ordinals.start), signed(ordinals.end));
        let rows = self.query(SKIPS, &[&space, &start, &end]).await?;
        Ok(rows.iter().map(|row| unsigned(row.get(0))).collect())
    }

    /// The space, unless it has not come as far as it must.
    async fn reached(&self, what: &Confirm) -> Result<SpaceRecord, StoreError> {
        let found = self.look(&what.space).await?;
        let space = found.ok_or_else(|| StoreError::gone(&what.space, what.reached))?;
        what.check(&space)?;
        Ok(space)
    }

    async fn is_on_record(&self, what: &Confirm) -> Result<bool, StoreError> {
        let (space, evidence) = (&what.space, &what.evidence);
        match evidence {
            Evidence::Mark => Ok(true),
            Evidence::Lease { lease, holder, end } => {
                let (lease, end) = (signed(*lease), signed(*end));
                let rows = self.query(LEASE_REACHES, &[space, &lease, holder, &end]).await?;
                Ok(rows[0].get(0))
            }
            Evidence::Name { name, .. } => {
                let found = self.named(space, name).await?;
                Ok(evidence.is_name(found.as_ref()))
            }
            Evidence::Used { at, instance } => {
                let found = self.find(at).await?;
                Ok(matches!(found, Some(Found::Used(used)) if used.instance == *instance))
            }
            Evidence::Digest { hash, key } => {
                let rows = self.query(DIGESTS, &[space, &vec![&hash[..]]]).await?;
                Ok(rows.first().is_some_and(|row| row.get::<_, &str>(1) == key))
            }
        }
    }
}
