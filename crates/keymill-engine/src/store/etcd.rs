//! etcd: the store of those who outgrow one machine. Raft keeps every grant on a majority.
//!
//! A change reads the space and what else it needs, decides, and commits in one transaction on
//! condition that none of it has changed meanwhile; where it has, it begins again. etcd's own
//! locks are not used, nor its leases, which end by time: only an instance's sign of life is attached to one.
//!
//! Each part of the store is a file of its own. Here is what they share: how a change is made, and what etcd's
//! errors mean.
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
mod leases;
mod moves;
mod names;
mod retry;
mod safety;
mod sightings;
mod spaces;
mod tokens;
mod windows;

use std::collections::HashMap;
use std::sync::Mutex;

use async_trait::async_trait;
use etcd_client::TxnOp;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use change::{Draft, Wanted};
use connection::Members;
use docs::StoreDoc;
use instances::Sign;
use key_paths::KeyPaths;
use retry::Retries;

use super::values::{from_json, json, now, time};
use super::{Admin, Finding, LeaseId, NewName, Opening, StoreDescription, StoreError};

/// An etcd cluster as a store.
#[derive(Debug)]
pub(crate) struct EtcdStore {
    members: Members,
    paths: KeyPaths,
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
        let (members, paths) = connection::parse(url)?;
        let mut store = EtcdStore { members, paths, created: false, signs: Mutex::default() };
        if store.stamp().await?.is_none() {
            if !opening.create {
                return Err(StoreError::empty(&store.members.shown(), opening));
            }
            if opening.migrate {
                let doc = json(&StoreDoc::new());
                store.created = store.members.make(store.paths.store(), doc).await?;
            }
        }
        Ok(store)
    }

    async fn stamp(&self) -> Result<Option<StoreDoc>, StoreError> {
        let found = self.members.read(vec![TxnOp::get(self.paths.store(), None)]).await?;
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
        let mut retries = Retries::new();
        loop {
            let wanted = Wanted { space, leases, names };
            let mut draft = Draft::read(&self.members, &self.paths, wanted).await?;
            let answer = decide(&mut draft)?;
            if draft.commit(&self.members).await? {
                return Ok(answer);
            }
            retries.another().await?;
        }
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
            self.members.make(self.paths.secret(), json(&SecretDoc { secret, created_at })).await?;
        }
        let found = self.members.read(vec![TxnOp::get(self.paths.secret(), None)]).await?;
        Ok(found.value(0).map(from_json::<SecretDoc>).transpose()?.map(|doc| doc.secret))
    }

    async fn forget_secret(&self) -> Result<(), StoreError> {
        self.members.remove(self.paths.secret()).await
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        self.findings().await
    }

    fn describe(&self) -> StoreDescription {
        StoreDescription { kind: "etcd", location: self.members.shown(), created: self.created }
    }
}

/// The one place where etcd's errors become the store's. Whether a change was made is in doubt
/// whenever its answer is missing, because a member may pass it on before it fails.
fn fold_error(server_name: &str, error: &etcd_client::Error) -> StoreError {
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
        return StoreError::Broken(format!("{server_name}: {shown}"));
    }
    StoreError::InDoubt(format!("{server_name}: {shown}"))
}
