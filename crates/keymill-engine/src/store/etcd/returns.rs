//! Leases that are given back, many to a transaction.
//!
//! An instance that stops may hold a lease of each of thousands of spaces. They are closed in groups,
//! each in one transaction of etcd, which may have 128 operations: a lease costs four of them.

use std::collections::BTreeMap;

use super::EtcdStore;
use super::change::{Draft, Wanted};
use super::retry::Turns;
use crate::store::{Floor, GiveBack, LeaseId, Mark, StoreError};

/// How many leases are closed together.
const GROUP_MAX: usize = 30;

impl EtcdStore {
    /// Closes leases, group by group. Once a group is closed its answers stay, so an error after that
    /// is the answer to the leases that it concerns and to those after them.
    pub(super) async fn take_back(
        &self,
        backs: &[(GiveBack, Floor)],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        let mut answers = Vec::with_capacity(backs.len());
        let (mut size, mut turns) = (GROUP_MAX, Turns::new());
        while answers.len() < backs.len() {
            let rest = &backs[answers.len()..];
            let group = &rest[..size.min(rest.len())];
            let closed = match self.take_back_group(group).await {
                // Others have changed one of these spaces meanwhile. The fewer, the less likely.
                Ok(None) => {
                    size = (group.len() / 2).max(1);
                    turns.another().await.map(|()| Vec::new())
                }
                Ok(Some(closed)) => {
                    (size, turns) = (GROUP_MAX, Turns::new());
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
        let mut drafts = Draft::read_all(&self.members, &self.keys, &wanted).await?;
        let mut answers = BTreeMap::new();
        for (draft, numbers) in drafts.iter_mut().zip(spaces.values()) {
            for number in numbers {
                answers.insert(*number, draft.give_back(&group[*number]));
            }
        }
        let committed = Draft::commit_all(drafts, &self.members).await?;
        Ok(committed.then(|| answers.into_values().collect()))
    }
}
