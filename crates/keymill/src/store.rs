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

use async_trait::async_trait;

use crate::floor::{Floor, Mark};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};

mod error;
mod finding;
pub mod keys;
mod name;
mod open;
mod ranges;
mod record;
// Each store uses some of it, and a build with few stores leaves the rest unused.
#[cfg_attr(not(all(feature = "sqlite", feature = "etcd")), allow(dead_code, unused_imports))]
mod values;
mod window;

#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;

#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
mod pool;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[cfg_attr(not(feature = "postgres"), allow(dead_code, unused_imports))]
mod schema;
#[cfg(feature = "postgres")]
mod tls;
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis"))]
mod url;

pub use error::{StoreError, WentBack};
pub use finding::{Finding, Verdict};
pub use keys::KeyStore;
pub use name::{NameBatch, NamePurpose, NameRecord, Named, Naming, NewName};
pub use open::{Opening, check_url, open};
pub use ranges::Ranges;
pub use record::{
    Beat, Created, GiveBack, Grant, InstancePage, InstanceRecord, LeaseAsk, LeaseId, LeasePage,
    LeaseRecord, NewSpace, Place, Pulse, Purpose, SpaceRecord,
};
pub use window::{HeldWindow, Window, WindowAsk, WindowRelease, WorkerRecord};

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

    /// Appends a generation: `definition` is the stored one with one more, and `capacity` that of
    /// all. Growing to what is there already changes nothing; one that does not continue the
    /// stored definition is [`StoreError::Outdated`].
    async fn grow(
        &self,
        space: &str,
        definition: &Definition,
        capacity: u64,
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

    /// Extends the window that an instance holds of a worker, or leases the first worker that is
    /// free; [`StoreError::NoWorker`] where none is. The clock is the store's, or the caller's
    /// where the store has none. What was granted is on record with the tenancy's lease.
    async fn window(&self, ask: &WindowAsk) -> Result<Window, StoreError>;

    /// The clock that windows are granted by, in milliseconds since 1970: the store's, or `own_ms`,
    /// the caller's, where it has none.
    async fn clock_ms(&self, own_ms: i64) -> Result<i64, StoreError> {
        Ok(own_ms)
    }

    /// Frees a worker from a given tick on, and closes the lease of the tenancy there. Does nothing
    /// when the row of the worker does not say what its holder knows.
    async fn release_window(&self, release: &WindowRelease) -> Result<Mark, StoreError>;

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

    /// Takes keys by name, in one transaction. One whose ordinal was granted already is taken;
    /// the ordinal of any other is never granted from then on, also when the name is removed, and
    /// stays the one it was made with. A batch that was decided on other generations than the
    /// space has is [`StoreError::Outdated`].
    async fn add_names(&self, batch: &NameBatch) -> Result<Named, StoreError>;

    /// Removes a name, if it is the owner's, and returns it as it then is; `None` where there is
    /// none or it was removed before.
    async fn remove_name(
        &self,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<Option<NameRecord>, StoreError>;

    /// A name on record, also when it was removed.
    async fn named(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError>;

    /// The ordinals of a range that names occupy. Of a range that is granted they do not change
    /// any more.
    async fn skips(&self, space: &str, ordinals: Range<u64>) -> Result<Vec<u64>, StoreError>;

    /// Names without an ordinal, removed ones too, by key and after a given one.
    async fn unplaced(
        &self,
        space: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError>;

    /// The most names of a batch.
    fn names_max(&self, purpose: NamePurpose) -> usize {
        match purpose {
            NamePurpose::Used => 10_000,
            _ => 1_000,
        }
    }

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

    /// Brings the schema up to date, and tells what was applied. Nothing, in a store that has none.
    async fn migrate(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// The rows of keys, in a store that keeps them.
    fn keys(&self) -> Option<&dyn KeyStore> {
        None
    }

    /// The store as people name it: its kind, and where it is, without passwords.
    fn place(&self) -> Place;

    /// A file that every process on this store sees, for stores that are files themselves:
    /// floors kept there are known to instances that share nothing else.
    fn floor_file(&self) -> Option<PathBuf> {
        None
    }
}

/// Whether a lease that is not on record shows that the store went back: an advance since
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
