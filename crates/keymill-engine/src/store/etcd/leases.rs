//! Leases in etcd: granted one by one, given back many to a transaction, and listed.
//!
//! An instance that stops may hold a lease of each of thousands of spaces. They are closed in groups,
//! each in one transaction of etcd, which may have 128 operations: a lease costs four of them.

use std::collections::BTreeMap;

use async_trait::async_trait;
use etcd_client::{GetOptions, SortOrder, SortTarget, TxnOp};

use super::EtcdStore;
use super::change::{Draft, Wanted};
use super::connection::GETS_MAX;
use super::docs::LeaseDoc;
use super::retry::Retries;
use crate::store::values::from_json;
use crate::store::{
    Floor, GiveBack, Grant, LeaseAsk, LeaseId, LeasePage, LeaseRecord, Leases, Mark, Purpose,
    StoreError,
};

/// How many leases are closed together.
const GROUP_MAX: usize = 30;

#[async_trait]
impl Leases for EtcdStore {
    async fn lease(&self, ask: &LeaseAsk, floor: &Floor) -> Result<Grant, StoreError> {
        let mut leases = ask.spent.clone();
        leases.extend(ask.last_lease);
        let answer = self.change(&ask.space, &leases, &[], |draft| match draft.lease(ask, floor) {
            // These answers commit too: they may have closed the leases that were spent.
            Err(end @ (StoreError::Exhausted { .. } | StoreError::Sealed(_))) => Ok(Err(end)),
            answer => answer.map(Ok),
        });
        match answer.await? {
            Err(StoreError::Exhausted { space, .. }) => {
                let held_elsewhere = self.held_elsewhere(&space, &ask.instance.id).await?;
                Err(StoreError::Exhausted { space, held_elsewhere })
            }
            answer => answer,
        }
    }

    /// Closes leases, group by group. Once a group is closed its answers stay, so an error after that
    /// is the answer to the leases that it concerns and to those after them.
    async fn give_back(
        &self,
        backs: &[(GiveBack, Floor)],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        let mut answers = Vec::with_capacity(backs.len());
        let (mut size, mut retries) = (GROUP_MAX, Retries::new());
        while answers.len() < backs.len() {
            let rest = &backs[answers.len()..];
            let group = &rest[..size.min(rest.len())];
            let closed = match self.take_back_group(group).await {
                // Others have changed one of these spaces meanwhile. The fewer, the less likely.
                Ok(None) => {
                    size = (group.len() / 2).max(1);
                    retries.another().await.map(|()| Vec::new())
                }
                Ok(Some(closed)) => {
                    (size, retries) = (GROUP_MAX, Retries::new());
                    Ok(closed)
                }
                Err(error) => Err(error),
            };
            match closed {
                Ok(closed) => answers.extend(closed),
                Err(error) if answers.is_empty() => return Err(error),
                Err(error) => answers.resize_with(backs.len(), || Err(error.clone())),
            }
        }
        Ok(answers)
    }

    async fn lease_of(&self, space: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError> {
        let mut below = self.paths.start(space, ordinal + 1, 0);
        loop {
            let options = GetOptions::new()
                .with_range(below.as_str())
                .with_sort(SortTarget::Key, SortOrder::Descend)
                .with_limit(GETS_MAX as i64);
            let get = TxnOp::get(self.paths.starts(space), Some(options));
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
                Some(last) if starts.len() == GETS_MAX => below.clone_from(last),
                _ => return Ok(None),
            }
        }
    }

    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError> {
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
                .with_range(self.paths.lease(name, u64::MAX))
                .with_sort(SortTarget::Key, SortOrder::Ascend)
                .with_limit(i64::try_from(limit - leases.len()).unwrap_or(i64::MAX));
            let get = TxnOp::get(self.paths.lease(name, from), Some(options));
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
}

impl EtcdStore {
    /// How many ordinals are in open leases of other instances.
    async fn held_elsewhere(&self, space: &str, instance: &str) -> Result<u64, StoreError> {
        let all = GetOptions::new().with_prefix();
        let found =
            self.members.read(vec![TxnOp::get(self.paths.open_all(space), Some(all))]).await?;
        let counts = found.pairs(0).filter_map(|(_, value)| {
            let (holder, count) = value.split_once(' ')?;
            (holder != instance).then(|| count.parse::<u64>().ok()).flatten()
        });
        Ok(counts.sum())
    }

    /// Closes leases in one transaction; `None` where others were faster.
    async fn take_back_group(
        &self,
        group: &[(GiveBack, Floor)],
    ) -> Result<Option<Vec<Result<Mark, StoreError>>>, StoreError> {
        let mut spaces: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, (back, _)) in group.iter().enumerate() {
            spaces.entry(&back.space).or_default().push(number);
        }
        let leases_of = |numbers: &Vec<usize>| -> Vec<LeaseId> {
            numbers.iter().map(|number| group[*number].0.lease).collect()
        };
        let leases: Vec<Vec<LeaseId>> = spaces.values().map(leases_of).collect();
        let wanted: Vec<Wanted<'_>> = spaces
            .keys()
            .zip(&leases)
            .map(|(space, leases)| Wanted { space, leases, names: &[] })
            .collect();
        let mut drafts = Draft::read_all(&self.members, &self.paths, &wanted).await?;
        let mut answers = BTreeMap::new();
        for (draft, numbers) in drafts.iter_mut().zip(spaces.values()) {
            for number in numbers {
                answers.insert(*number, draft.give_back(&group[*number]));
            }
        }
        let committed = Draft::commit_all(drafts, &self.members).await?;
        Ok(committed.then(|| answers.into_values().collect()))
    }

    async fn lease_docs(
        &self,
        space: &str,
        leases: &[LeaseId],
    ) -> Result<Vec<LeaseRecord>, StoreError> {
        let mut records = Vec::new();
        for batch in leases.chunks(GETS_MAX) {
            let gets = batch.iter().map(|lease| TxnOp::get(self.paths.lease(space, *lease), None));
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
