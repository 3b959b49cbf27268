//! The fence: the store with its floors. Every change of a store goes through it.
//!
//! `operations` and `supply` share one [`Fence`] and make their changes by its methods, one file for each part
//! of a store. All of them take the same way: the floor of the space goes with the request, so that a store
//! that was rolled back refuses it; the answer is checked; the floor is raised to where the change has led;
//! and then the change is looked for once more ([`Fence::make_sure`]), in one state of the store that has come
//! at least as far. Only what was found there may leave the process.
//!
//! The last step is not a luxury. This process may have been paused between a commit and the floor files, while
//! the store was rolled back and moved on without knowing of the change; from the floor files on, whoever moves
//! it on knows. And the answer may have come from a server that is not the primary any more.
//!
//! # Invariants
//!
//! - Nobody else names a floor or calls a changing method of a store; a test reads the sources and says so.
//! - A change that cannot be made sure of is undone where that is possible, and in doubt where it is not.

mod comparison;
mod digests;
mod floors;
pub(crate) mod group_commit;
mod leases;
mod names;
mod pools;
mod readiness;
mod spaces;
mod tokens;
mod use_log;
pub(crate) mod whole_store;
mod windows;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub(crate) use comparison::{Comparison, Refused};
pub use floors::OtherStore;
pub(crate) use tokens::SeenTokens;
pub(crate) use windows::WindowOnRecord;

use crate::instance::Instance;
use crate::store::{
    CallFigures, Confirm, Confirmed, Evidence, Floor, Mark, Store, StoreError, StoreFigures,
};
use floors::{Floors, floor_of, raise_to};

/// A store, what was seen of it, and the instance that changes it.
#[derive(Debug)]
pub(crate) struct Fence {
    store: Store,
    /// What is counted of its calls.
    figures: Arc<StoreFigures>,
    floors: Arc<Floors>,
    instance: Instance,
}

/// Why a fence was not opened, or why nothing was created behind it.
#[derive(Debug)]
pub(crate) enum FenceError {
    /// The store refused, or what was seen of it cannot be read.
    Store(StoreError),
    /// Another process holds the files that say what was seen.
    Busy(String),
    /// The data directory belongs to another store.
    OtherStore(OtherStore),
}

impl Fence {
    /// The fence of a store, with what the data directory and those who share the store have seen of it.
    pub(crate) async fn open(
        store: Store,
        data_dir: &Path,
        instance: Instance,
    ) -> Result<Fence, FenceError> {
        let figures = Arc::<StoreFigures>::default();
        let store = store.measured(&figures);
        let identity = store.admin.identity().await?;
        let mut files = vec![data_dir.join("floors.json")];
        files.extend(store.admin.floor_file());
        let floors = Floors::open(identity, files).map_err(|error| {
            let problem = format!("the floor file {error}");
            // Whoever holds it may be paused, and wake up.
            match error.kind() {
                io::ErrorKind::TimedOut => FenceError::Busy(problem),
                _ => FenceError::Store(StoreError::Broken(problem)),
            }
        })?;
        Ok(Fence { store, figures, floors: Arc::new(floors), instance })
    }

    /// The store, to read from.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The calls of the store so far.
    pub(crate) fn figures(&self) -> Vec<CallFigures> {
        self.figures.all()
    }

    /// This process, as the store knows it.
    pub(crate) fn instance(&self) -> &Instance {
        &self.instance
    }

    /// What a request for a change of a space carries.
    async fn floor(&self, space: &str) -> Result<Floor, StoreError> {
        floor_of(&self.floors, space).await
    }

    /// Makes the floor files know how far a space has come.
    async fn raise(&self, space: &str, mark: Mark) -> Result<(), StoreError> {
        raise_to(&self.floors, space, mark).await
    }

    /// Raises the floor to where a change has led, and looks for what the change has left on record.
    async fn make_sure(&self, change: &Confirm) -> Result<Confirmed, StoreError> {
        let confirmed = self.look_again(change).await?;
        if confirmed.on_record {
            return Ok(confirmed);
        }
        let lost = format!("{} of `{}` is no longer on record", change.evidence, change.space);
        Err(StoreError::rolled_back(&change.space, change.reached, lost))
    }

    /// The same of a change that cannot be undone: where it cannot be looked at, it is in doubt.
    async fn make_sure_or_burn(
        &self,
        space: &str,
        reached: Mark,
        evidence: Evidence,
    ) -> Result<Confirmed, StoreError> {
        let change = Confirm { space: space.to_owned(), reached, evidence, skips_in: 0..0 };
        self.make_sure(&change).await.map_err(burned)
    }

    /// Raises the floor, then looks at the space and at the evidence in one state of the store.
    async fn look_again(&self, change: &Confirm) -> Result<Confirmed, StoreError> {
        self.raise(&change.space, change.reached).await?;
        self.store.snapshots.confirm(change).await
    }
}

/// What becomes of a failure behind a commit that cannot be undone.
fn burned(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable(problem) => StoreError::InDoubt(problem),
        error => error,
    }
}

impl From<StoreError> for FenceError {
    fn from(error: StoreError) -> FenceError {
        FenceError::Store(error)
    }
}
