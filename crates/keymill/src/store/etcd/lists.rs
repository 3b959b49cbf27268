//! What is listed of an etcd store: its spaces, leases and instances.

use etcd_client::{GetOptions, SortOrder, SortTarget, TxnOp};

use super::draft::{LeaseDoc, SpaceDoc};
use super::{EtcdStore, InstanceDoc};
use crate::floor::History;
use crate::store::values::from_json;
use crate::store::{
    InstancePage, InstanceRecord, LeaseId, LeasePage, LeaseRecord, Purpose, SpaceRecord, StoreError,
};

/// How many keys one request asks for.
const BATCH: usize = 64;

impl EtcdStore {
    pub(super) async fn spaces_now(&self) -> Result<(History, Vec<SpaceRecord>), StoreError> {
        let all = GetOptions::new().with_prefix();
        let found = self.members.read(vec![TxnOp::get(self.keys.spaces(), Some(all))]).await?;
        let history = found.history;
        let record = |(key, value): (&str, &str)| {
            let name = key.rsplit('/').next().unwrap_or_default();
            Ok(from_json::<SpaceDoc>(value)?.record(name, history))
        };
        let spaces: Result<Vec<_>, StoreError> = found.pairs(0).map(record).collect();
        Ok((history, spaces?))
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
            None => self.spaces_now().await?.1.into_iter().map(|space| space.name).collect(),
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

    pub(super) async fn lease_docs(
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

    pub(super) async fn instance_page(
        &self,
        page: &InstancePage,
    ) -> Result<Vec<InstanceRecord>, StoreError> {
        let mut from = self.keys.instances();
        if let Some(id) = &page.after {
            let age = self.members.read(vec![TxnOp::get(self.keys.age(id), None)]).await?;
            let Some(started) = age.value(0).and_then(|age| age.parse().ok()) else {
                return Ok(Vec::new());
            };
            // The first key beyond that one.
            from = format!("{}\0", self.keys.instance(started, id));
        }
        let options = GetOptions::new()
            .with_range(self.keys.instance(u64::MAX, ""))
            .with_sort(SortTarget::Key, SortOrder::Ascend)
            .with_limit(i64::from(page.limit));
        let found = self.members.read(vec![TxnOp::get(from, Some(options))]).await?;
        let record = |(_, value): (&str, &str)| {
            let doc: InstanceDoc = from_json(value)?;
            let InstanceDoc { instance, address, seen_at, stopped_at } = doc;
            Ok(InstanceRecord { instance, address, seen_at, stopped_at })
        };
        found.pairs(0).map(record).collect()
    }
}
