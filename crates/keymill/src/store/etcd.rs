//! etcd: the store of those who outgrow one machine. Raft keeps every grant on a majority.
//!
//! A change reads the space and what else it needs, decides, and commits in one transaction on
//! condition that none of it has changed meanwhile; where it has, it begins again. etcd's own
//! locks and leases, which end by time, are not used.
//!
//! # Invariants
//!
//! - Every read is linearizable: a member that was cut off from the majority answers nothing.
//! - The cluster's ID is part of the floor: another cluster, such as one that a snapshot was
//!   restored to under another name, is refused.

mod clock;
mod connection;
mod draft;
mod keys;
mod lists;
mod names;
mod turns;
mod windows;

use std::ops::Range;

use async_trait::async_trait;
use etcd_client::{GetOptions, TxnOp};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use connection::Members;
use draft::{Draft, SpaceDoc, StoreDoc};
use keys::Keys;
use turns::Turns;

use super::values::{from_json, json, now, time};
use super::{
    Beat, Created, Finding, GiveBack, Grant, InstancePage, InstanceRecord, LeaseAsk, LeaseId,
    LeasePage, LeaseRecord, NameBatch, NamePurpose, NameRecord, Named, NewName, NewSpace, Opening,
    Place, Pulse, Purpose, SpaceRecord, Store, StoreError, Window, WindowAsk, WindowRelease,
};
use crate::floor::{Floor, Lengths, Mark};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};

/// An etcd cluster as a store.
#[derive(Debug)]
pub struct EtcdStore {
    members: Members,
    keys: Keys,
    created: bool,
}

/// An instance, as it is written.
#[derive(Debug, Serialize, Deserialize)]
struct InstanceDoc {
    instance: Instance,
    address: Option<String>,
    seen_at: Timestamp,
    stopped_at: Option<Timestamp>,
}

/// The secret, as it is written.
#[derive(Serialize, Deserialize)]
struct SecretDoc {
    secret: String,
    created_at: Timestamp,
}

impl EtcdStore {
    /// Connects to the cluster, and gives it keymill's stamp where it has none if `create`.
    pub async fn open(url: &str, opening: Opening) -> Result<EtcdStore, StoreError> {
        let (members, keys) = connection::parse(url)?;
        let mut store = EtcdStore { members, keys, created: false };
        if store.stamp().await?.is_none() {
            if !opening.create {
                let place = store.members.shown();
                return Err(StoreError::Broken(format!("{place} is empty, and is not created")));
            }
            if opening.migrate {
                let doc = json(&StoreDoc::new());
                store.created = store.members.make(store.keys.store(), doc).await?;
            }
        }
        Ok(store)
    }

    async fn stamp(&self) -> Result<Option<StoreDoc>, StoreError> {
        let found = self.members.read(vec![TxnOp::get(self.keys.store(), None)]).await?;
        found.value(0).map(from_json).transpose()
    }

