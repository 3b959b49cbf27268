//! The store: the durable truth about spaces and leases, in whatever database the user has.
//!
//! `service` and `refill` call it once a lease or less, never on the way of a request that
//! its mill can serve. Only the modules below this one know databases. One behaviour suite,
//! `tests/it/store_behavior.rs`, holds every store to what is promised here.
//!
//! # Promises of every store
//!
//! - A grant is durable before `lease` returns it, and no ordinal is in two open leases.
//! - `next` and `revision` never fall, except when the database itself goes back in time; and
//!   every changing request is refused with [`StoreError::WentBack`] when it finds the space
//!   below the floor it carries, in the transaction that would have changed it.
//! - A request that may or may not have been committed answers [`StoreError::InDoubt`].
//! - Names are compared as bytes.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;

use crate::floor::{Floor, Mark};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};

mod open;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use open::{check_url, open};

/// Revisions of one era; an advance begins the next one, so that it lies beyond every
/// revision that any instance can have seen, without having to ask them.
pub const ERA: u64 = 1 << 40;

/// A store that any number of instances share.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync {
    /// What tells this store from every other: made once, when its schema is, and copied with
    /// its data.
    async fn identity(&self) -> Result<String, StoreError>;

    /// Makes a space, or returns the one that has the name already, whatever its definition. A
    /// name that the floor knows and the store does not is refused: its keys may be in use.
    async fn create(&self, new: &NewSpace, floor: &Floor) -> Result<Created, StoreError>;

    /// Replaces the changeable settings of a space.
    async fn tune(
        &self,
        space: &str,
        tuning: &Tuning,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError>;

    /// One space; [`StoreError::UnknownSpace`] where there is none.
    async fn space(&self, space: &str) -> Result<SpaceRecord, StoreError>;

    /// All spaces, by name.
    async fn spaces(&self) -> Result<Vec<SpaceRecord>, StoreError>;

    /// Grants a range of ordinals: from what was given back first, otherwise from `next`.
    ///
    /// At most `size` ordinals, and at most one `share`-th of what is left but always one.
    /// Leases listed as `spent` are closed at their end in the same transaction, also when
    /// the answer is [`StoreError::Exhausted`].
    async fn lease(&self, ask: &LeaseAsk) -> Result<Grant, StoreError>;

    /// Closes a lease where its undrawn rest begins and makes the rest available again, in
    /// one transaction. Does nothing when the lease is not open or not the caller's.
    async fn give_back(&self, back: &GiveBack) -> Result<Mark, StoreError>;

    /// Moves `next` up to at least that of `to`, drops what was given back, and begins a new era
    /// of revisions, beyond all that any instance has seen and beyond `to`. What lies between is
    /// never granted.
    async fn advance(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError>;

    /// Ends a space: nothing is granted any more. Sealing twice changes nothing.
    async fn seal(&self, space: &str, floor: &Floor) -> Result<SpaceRecord, StoreError>;

    /// The lease under which an ordinal was, or may have been, handed out.
    async fn lease_of(&self, space: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError>;

    /// Leases by space and then by age, after a given one.
    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError>;

    /// Says that an instance lives (or, at its end, that it stopped), returns all spaces, and
    /// tells which of the instance's last leases are not on record any more.
    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError>;

    /// Instances by age, after a given one.
    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError>;

    /// The secret kept in the store; where there is none, `candidate` becomes it.
    async fn secret(&self, candidate: Option<&str>) -> Result<Option<String>, StoreError>;

    /// Removes the secret from the store, once it is kept elsewhere.
    async fn forget_secret(&self) -> Result<(), StoreError>;

    /// Is this store safe to lease from, setting by setting.
    async fn check(&self) -> Result<Vec<Finding>, StoreError>;

    /// The store as people name it: its kind, and where it is, without passwords.
    fn place(&self) -> Place;

    /// A file that every process on this store sees, for stores that are files themselves:
    /// floors kept there are known to instances that share nothing else.
    fn floor_file(&self) -> Option<PathBuf> {
        None
    }
}

/// A space to make.
#[derive(Debug, Clone)]
pub struct NewSpace {
    /// Its name, never used before.
    pub name: String,
    /// What its keys look like.
    pub definition: Definition,
    /// How it is served.
    pub tuning: Tuning,
    /// Tells the secret behind it, where there is one.
    pub fingerprint: Option<String>,
    /// How many ordinals it has.
    pub capacity: u64,
    /// The first ordinal to grant.
    pub start: u64,
}

/// What `create` found or made.
#[derive(Debug, Clone)]
pub enum Created {
    /// The space is new.
    Made(SpaceRecord),
    /// The name was there already.
    Exists(SpaceRecord),
}

/// A space as the store has it.
#[derive(Debug, Clone, PartialEq)]
pub struct SpaceRecord {
    /// Its name.
    pub name: String,
    /// What its keys look like.
    pub definition: Definition,
    /// How it is served.
    pub tuning: Tuning,
    /// Tells the secret behind it, where there is one.
    pub fingerprint: Option<String>,
    /// How many ordinals it has.
    pub capacity: u64,
    /// How far it has come.
    pub mark: Mark,
    /// How many ordinals below `next` were given back and wait to be granted again.
    pub returned: u64,
    /// Whether it was ended.
    pub sealed: bool,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A request for a lease.
#[derive(Debug, Clone)]
pub struct LeaseAsk {
    /// Of which space.
    pub space: String,
    /// For whom.
    pub instance: Instance,
    /// At most so many ordinals.
    pub size: u64,
    /// At most this fraction of what is left: one `share`-th, but always one ordinal.
    pub share: u64,
    /// What the space must have reached.
    pub floor: Floor,
    /// The last lease this instance got of the space, which must still be on record.
    pub last_lease: Option<LeaseId>,
    /// Leases of this instance that are drawn to their end.
    pub spent: Vec<LeaseId>,
}

/// A granted lease and the space as it stands after it.
#[derive(Debug, Clone)]
pub struct Grant {
    /// Its number: the revision that made it.
    pub lease: LeaseId,
    /// The ordinals.
    pub ordinals: Range<u64>,
    /// How far the space has come with it.
    pub mark: Mark,
    /// How many ordinals are left to grant after it.
    pub left: u64,
}

/// A lease's number within its space: the space's revision that granted it.
pub type LeaseId = u64;

/// The undrawn rest of a lease.
#[derive(Debug, Clone)]
pub struct GiveBack {
    /// Of which space.
    pub space: String,
    /// Whose lease it is.
    pub instance: String,
    /// Which lease.
    pub lease: LeaseId,
    /// What was not drawn; it ends where the lease ends, and may be empty.
    pub rest: Range<u64>,
    /// What the space must have reached.
    pub floor: Floor,
}

/// A lease on record.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaseRecord {
    /// Of which space.
    pub space: String,
    /// Its number there.
    pub lease: LeaseId,
    /// The ordinals granted.
    pub ordinals: Range<u64>,
    /// Where drawing ended, once the lease is closed.
    pub closed_at_ordinal: Option<u64>,
    /// Why the range is on record.
    pub purpose: Purpose,
    /// Who got it.
    pub holder: Instance,
    /// When it was granted, by the store's clock.
    pub granted_at: Timestamp,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
}

/// Why a range of ordinals is on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Granted to an instance, to make keys of.
    Lease,
    /// Passed over by `space advance`: what was made of it, no record tells.
    Advance,
}

/// Which leases to list.
#[derive(Debug, Clone, Default)]
pub struct LeasePage {
    /// Of one space only.
    pub space: Option<String>,
    /// Those after this one: its space and number.
    pub after: Option<(String, LeaseId)>,
    /// At most so many.
    pub limit: u32,
}

/// A sign of life.
#[derive(Debug, Clone)]
pub struct Pulse {
    /// Who lives.
    pub instance: Instance,
    /// Where it can be reached.
    pub address: Option<String>,
    /// Whether this is its last word.
    pub stopping: bool,
    /// The last lease it got of each space.
    pub last_leases: Vec<(String, LeaseId)>,
}

/// The store's answer to a sign of life.
#[derive(Debug, Clone, Default)]
pub struct Beat {
    /// The identity of the store.
    pub store: String,
    /// All spaces, by name.
    pub spaces: Vec<SpaceRecord>,
    /// Spaces of which the instance's last lease is gone, though no advance explains it.
    pub lost: Vec<String>,
}

/// An instance as the store knows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct InstanceRecord {
    /// Who it is.
    #[serde(flatten)]
    pub instance: Instance,
    /// Where it can be reached.
    pub address: Option<String>,
    /// When it was last heard of.
    #[cfg_attr(feature = "http", schema(value_type = String))]
    pub seen_at: Timestamp,
    /// When it stopped, if it said so.
    #[cfg_attr(feature = "http", schema(value_type = Option<String>))]
    pub stopped_at: Option<Timestamp>,
}

