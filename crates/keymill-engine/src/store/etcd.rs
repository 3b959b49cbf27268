//! etcd: the store of those who outgrow one machine. Raft keeps every grant on a majority.
//!
//! A change reads the space and what else it needs, decides, and commits in one transaction on
//! condition that none of it has changed meanwhile; where it has, it begins again. etcd's own
//! locks are not used, nor its leases, which end by time: only an instance's sign of life hangs on one.
//!
//! # Invariants
//!
//! - Every read is linearizable: a member that was cut off from the majority answers nothing.
//! - The cluster's ID is part of the floor: another cluster, such as one that a snapshot was
//!   restored to under another name, is refused.

mod beat;
mod change;
mod clock;
mod confirm;
mod connection;
mod docs;
mod http;
mod instances;
mod key_paths;
mod lists;
mod moving;
mod names;
mod retry;
mod returns;
mod safety;
mod sightings;
mod tokens;
mod windows;

use std::collections::HashMap;
use std::sync::Mutex;

use async_trait::async_trait;
use etcd_client::{GetOptions, TxnOp};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use change::{Draft, Wanted};
use connection::Members;
use docs::{SpaceDoc, StoreDoc};
use instances::Sign;
use key_paths::Keys;
use retry::Turns;

use super::values::{from_json, json, now, time};
use super::{
    Act, ActPage, Admin, Beat, Confirm, Confirmed, Created, Finding, Floor, GiveBack, Grant,
    InstancePage, InstanceRecord, Instances, LeaseAsk, LeaseId, LeasePage, LeaseRecord, Leases,
    Lengths, Mark, MovedRow, MovedSpace, Moves, NameBatch, NamePage, NamePurpose, NameRecord,
    Named, Names, NewName, NewSpace, Opening, Place, Pulse, Rows, RowsPage, Snapshots, SpaceRecord,
    Spaces, StoreError, TokenChange, TokenList, Tokens, Window, WindowAsk, WindowRelease, Windows,
};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};

/// An etcd cluster as a store.
#[derive(Debug)]
pub(crate) struct EtcdStore {
    members: Members,
    keys: Keys,
    created: bool,
    /// The signs of life that this process keeps up, by instance.
    signs: Mutex<HashMap<String, Sign>>,
}

/// The secret, as it is written.
#[derive(Serialize, Deserialize)]
struct SecretDoc {
    secret: String,
    created_at: Timestamp,
}