    /// Reads a space and some of its leases, has `decide` draft what to write, and writes it if
    /// nothing has changed meanwhile; else begins again.
    async fn change<T>(
        &self,
        space: &str,
        leases: &[LeaseId],
        names: &[&str],
        mut decide: impl FnMut(&mut Draft<'_>) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        let mut turns = Turns::new();
        loop {
            let mut draft = Draft::read(&self.members, &self.keys, space, leases, names).await?;
            let answer = decide(&mut draft)?;
            if draft.commit(&self.members).await? {
                return Ok(answer);
            }
            turns.another().await?;
        }
    }

    async fn held_elsewhere(&self, space: &str, instance: &str) -> Result<u64, StoreError> {
        let all = GetOptions::new().with_prefix();
        let found =
            self.members.read(vec![TxnOp::get(self.keys.open_all(space), Some(all))]).await?;
        let counts = found.pairs(0).filter_map(|(_, value)| {
            let (holder, count) = value.split_once(' ')?;
            (holder != instance).then(|| count.parse::<u64>().ok()).flatten()
        });
        Ok(counts.sum())
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn identity(&self) -> Result<String, StoreError> {
        Ok(self.stamp().await?.map(|stamp| stamp.identity).unwrap_or_default())
    }

    async fn create(&self, new: &NewSpace, floor: &Floor) -> Result<Created, StoreError> {
        self.change(&new.name, &[], &[], |draft| {
            match draft.space_above(floor) {
                Err(StoreError::UnknownSpace(_)) => {
                    floor.check_new(&new.name, &draft.identity, draft.history)?;
                }
                found => return found.map(Created::Exists),
            }
            let space = SpaceRecord {
                name: new.name.clone(),
                definition: new.definition.clone(),
                tuning: new.tuning.clone(),
                fingerprint: new.fingerprint.clone(),
                capacity: new.capacity,
                mark: Mark {
                    revision: 1,
                    next: new.start,
                    history: draft.history,
                    grown: Lengths::default(),
                },
                base: 0,
                returned: Default::default(),
                sealed: false,
                created_at: time(now()),
            };
            draft.move_to(&space);
            Ok(Created::Made(space))
        })
        .await
    }

    async fn tune(
        &self,
        space: &str,
        tuning: &Tuning,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        self.change(space, &[], &[], |draft| {
            let mut space = draft.space_above(floor)?;
            space.tuning = tuning.clone();
            space.mark.revision += 1;
            draft.move_to(&space);
            Ok(space)
        })
        .await
    }

    async fn grow(
        &self,
        space: &str,
        definition: &Definition,
        capacity: u64,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        self.change(space, &[], &[], |draft| {
            let mut space = draft.space_above(floor)?;
            if space.grow(definition, capacity)? {
                draft.move_to(&space);
            }
            Ok(space)
        })
        .await
    }

    async fn space(&self, space: &str) -> Result<SpaceRecord, StoreError> {
        let found = self.members.read(vec![TxnOp::get(self.keys.space(space), None)]).await?;
        let doc = found.value(0).map(from_json::<SpaceDoc>).transpose()?;
        let record = doc.map(|doc| doc.record(space, found.history));
        record.ok_or_else(|| StoreError::UnknownSpace(space.to_owned()))
    }

    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        Ok(self.spaces_now().await?.1)
    }

    async fn lease(&self, ask: &LeaseAsk) -> Result<Grant, StoreError> {
        let mut leases = ask.spent.clone();
        leases.extend(ask.last_lease);
        let answer = self.change(&ask.space, &leases, &[], |draft| match draft.lease(ask) {
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

    async fn give_back(&self, back: &GiveBack) -> Result<Mark, StoreError> {
        self.change(&back.space, &[back.lease], &[], |draft| {
            let mut space = draft.space_above(&back.floor)?;
            if draft.close(back.lease, &back.instance, Some(&back.rest)) {
                space.take_back(back.rest.clone());
                draft.move_to(&space);
            }
            Ok(space.mark)
        })
        .await
    }

    async fn window(&self, ask: &WindowAsk) -> Result<Window, StoreError> {
        self.window_for(ask).await
    }

    async fn clock_ms(&self, own_ms: i64) -> Result<i64, StoreError> {
        Ok(self.clock(own_ms).await)
    }

    async fn release_window(&self, release: &WindowRelease) -> Result<Mark, StoreError> {
        self.free_worker(release).await
    }

    async fn advance(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        self.change(space, &[], &[], |draft| {
            let mut space = draft.space()?;
            let passed = space.advance(to)?;
            if !passed.is_empty() {
                draft.record_lease(&space, passed, Purpose::Advance, by);
            }
            draft.move_to(&space);
            Ok(space)
        })
        .await
    }

    async fn seal(&self, space: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        self.change(space, &[], &[], |draft| {
            let mut space = draft.space_above(floor)?;
            if !space.sealed {
                space.sealed = true;
                space.mark.revision += 1;
                draft.move_to(&space);
            }
            Ok(space)
        })
        .await
    }

    async fn add_names(&self, batch: &NameBatch) -> Result<Named, StoreError> {
        let keys: Vec<&str> = batch.names.iter().map(|new| new.key.as_str()).collect();
        self.change(&batch.space, &[], &keys, |draft| draft.add_names(batch)).await
    }

    async fn remove_name(
        &self,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<Option<NameRecord>, StoreError> {
        self.change(space, &[], &[key], |draft| draft.remove_name(key, owner, floor)).await
    }

    async fn named(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError> {
        self.find_name(space, name).await
    }

    async fn skips(&self, space: &str, ordinals: Range<u64>) -> Result<Vec<u64>, StoreError> {
        self.skips_in(space, ordinals).await
    }

    async fn unplaced(
        &self,
        space: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        self.unplaced_page(space, after, limit).await
    }

    // A transaction of etcd has at most 128 operations.
    fn names_max(&self, _: NamePurpose) -> usize {
        50
    }

    async fn lease_of(&self, space: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError> {
        self.lease_at(space, ordinal).await
    }

    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError> {
        self.lease_page(page).await
    }

    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        let instance = &pulse.instance;
        let started = instance.started_at.as_millisecond().unsigned_abs();
        let key = self.keys.instance(started, &instance.id);
        let known = self.members.read(vec![TxnOp::get(key.as_str(), None)]).await?;
        let known: Option<InstanceDoc> = known.value(0).map(from_json).transpose()?;
        let seen_at = time(now());
        let doc = InstanceDoc {
            instance: instance.clone(),
            address: pulse.address.clone().or(known.and_then(|known| known.address)),
            seen_at,
            stopped_at: pulse.stopping.then_some(seen_at),
        };
        let age = (self.keys.age(&instance.id), started.to_string());
        self.members.write(vec![(key, json(&doc)), age]).await?;
        let store = self.identity().await?;
        let (_, spaces) = self.spaces_now().await?;
        let mut lost = Vec::new();
        for (space, lease) in pulse.expected(&spaces) {
            let held = self.lease_docs(space, &[lease]).await?;
            if held.first().is_none_or(|held| held.holder.id != instance.id) {
                lost.push(space.to_owned());
            }
        }
        Ok(Beat { store, spaces, lost })
    }

    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError> {
        self.instance_page(page).await
    }

    async fn secret(&self, candidate: Option<&str>) -> Result<Option<String>, StoreError> {
        if let Some(candidate) = candidate {
            let (secret, created_at) = (candidate.to_owned(), time(now()));
            self.members.make(self.keys.secret(), json(&SecretDoc { secret, created_at })).await?;
        }
        let found = self.members.read(vec![TxnOp::get(self.keys.secret(), None)]).await?;
        Ok(found.value(0).map(from_json::<SecretDoc>).transpose()?.map(|doc| doc.secret))
    }

    async fn forget_secret(&self) -> Result<(), StoreError> {
        self.members.remove(self.keys.secret()).await
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        self.members.findings(&self.keys).await
    }

    fn place(&self) -> Place {
        Place { kind: "etcd", location: self.members.shown(), created: self.created }
    }
}

/// The one place where etcd's errors become the store's. Whether a change was made is in doubt
/// whenever its answer is missing, because a member may pass it on before it fails.
fn fold_error(place: &str, error: &etcd_client::Error) -> StoreError {
    use std::error::Error as _;

    use etcd_client::Error;
    let mut shown = match error {
        Error::GRpcStatus(status) => status.message().to_owned(),
        error => error.to_string(),
    };
    let mut cause = match error {
        Error::GRpcStatus(status) => status.source(),
        error => error.source(),
    };
    while let Some(error) = cause {
        let text = error.to_string();
        if !shown.contains(&text) {
            shown = format!("{shown}: {text}");
        }
        cause = error.source();
    }
    let denied = ["authentication failed", "permission denied", "user name is empty"];
    if denied.iter().any(|reason| shown.contains(reason)) {
        return StoreError::Broken(format!("{place}: {shown}"));
    }
    StoreError::InDoubt(format!("{place}: {shown}"))
}
