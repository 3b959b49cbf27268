//! The store: the durable truth about spaces and leases, in whatever database the user has.
//!
//! `operations` and `supply` call it once a lease or less, never on the way of a request that
//! its mill can serve. Only the modules below this one know databases. One behaviour suite,
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

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;

use crate::instance::Instance;
use crate::space::{Definition, Tuning};

mod confirm;
mod error;
mod export;
pub(crate) mod floor_file;
pub mod key_rows;
mod mark;
mod names;
mod open;
mod ranges;
mod requests;
mod safety;
mod space_record;
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

pub use confirm::{Confirm, Confirmed, Evidence};
pub use error::{RolledBack, StoreError};
pub use export::{MovedRow, MovedSpace, Part, Rows, RowsPage};
pub use key_rows::KeyStore;
pub(crate) use mark::unseen;
pub use mark::{Floor, History, Lengths, Mark};
pub use names::{NameBatch, NamePage, NamePurpose, NameRecord, Named, Naming, NewName};
pub use open::{Opening, check, check_url, folder_of, open, refuse_forgotten};
pub use ranges::Ranges;
pub use requests::{
    Beat, Created, GiveBack, Grant, InstancePage, InstanceRecord, LeaseAsk, LeaseId, LeasePage,
    LeaseRecord, NewSpace, Place, Pulse, Purpose,
};
pub use safety::{Finding, Verdict, check_safety};
pub use space_record::SpaceRecord;
pub use windows::{HeldWindow, Window, WindowAsk, WindowRelease, WorkerRecord};

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

    /// Replaces the changeable settings of a space. What it is importing is none of them, and stays.
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

    /// Closes leases where drawing ended and makes what was not drawn available again, all in one
    /// transaction. For each: how far its space has come with it. A lease that is not open, or not
    /// the caller's, or does not end where the caller says, is left alone, and so is one whose space
    /// is refused; the others are closed all the same. There may be
    /// several leases of one space, and hundreds of spaces.
    async fn give_back(
        &self,
        backs: &[GiveBack],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError>;

    /// Looks once more at what a change has left on record, and reads what decides which keys
    /// leave, in one transaction that looks at the space's mark first. Where that lies below what the
    /// change has reached, a store with several connections closes those that it has and asks over a
    /// new one; only that answer is [`StoreError::RolledBack`].
    async fn confirm(&self, what: &Confirm) -> Result<Confirmed, StoreError>;

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

    /// Moves `next` up to at least that of `to` and of every sighting on record, drops what was given
    /// back and the sightings, and begins a new era of revisions, beyond all that any instance has
    /// seen and beyond `to`. What lies between is never granted. A space that is importing is
    /// [`StoreError::Sealed`].
    async fn advance(
        &self,
        space: &str,
        to: Mark,
        by: &Instance,
    ) -> Result<SpaceRecord, StoreError>;

    /// Writes down how far an instance has seen a space, while the store lies below that: an advance
    /// goes beyond it. One sighting for each instance and space, which only rises. Changes no mark, and
    /// does nothing where there is no such space.
    async fn report_sighting(
        &self,
        space: &str,
        instance: &str,
        seen: Mark,
    ) -> Result<(), StoreError>;

    /// The highest of the sightings of a space on record, part by part ([`Mark::max`]).
    async fn sighted(&self, space: &str) -> Result<Option<Mark>, StoreError>;

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

    /// Names without an ordinal, removed ones too, by key and after a given one. Read in one
    /// transaction with the space's mark, which must have reached `reached`, as in
    /// [`Store::confirm`].
    async fn unplaced(
        &self,
        space: &str,
        reached: Mark,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError>;

    /// Names of one purpose, by key.
    async fn names(&self, page: &NamePage) -> Result<Vec<NameRecord>, StoreError>;

    /// The most names of a batch.
    fn names_max(&self, purpose: NamePurpose) -> usize {
        match purpose {
            NamePurpose::Used => 10_000,
            _ => 1_000,
        }
    }

    /// How many keys of a space are names on record that were not removed (aliases, keys in use, digests), by space; of
    /// all spaces where none is given. Spaces without names may be missing.
    async fn count_names(&self, space: Option<&str>) -> Result<HashMap<String, u64>, StoreError>;

    /// Rows of a space, to be moved to another store.
    async fn moved_rows(&self, page: &RowsPage) -> Result<Rows, StoreError>;

    /// Makes a space that comes from another store: sealed, and `importing` what `tuning.importing`
    /// says, so that nothing can be taken from it. One that is importing the same already is brought up
    /// to what is given, and its mark never falls; any other is [`Created::Exists`] and left alone.
    async fn begin_import(&self, space: &MovedSpace) -> Result<Created, StoreError>;

    /// Writes rows into a space that is importing this; those that are there already are left as
    /// they are. A key that was retired while it was read may come as available and as used: then it is
    /// used, in whatever order both come. Refused with [`StoreError::Outdated`] where the space is not
    /// importing this.
    async fn import_rows(
        &self,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
    ) -> Result<(), StoreError>;

    /// Opens a space that was importing this: from now on its keys can be taken, beyond everything
    /// that was granted in the other store. Adds one to the revision that came with it, or to a later
    /// one that it has reached since.
    async fn finish_import(&self, space: &MovedSpace) -> Result<SpaceRecord, StoreError>;

    /// The lease under which an ordinal was, or may have been, handed out.
    async fn lease_of(&self, space: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError>;

    /// Leases by space and then by age, after a given one.
    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError>;

    /// Says that an instance lives (or, at its end, that it stopped), returns how far all spaces have
    /// come, and tells which of the instance's last leases are not on record any more. Whole
    /// records are read only of the spaces that `pulse` names at another revision than the store has.
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
