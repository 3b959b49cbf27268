//! The store: the durable truth about spaces and leases, in whatever database the user has.
//!
//! The fence calls it about once for each lease, and never for a request that a mill can serve.
//! Only the modules below this one know databases. One behaviour suite,
//! `tests/it/store_behavior.rs`, holds every store to what is promised here.
//!
//! # Promises of every store
//!
//! - A grant is durable before `lease` returns it, and no ordinal is in two open leases.
//! - `next` and `revision` never fall, except when the database itself is rolled back; and
//!   every changing request is refused with [`StoreError::RolledBack`] when it finds the space
//!   below the floor it carries, in the transaction that would have changed it.
//! - A request that may or may not have been committed answers [`StoreError::InDoubt`].
//! - Names are compared as bytes.

use std::sync::Arc;

mod admin;
mod confirm;
mod digests;
mod error;
#[cfg(feature = "sqlite")]
mod filesystem;
pub(crate) mod floor_file;
mod instances;
mod key_rows;
mod leases;
mod mark;
mod measured;
mod moves;
mod names;
mod open;
mod pools;
mod ranges;
mod safety;
mod space_record;
mod spaces;
mod tokens;
mod use_log;
// Each store uses some of it, and a build with few stores leaves the rest unused.
#[cfg_attr(not(all(feature = "sqlite", feature = "etcd")), allow(dead_code, unused_imports))]
mod values;
mod windows;

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod sql;

#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
mod connections;
#[cfg(feature = "postgres")]
mod tls;
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis"))]
mod url;

pub use admin::{Admin, StoreDescription};
pub use confirm::{Confirm, Confirmed, Evidence, Snapshots};
pub use digests::{DigestBatch, DigestInput, DigestKey, Digested, Digests};
pub use error::StoreError;
pub use instances::{Beat, InstancePage, InstanceRecord, Instances, Pulse};
pub use key_rows::{Claimed, ERA_MAX, FILL_MAX, KeyId, KeyRef, first_id, key_id};
pub use leases::{GiveBack, Grant, LeaseAsk, LeaseId, LeasePage, LeaseRecord, Leases, Purpose};
pub(crate) use mark::unseen;
pub use mark::{Floor, History, Lengths, Mark};
pub use measured::CallFigures;
pub(crate) use measured::StoreFigures;
pub use moves::{MovedLease, MovedRow, MovedSpace, Moves, Part, Rows, RowsPage};
pub use names::{NameBatch, NamePage, NamePurpose, NameRecord, Named, Names, Naming, NewName};
pub use open::{Opening, back_up, check, check_url, folder_of, open, refuse_forgotten};
pub use pools::{AvailablePage, Claim, ClaimAsk, Fill, Filled, Found, Pools, Release, WriteKeys};
pub use ranges::Ranges;
pub use safety::{Finding, Verdict, check_safety};
pub use space_record::SpaceRecord;
pub use spaces::{Created, NewSpace, Spaces};
pub(crate) use tokens::rolled_back as tokens_rolled_back;
pub use tokens::{ACTS_KEPT, Act, ActPage, TOKENS, TokenChange, TokenList, Tokens};
pub use use_log::{KeyUse, LastUse, Noted, Retire, UseLog, UsedKey, UsedPage, Uses};
pub use windows::{HeldWindow, Window, WindowAsk, WindowRelease, Windows, WorkerRecord};

/// Revisions of one era; an advance begins the next one, so that it lies beyond every
/// revision that any instance can have seen, without having to ask them.
pub const ERA: u64 = 1 << 40;

/// A store that any number of instances share: its parts, by who asks for them. A test replaces one
/// (`Store { leases, ..real }`) and leaves the others as they are.
#[derive(Debug, Clone)]
pub struct Store {
    /// The keyspaces.
    pub spaces: Arc<dyn Spaces>,
    /// Ranges of ordinals.
    pub leases: Arc<dyn Leases>,
    /// Workers of snowflake keyspaces.
    pub windows: Arc<dyn Windows>,
    /// Named keys.
    pub names: Arc<dyn Names>,
    /// What decides which keys leave.
    pub snapshots: Arc<dyn Snapshots>,
    /// Keyspaces that move to another store.
    pub moves: Arc<dyn Moves>,
    /// The processes.
    pub instances: Arc<dyn Instances>,
    /// The token list, and what administrators did.
    pub tokens: Arc<dyn Tokens>,
    /// The store itself.
    pub admin: Arc<dyn Admin>,
    /// Keys as rows, in a store that keeps them.
    pub rows: Option<KeyRows>,
}

/// The parts of a store that keeps rows of keys.
#[derive(Debug, Clone)]
pub struct KeyRows {
    /// Keys written out in advance.
    pub pools: Arc<dyn Pools>,
    /// The record of single keys.
    pub use_log: Arc<dyn UseLog>,
    /// Keys of inputs.
    pub digests: Arc<dyn Digests>,
}

impl Store {
    /// A store of one piece, without rows of keys.
    pub fn of<S>(store: &Arc<S>) -> Store
    where
        S: Spaces
            + Leases
            + Windows
            + Names
            + Snapshots
            + Moves
            + Instances
            + Tokens
            + Admin
            + 'static,
    {
        Store {
            spaces: store.clone(),
            leases: store.clone(),
            windows: store.clone(),
            names: store.clone(),
            snapshots: store.clone(),
            moves: store.clone(),
            instances: store.clone(),
            tokens: store.clone(),
            admin: store.clone(),
            rows: None,
        }
    }

    /// The same, with the rows of keys that it keeps.
    pub fn with_rows<S>(self, store: &Arc<S>) -> Store
    where
        S: Pools + UseLog + Digests + 'static,
    {
        let (pools, use_log, digests) = (store.clone(), store.clone(), store.clone());
        Store { rows: Some(KeyRows { pools, use_log, digests }), ..self }
    }

    /// The rows of keys, for an answer that is refused without them.
    pub fn rows_of(&self, space: &str) -> Result<&KeyRows, StoreError> {
        self.rows.as_ref().ok_or_else(|| StoreError::no_keys(space))
    }
}

/// Whether a lease that is not on record shows that the store was rolled back: an advance since
/// then would explain it.
pub fn must_be_on_record(lease: LeaseId, revision: u64) -> bool {
    lease / ERA == revision / ERA
}

/// Whether there was an advance between two revisions.
pub fn is_later_era(revision: u64, than: u64) -> bool {
    revision / ERA > than / ERA
}

/// The first revision of the era after the one that `revision` is in.
pub fn next_era(revision: u64) -> u64 {
    (revision / ERA + 1) * ERA
}