/// Which instances to list.
#[derive(Debug, Clone, Default)]
pub struct InstancePage {
    /// Those after this one.
    pub after: Option<String>,
    /// At most so many.
    pub limit: u32,
}

/// One line of `keymill store check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub setting: String,
    /// What it is.
    pub found: String,
    /// What it should be.
    pub wanted: String,
    /// Whether that is safe.
    pub verdict: Verdict,
}

/// Whether a setting is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Safe,
    /// Works, but a failure may cost more than it should.
    Warning,
    /// A failure may cost a repeated key.
    Unsafe,
}

/// A store in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Place {
    /// `sqlite`, …
    pub kind: &'static str,
    /// A path or a URL without its password.
    pub location: String,
    /// Whether opening it made it.
    pub created: bool,
}

/// What can go wrong in a store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Nothing was changed, and trying again later may work.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The change may or may not have been made: what it granted must not be used.
    #[error("the store did not say whether it committed: {0}")]
    InDoubt(String),
    /// The store is older than what was seen of it.
    #[error(transparent)]
    WentBack(Arc<WentBack>),
    /// There is no such space.
    #[error("there is no keyspace `{0}`")]
    UnknownSpace(String),
    /// All ordinals are granted.
    #[error("the keyspace `{space}` is used up; {held_elsewhere} of its keys are held by others")]
    Exhausted {
        /// The space.
        space: String,
        /// How many ordinals are in open leases of other instances.
        held_elsewhere: u64,
    },
    /// The space was ended.
    #[error("the keyspace `{0}` is sealed")]
    Sealed(String),
    /// The database cannot be used as it is, and waiting will not help.
    #[error("{0}")]
    Broken(String),
}

