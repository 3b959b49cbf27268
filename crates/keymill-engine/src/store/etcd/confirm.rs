//! Looking once more at a change, in one state of etcd.
//!
//! The space and the evidence are read in one transaction, which is linearizable; what follows is
//! read at the very revision of etcd that this transaction saw. So nothing can have changed between
//! the mark that is compared and the skips that decide which keys leave.

use async_trait::async_trait;
use etcd_client::TxnOp;

use super::EtcdStore;
use super::connection::Answers;
use super::docs::{LeaseDoc, SpaceDoc};
use super::names::{keys_of, name_at};
use crate::store::values::from_json;
use crate::store::{Confirm, Confirmed, Evidence, Mark, Snapshots, SpaceRecord, StoreError};

#[async_trait]
impl Snapshots for EtcdStore {
    async fn confirm(&self, what: &Confirm) -> Result<Confirmed, StoreError> {
        let answer = self.look(what).await;
        if self.asks_again(&answer) {
            return self.look(what).await;
        }
        answer
    }

    async fn names_without_ordinal(
        &self,
        space: &str,
        reached: Mark,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let space = space.to_owned();
        let what = &Confirm { space, reached, evidence: Evidence::Mark, skips_in: 0..0 };
        let answer = self.look_for_names(what, after, limit).await;
        if self.asks_again(&answer) {
            return self.look_for_names(what, after, limit).await;
        }
        answer
    }
}

impl EtcdStore {
    /// Whether to ask once more, because a store that was rolled back answered. All connections are made
    /// anew then: an address may lead to another cluster than it did when they were made, and only
    /// what is there now counts.
    pub(super) fn asks_again<T>(&self, answer: &Result<T, StoreError>) -> bool {
        let rolled_back = matches!(answer, Err(StoreError::RolledBack(_)));
        if rolled_back {
            self.members.disconnect();
        }
        rolled_back
    }

    async fn look(&self, what: &Confirm) -> Result<Confirmed, StoreError> {
        let Confirm { space, evidence, skips_in, .. } = what;
        let mut gets = vec![TxnOp::get(self.paths.space(space), None)];
        match evidence {
            Evidence::Mark => {}
            Evidence::Lease { lease, .. } => {
                gets.push(TxnOp::get(self.paths.lease(space, *lease), None));
            }
            Evidence::Name { name, .. } => {
                let keys = keys_of(&self.paths, space, name);
                gets.extend(keys.map(|key| TxnOp::get(key, None)));
            }
            // Nothing in etcd changes these.
            Evidence::Used { .. } | Evidence::Digest { .. } => {
                return Err(StoreError::no_keys(space));
            }
        }
        let found = self.members.read(gets).await?;
        let record = space_in(&found, what)?;
        let on_record = match evidence {
            Evidence::Lease { holder, end, .. } => {
                let doc = found.value(1).map(from_json::<LeaseDoc>).transpose()?;
                doc.is_some_and(|doc| doc.holder.id == *holder && doc.end >= *end)
            }
            Evidence::Name { name, .. } => {
                evidence.is_name(name_at(&found, 1, space, name)?.as_ref())
            }
            _ => true,
        };
        let skips = self.skips_in(space, skips_in, found.at).await?;
        Ok(Confirmed { space: record, on_record, skips })
    }

    async fn look_for_names(
        &self,
        what: &Confirm,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        let Confirm { space, .. } = what;
        let gets = vec![
            TxnOp::get(self.paths.space(space), None),
            self.get_names_without_ordinal(space, after, limit),
        ];
        let found = self.members.read(gets).await?;
        space_in(&found, what)?;
        let all = self.paths.without_ordinal(space, "");
        let names = found.pairs(1).filter_map(|(key, _)| key.strip_prefix(all.as_str()));
        Ok(names.map(str::to_owned).collect())
    }
}

/// The space, which was read first, unless it lies below what was asked for.
fn space_in(found: &Answers, what: &Confirm) -> Result<SpaceRecord, StoreError> {
    let doc = found.value(0).map(from_json::<SpaceDoc>).transpose()?;
    let record = doc.map(|doc| doc.record(&what.space, found.at.history));
    let record = record.ok_or_else(|| StoreError::gone(&what.space))?;
    what.check(&record)?;
    Ok(record)
}
