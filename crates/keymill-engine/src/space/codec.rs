//! The codec of one space: how its ordinals are written, over all its generations, and which of them are left out.
//!
//! `operations` writes what it has drawn with it; `fence` brings it up to date before `supply` offers a
//! lease. They share one, because a space may grow while it is served. Nothing here asks the store.
//!
//! # Invariants
//!
//! - Generations are only added, and are known before an ordinal of theirs can be drawn.
//! - So are the *early names*: names that were taken before their generation was there, and have
//!   no ordinal on record. Once a generation is there, no more of them are made, because
//!   stores refuse names that were located without it; so they are read once an era. A store that
//!   was rolled back may have lost a generation and taken names meanwhile, and only an advance reopens it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use keymill_core::{Generations, Located};
use tokio::sync::{Mutex, MutexGuard};

use super::secret::Master;
use super::skips::Skips;
use crate::space::{Definition, DefinitionError, LENGTH_MAX};

/// The codec of one space, as far as this process knows its generations.
#[derive(Debug)]
pub struct SpaceCodec {
    space: String,
    master: Master,
    generations: ArcSwap<Generations>,
    skips: Skips,
    /// By ordinal and key.
    early: ArcSwap<Vec<EarlyName>>,
    /// Early names of the ordinals below this are known.
    ready_to: AtomicU64,
    /// As of this era.
    ready_in: AtomicU64,
    /// No early name is below this: what is of the first generation was found to be so.
    first_end: u64,
    /// Held while early names are read.
    reading: Mutex<()>,
}

/// A name that is older than the generation it turned out to be of.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EarlyName {
    ordinal: u64,
    /// As it was typed, which may be another spelling than the one that is handed out.
    key: String,
}

/// Why the generations of a definition cannot be taken in.
#[derive(Debug, thiserror::Error)]
pub enum GrowthError {
    /// Others were served here in their place.
    #[error(
        "`{space}` has grown to {found:?}, but this instance has served it with {known:?}, so it \
         could hand out keys that are already in use. Seal it and create a new keyspace"
    )]
    Contradiction {
        /// The name of the keyspace.
        space: String,
        /// The lengths after the first that it should have.
        found: Vec<u8>,
        /// Those that were served.
        known: Vec<u8>,
    },
    /// The definition cannot be used.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
}

impl SpaceCodec {
    /// The codec of a space with this name and definition.
    pub(crate) fn of(
        space: &str,
        definition: &Definition,
        master: &Master,
    ) -> Result<SpaceCodec, DefinitionError> {
        let generations = definition.generations(space, master)?;
        Ok(SpaceCodec {
            space: space.to_owned(),
            master: master.clone(),
            ready_to: AtomicU64::new(generations.first_end()),
            ready_in: AtomicU64::new(0),
            first_end: generations.first_end(),
            generations: ArcSwap::from_pointee(generations),
            skips: Skips::default(),
            early: ArcSwap::default(),
            reading: Mutex::default(),
        })
    }

    /// The name of the space.
    pub(crate) fn space(&self) -> &str {
        &self.space
    }

    /// From ordinal to key and back. Loaded after ordinals are drawn, it knows their generation.
    #[inline]
    pub(crate) fn generations(&self) -> Guard<Arc<Generations>> {
        self.generations.load()
    }

    /// The same, to be kept over a wait.
    pub(crate) fn generations_now(&self) -> Arc<Generations> {
        self.generations.load_full()
    }

    /// How many ordinals the known generations have.
    pub(crate) fn capacity(&self) -> u64 {
        self.generations().capacity()
    }

    /// Ordinals not to hand out, because names occupy them.
    #[inline]
    pub(crate) fn skips(&self) -> &Skips {
        &self.skips
    }

    /// The lengths of the generations after the first.
    pub(crate) fn grown(&self) -> Vec<u8> {
        self.generations().later_lengths()
    }

    /// Where a key would belong if the space grew to its length; `None` where it never could.
    pub(crate) fn located_later(&self, definition: &Definition, key: &str) -> Option<Located> {
        let last = definition.grown.last().copied().unwrap_or(definition.length);
        (last + 1..=LENGTH_MAX).find_map(|length| {
            let longer = Definition { length, grown: Vec::new(), ..definition.clone() };
            longer.shape().ok()?.read(key.as_bytes()).ok()?;
            longer.generations(&self.space, &self.master).ok()?.ordinal(key.as_bytes()).ok()
        })
    }

    /// Takes in the generations that a definition has.
    pub(crate) fn follow(&self, definition: &Definition) -> Result<(), GrowthError> {
        let (known, found) = (self.grown(), &definition.grown);
        if known.starts_with(found) {
            return Ok(());
        }
        if !found.starts_with(&known) {
            let (space, found) = (self.space.clone(), found.clone());
            return Err(GrowthError::Contradiction { space, found, known });
        }
        let longer = Arc::new(definition.generations(&self.space, &self.master)?);
        // Several may follow at once, and the one that knows most has to stay.
        self.generations
            .rcu(|known| Arc::clone(if known.count() < longer.count() { &longer } else { known }));
        Ok(())
    }

    /// Whether ordinals below `end` can be handed out in this era: their generations and early names
    /// are known.
    pub(crate) fn is_ready(&self, end: u64, era: u64) -> bool {
        let same_era = self.ready_in.load(Ordering::Acquire) == era;
        end <= self.first_end || same_era && end <= self.ready_to.load(Ordering::Acquire)
    }

    /// Waits until nobody else reads early names, and keeps others from it.
    pub(crate) async fn reading(&self) -> MutexGuard<'_, ()> {
        self.reading.lock().await
    }

    /// Takes in all early names among these generations, as of this era: the ordinals of them all are
    /// ready.
    pub(crate) fn take_in(&self, mut early: Vec<EarlyName>, generations: &Generations, era: u64) {
        early.sort_unstable();
        let ordinals: Vec<u64> = early.iter().map(|name| name.ordinal).collect();
        self.skips.add(&ordinals);
        self.early.store(Arc::new(early));
        self.ready_to.store(generations.capacity(), Ordering::Release);
        self.ready_in.store(era, Ordering::Release);
    }

    /// Whether names are still to be read before ordinals of all generations can be handed out.
    pub(crate) fn has_unread(&self) -> bool {
        self.ready_to.load(Ordering::Acquire) < self.capacity()
    }

    /// The spelling under which an early name has this ordinal: the one that is asked for, where
    /// several were taken that are now one key.
    pub(crate) fn early_name(&self, ordinal: u64, asked: &str) -> Option<String> {
        let early = self.early.load();
        let from = &early[early.partition_point(|name| name.ordinal < ordinal)..];
        let found = &from[..from.partition_point(|name| name.ordinal == ordinal)];
        let name = found.iter().find(|name| name.key == asked).or(found.first());
        name.map(|name| name.key.clone())
    }
}

impl EarlyName {
    /// A name without an ordinal on record, if it has one among these generations.
    pub(crate) fn among(generations: &Generations, key: String) -> Option<EarlyName> {
        match generations.ordinal(key.as_bytes()) {
            Ok(Located::Ordinal(ordinal)) => Some(EarlyName { ordinal, key }),
            _ => None,
        }
    }
}
