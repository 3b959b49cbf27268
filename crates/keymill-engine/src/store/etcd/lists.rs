//! What is listed of an etcd store: its spaces and leases.

use etcd_client::{GetOptions, SortOrder, SortTarget, TxnOp};

use super::EtcdStore;
use super::docs::{LeaseDoc, SpaceDoc};
use super::key_paths::{beyond, end_of};
use crate::store::values::from_json;
use crate::store::{LeaseId, LeasePage, LeaseRecord, Purpose, SpaceRecord, StoreError};

/// How many keys one request names; a transaction of etcd has at most 128 operations.
pub(super) const BATCH: usize = 100;
/// How many spaces one request asks for.
const SPACES_MAX: usize = 1_000;

impl EtcdStore {
    /// All spaces, by name.
    pub(super) async fn all_spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        let all = self.keys.spaces();
        let mut from = all.clone();
        let mut spaces = Vec::new();
        loop {
            let options = GetOptions::new().with_range(end_of(&all)).with_limit(SPACES_MAX as i64);
            let found = self.members.read(vec![TxnOp::get(from, Some(options))]).await?;
            for (key, value) in found.pairs(0) {
                let name = key.strip_prefix(all.as_str()).unwrap_or(key);
                spaces.push(from_json::<SpaceDoc>(value)?.record(name, found.at.history));
            }
            match found.last_key(0) {
                Some(last) if found.count(0) == SPACES_MAX => from = beyond(last),
                _ => return Ok(spaces),
            }
        }
    }

    /// The spaces of these names, as far as there are any.
    pub(super) async fn space_records(
        &self,
        names: &[&str],
    ) -> Result<Vec<SpaceRecord>, StoreError> {
        let mut records = Vec::with_capacity(names.len());
        for batch in names.chunks(BATCH) {
            let gets = batch.iter().map(|name| TxnOp::get(self.keys.space(name), None));
            let found = self.members.read(gets.collect()).await?;
            for (number, name) in batch.iter().enumerate() {
                if let Some(value) = found.value(number) {
                    records.push(from_json::<SpaceDoc>(value)?.record(name, found.at.history));
                }
            }
        }
        Ok(records)
    }

    /// The names of all spaces.
    async fn space_names(&self) -> Result<Vec<String>, StoreError> {
        let all = self.keys.spaces();
        let options = GetOptions::new().with_prefix().with_keys_only();
        let found = self.members.read(vec![TxnOp::get(all.as_str(), Some(options))]).await?;
        let names = found.pairs(0).filter_map(|(key, _)| key.strip_prefix(all.as_str()));
        Ok(names.map(str::to_owned).collect())
    }

    pub(super) async fn lease_at(
        &self,
        space: &str,
        ordinal: u64,
    ) -> Result<Option<LeaseRecord>, StoreError> {
        let mut below = self.keys.start(space, ordinal + 1, 0);
        loop {
            let options = GetOptions::new()
                .with_range(below.as_str())
                .with_sort(SortTarget::Key, SortOrder::Descend)
                .with_limit(BATCH as i64);
            let get = TxnOp::get(self.keys.starts(space), Some(options));
            let found = self.members.read(vec![get]).await?;
            let starts: Vec<String> = found.pairs(0).map(|(key, _)| key.to_owned()).collect();
            let numbers = starts.iter().filter_map(|key| key.rsplit('/').next()?.parse().ok());
            let numbers: Vec<LeaseId> = numbers.collect();
            for lease in self.lease_docs(space, &numbers).await? {
                if lease.closed_at_ordinal.unwrap_or(lease.ordinals.end) > ordinal {
                    return Ok(Some(lease));
                }
                // Windows do not overlap: where the last one that starts before it has ended, all
                // have.
                if lease.purpose == Purpose::Window {
                    return Ok(None);
                }
            }
            match starts.last() {
                Some(last) if starts.len() == BATCH => below.clone_from(last),
                _ => return Ok(None),
            }
        }
    }

    pub(super) async fn lease_page(
        &self,
        page: &LeasePage,
    ) -> Result<Vec<LeaseRecord>, StoreError> {
        let names = match &page.space {
            Some(space) => vec![space.clone()],
            None => self.space_names().await?,
        };
        let after = page.after.clone().unwrap_or_default();
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let mut leases = Vec::new();
        for name in names.iter().filter(|name| **name >= after.0) {
            let from = if *name == after.0 { after.1 + 1 } else { 0 };
            let options = GetOptions::new()
                .with_range(self.keys.lease(name, u64::MAX))
                .with_sort(SortTarget::Key, SortOrder::Ascend)
                .with_limit(i64::try_from(limit - leases.len()).unwrap_or(i64::MAX));
            let get = TxnOp::get(self.keys.lease(name, from), Some(options));
            let found = self.members.read(vec![get]).await?;
            for (key, value) in found.pairs(0) {
                let number = key.rsplit('/').next().and_then(|number| number.parse().ok());
                leases.push(from_json::<LeaseDoc>(value)?.record(name, number.unwrap_or(0)));
            }
            if leases.len() >= limit {
                break;
            }
        }
        Ok(leases)
    }

    async fn lease_docs(
        &self,
        space: &str,
        leases: &[LeaseId],
    ) -> Result<Vec<LeaseRecord>, StoreError> {
        let mut records = Vec::new();
        for batch in leases.chunks(BATCH) {
            let gets = batch.iter().map(|lease| TxnOp::get(self.keys.lease(space, *lease), None));
            let found = self.members.read(gets.collect()).await?;
            for (number, lease) in batch.iter().enumerate() {
                if let Some(value) = found.value(number) {
                    records.push(from_json::<LeaseDoc>(value)?.record(space, *lease));
                }
            }
        }
        Ok(records)
    }
}