/// How a store that went back in time was noticed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the store went back in time: {evidence}. Keys beyond that point may be in use, so none are granted. {remedy}"
)]
pub struct WentBack {
    /// The space concerned.
    pub space: String,
    /// What was seen of it before.
    pub seen: Mark,
    /// How it shows.
    pub evidence: String,
    /// What to do about it.
    pub remedy: String,
}

impl StoreError {
    /// A [`StoreError::WentBack`] with what showed it; `space advance` leads out.
    pub fn went_back(space: &str, seen: Mark, evidence: String) -> StoreError {
        let next = seen.next;
        let remedy =
            format!("Run `keymill space advance {space} --to {next}` to go on beyond them");
        let space = space.to_owned();
        StoreError::WentBack(Arc::new(WentBack { space, seen, evidence, remedy }))
    }

    /// A [`StoreError::WentBack`] of a space that was seen and is not there any more.
    pub fn gone(space: &str, seen: Mark) -> StoreError {
        StoreError::WentBack(Arc::new(WentBack {
            space: space.to_owned(),
            seen,
            evidence: format!("the keyspace `{space}` is gone from it"),
            remedy: "Restore a backup that has it, or use another name".to_owned(),
        }))
    }

    /// A [`StoreError::WentBack`] of a store that has become another one.
    pub fn other_store(space: &str, floor: &Floor, found: &str) -> StoreError {
        StoreError::WentBack(Arc::new(WentBack {
            space: space.to_owned(),
            seen: floor.mark,
            evidence: format!("it was the store {} and is now {found}", floor.store),
            remedy: "Restore the store that was there, or start with another data directory"
                .to_owned(),
        }))
    }
}

impl SpaceRecord {
    /// How many ordinals can still be granted.
    pub fn left(&self) -> u64 {
        self.capacity - self.mark.next.min(self.capacity) + self.returned
    }

    /// Refuses when this record lies below what the caller has seen of the space.
    pub fn check_floor(&self, store: &str, floor: &Floor) -> Result<(), StoreError> {
        let went_back = |evidence| Err(StoreError::went_back(&self.name, floor.mark, evidence));
        if floor.store != store {
            return Err(StoreError::other_store(&self.name, floor, store));
        }
        if !self.mark.has_reached(floor.mark) {
            return went_back(format!(
                "`{}` is at ordinal {} (revision {}) and was seen at {} (revision {})",
                self.name, self.mark.next, self.mark.revision, floor.mark.next, floor.mark.revision
            ));
        }
        Ok(())
    }
}

impl LeaseAsk {
    /// How many ordinals to grant where `left` are left in all.
    pub fn size_of(&self, left: u64) -> u64 {
        self.size.min(left / self.share.max(1)).max(1)
    }
}

/// Whether a lease that is not on record shows that the store went back: an advance since
/// then would explain it.
pub fn must_be_on_record(lease: LeaseId, revision: u64) -> bool {
    lease / ERA == revision / ERA
}

/// The first revision of the era after the one that `revision` is in.
pub fn next_era(revision: u64) -> u64 {
    (revision / ERA + 1) * ERA
}