impl EtcdStore {
    /// Connects to the cluster, and gives it keymill's stamp where it has none if `create`.
    pub(crate) async fn open(url: &str, opening: Opening) -> Result<EtcdStore, StoreError> {
        let (members, keys) = connection::parse(url)?;
        let mut store = EtcdStore { members, keys, created: false, signs: Mutex::default() };
        if store.stamp().await?.is_none() {
            if !opening.create {
                return Err(StoreError::empty(&store.members.shown(), opening));
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
        names: &[NewName],
        mut decide: impl FnMut(&mut Draft<'_>) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        let mut turns = Turns::new();
        loop {
            let wanted = Wanted { space, leases, names };
            let mut draft = Draft::read(&self.members, &self.keys, wanted).await?;
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
impl Spaces for EtcdStore {
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
            space.tuning = space.tuned(tuning);
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
        let record = doc.map(|doc| doc.record(space, found.at.history));
        record.ok_or_else(|| StoreError::UnknownSpace(space.to_owned()))
    }

    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError> {
        self.all_spaces().await
    }

    async fn advance(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError> {
        self.advance_beyond(space, to, by).await
    }

    async fn report_sighting(
        &self,
        space: &str,
        instance: &str,
        seen: Mark,
    ) -> Result<(), StoreError> {
        self.put_sighting(space, instance, seen).await
    }

    async fn sighted(&self, space: &str) -> Result<Option<Mark>, StoreError> {
        Ok(self.highest_sighting(space).await?.0)
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
}

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

    async fn give_back(
        &self,
        backs: &[(GiveBack, Floor)],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError> {
        self.take_back(backs).await
    }

    async fn lease_of(&self, space: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError> {
        self.lease_at(space, ordinal).await
    }

    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError> {
        self.lease_page(page).await
    }
}

#[async_trait]
impl Windows for EtcdStore {
    async fn window(&self, ask: &WindowAsk, floor: &Floor) -> Result<Window, StoreError> {
        self.window_for(ask, floor).await
    }

    async fn clock_ms(&self, own_ms: i64) -> Result<i64, StoreError> {
        Ok(self.clock(own_ms).await)
    }

    async fn release_window(
        &self,
        release: &WindowRelease,
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        self.free_worker(release, floor).await
    }
}

#[async_trait]
impl Names for EtcdStore {
    async fn add_names(&self, batch: &NameBatch, floor: &Floor) -> Result<Named, StoreError> {
        self.change(&batch.space, &[], &batch.names, |draft| draft.add_names(batch, floor)).await
    }

    async fn remove_name(
        &self,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<(Mark, Option<NameRecord>), StoreError> {
        let name = [NewName { key: key.to_owned(), ordinal: None }];
        self.change(space, &[], &name, |draft| draft.remove_name(key, owner, floor)).await
    }

    async fn named(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError> {
        self.find_name(space, name).await
    }

    async fn names(&self, page: &NamePage) -> Result<Vec<NameRecord>, StoreError> {
        self.name_page(page).await
    }

    // A transaction of etcd has at most 128 operations, and a name takes two of them.
    fn names_max(&self, _: NamePurpose) -> usize {
        50
    }

    async fn count_names(&self, space: Option<&str>) -> Result<HashMap<String, u64>, StoreError> {
        self.name_counts(space).await
    }
}

#[async_trait]
impl Snapshots for EtcdStore {
    async fn confirm(&self, what: &Confirm) -> Result<Confirmed, StoreError> {
        self.look_once_more(what).await
    }

    async fn unplaced(
        &self,
        space: &str,
        reached: Mark,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        self.unplaced_page(&confirm::mark_alone(space, reached), after, limit).await
    }
}

#[async_trait]
impl Moves for EtcdStore {
    async fn moved_rows(&self, page: &RowsPage) -> Result<Rows, StoreError> {
        self.row_page(page).await
    }

    async fn begin_import(&self, space: &MovedSpace) -> Result<Created, StoreError> {
        self.begin_moving_in(space).await
    }

    async fn import_rows(
        &self,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
    ) -> Result<(), StoreError> {
        self.move_in(space, importing, rows).await
    }

    async fn finish_import(&self, space: &MovedSpace) -> Result<SpaceRecord, StoreError> {
        self.finish_moving_in(space).await
    }
}

#[async_trait]
impl Instances for EtcdStore {
    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        // Reading asks another member where one does not answer, and so does what follows then.
        let beat = self.beat(pulse).await?;
        self.show_life(pulse).await?;
        Ok(beat)
    }

    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError> {
        self.instance_page(page).await
    }
}

#[async_trait]
impl Tokens for EtcdStore {
    async fn tokens(&self, floor: &Floor) -> Result<TokenList, StoreError> {
        self.token_list(floor).await
    }

    async fn replace_tokens(
        &self,
        change: &TokenChange,
        floor: &Floor,
    ) -> Result<Option<Mark>, StoreError> {
        self.put_tokens(change, floor).await
    }

    async fn record_act(&self, act: &Act) -> Result<(), StoreError> {
        self.add_act(act).await
    }

    async fn acts(&self, page: &ActPage) -> Result<Vec<Act>, StoreError> {
        self.act_page(page).await
    }
}

#[async_trait]
impl Admin for EtcdStore {
    async fn identity(&self) -> Result<String, StoreError> {
        Ok(self.stamp().await?.map(|stamp| stamp.identity).unwrap_or_default())
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
        self.findings().await
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
    if shown.contains("database space exceeded") {
        // In doubt like any other: the change that fills the quota is made, and answered so.
        shown.push_str("; `keymill store check` says what to do");
    }
    let denied = ["authentication failed", "permission denied", "user name is empty"];
    if denied.iter().any(|reason| shown.contains(reason)) {
        return StoreError::Broken(format!("{place}: {shown}"));
    }
    StoreError::InDoubt(format!("{place}: {shown}"))
}
