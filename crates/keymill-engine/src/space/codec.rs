//! The keys of one space: how its ordinals are written, and which of them are left out.
//!
//! `operations` writes what it has drawn with it; `supply` brings it up to date before it offers a
//! lease. They share one, because a space may grow while it is served.
//!
//! # Invariants
//!
//! - Generations only get more, and are known before an ordinal of theirs can be drawn.
//! - So are the *early names*: names that were taken before their generation was there, and have
//!   no ordinal on record. There can be no more of them once a generation is there, because
//!   stores refuse names that were located without it; so they are read once an era. A store that
//!   was rolled back may have lost a generation and taken names meanwhile, and only an advance reopens it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use keymill_core::{Generations, Located};
use tokio::sync::Mutex;

use super::secret::Master;
use super::skips::Skips;
use crate::space::{Definition, DefinitionError, LENGTH_MAX};
use crate::store::{Confirm, ERA, Evidence, Mark, SpaceRecord, Store, StoreError};

/// How many names one request asks for.
const PAGE: u32 = 1_000;

/// The keys of one space, as far as this process knows them.
#[derive(Debug)]
pub struct Keys {
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
    /// Held while they are read.
    reading: Mutex<()>,
}

/// A name that is older than the generation it turned out to be of.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EarlyName {
    ordinal: u64,
    /// As it was typed, which may be another spelling than the one that is handed out.
    key: String,
}

impl Keys {
    /// The keys of a space that the store has.
    pub(crate) fn of(record: &SpaceRecord, master: &Master) -> Result<Keys, DefinitionError> {
        let generations = record.definition.codec(&record.name, master)?;
        Ok(Keys {
            space: record.name.clone(),
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

    /// From ordinal to key and back. Loaded after ordinals are drawn, it knows their generation.
    #[inline]
    pub(crate) fn codec(&self) -> Guard<Arc<Generations>> {
        self.generations.load()
    }

    /// How many ordinals are known of.
    pub(crate) fn capacity(&self) -> u64 {
        self.codec().capacity()
    }

    /// Ordinals not to hand out, because names occupy them.
    #[inline]
    pub(crate) fn skips(&self) -> &Skips {
        &self.skips
    }

    /// The lengths of the generations after the first.
    pub(crate) fn grown(&self) -> Vec<u8> {
        self.codec().later_lengths()
    }

    /// Where a key would belong if the space grew to its length; `None` where it never could.
    pub(crate) fn located_later(&self, definition: &Definition, key: &str) -> Option<Located> {
        let last = definition.grown.last().copied().unwrap_or(definition.length);
        (last + 1..=LENGTH_MAX).find_map(|length| {
            let longer = Definition { length, grown: Vec::new(), ..definition.clone() };
            longer.shape().ok()?.read(key.as_bytes()).ok()?;
            longer.codec(&self.space, &self.master).ok()?.ordinal(key.as_bytes()).ok()
        })
    }

    /// Takes in the generations that a record knows of.
    pub(crate) fn follow(&self, record: &SpaceRecord) -> Result<(), StoreError> {
        let (known, found) = (self.grown(), &record.definition.grown);
        if known.starts_with(found) {
            return Ok(());
        }
        if !found.starts_with(&known) {
            return Err(StoreError::Broken(format!(
                "`{}` has grown to {found:?}, but this instance has served it with {known:?}, so \
                 it could hand out keys that are already in use. Seal it and create a new keyspace",
                self.space
            )));
        }
        let codec = record.definition.codec(&self.space, &self.master);
        let codec = Arc::new(codec.map_err(|error| StoreError::Broken(error.to_string()))?);
        // Several may follow at once, and the one that knows most has to stay.
        self.generations
            .rcu(|known| Arc::clone(if known.count() < codec.count() { &codec } else { known }));
        Ok(())
    }

    /// Makes ready to hand out ordinals below `end`, of a space that has come at least this far: their
    /// generations and early names are known when this returns.
    pub(crate) async fn reach(
        &self,
        store: &dyn Store,
        end: u64,
        reached: Mark,
    ) -> Result<(), StoreError> {
        let era = reached.revision / ERA;
        let is_ready = || {
            let same_era = self.ready_in.load(Ordering::Acquire) == era;
            end <= self.first_end || same_era && end <= self.ready_to.load(Ordering::Acquire)
        };
        if is_ready() {
            return Ok(());
        }
        let _reading = self.reading.lock().await;
        if is_ready() {
            return Ok(());
        }
        if end > self.capacity() {
            self.follow_store(store, reached).await?;
        }
        let codec = self.generations.load_full();
        if end > codec.capacity() {
            let (space, capacity) = (&self.space, codec.capacity());
            return Err(StoreError::Broken(format!(
                "the store has granted ordinals of `{space}` up to {end}, but it has only \
                 {capacity}"
            )));
        }
        let early = early_names(store, &self.space, reached, &codec).await?;
        let ordinals: Vec<u64> = early.iter().map(|name| name.ordinal).collect();
        self.skips.add(&ordinals);
        self.early.store(Arc::new(early));
        self.ready_to.store(codec.capacity(), Ordering::Release);
        self.ready_in.store(era, Ordering::Release);
        Ok(())
    }

    /// Makes ready to hand out every ordinal of a space as it is now, which is not below `floor`; how
    /// many they are, and the era that this holds for.
    pub(crate) async fn all_ready(
        &self,
        store: &dyn Store,
        floor: Mark,
    ) -> Result<(u64, u64), StoreError> {
        let mark = self.follow_store(store, floor).await?;
        let capacity = self.capacity();
        self.reach(store, capacity, mark).await?;
        Ok((capacity, mark.revision / ERA))
    }

    /// Whether names are still to be read before ordinals of all generations can be handed out.
    pub(crate) fn has_unread(&self) -> bool {
        self.ready_to.load(Ordering::Acquire) < self.capacity()
    }

    /// Takes in the generations that the store has; how far the space has come there.
    async fn follow_store(&self, store: &dyn Store, floor: Mark) -> Result<Mark, StoreError> {
        let look = Confirm {
            space: self.space.clone(),
            reached: floor,
            evidence: Evidence::Mark,
            skips_in: 0..0,
        };
        let record = store.confirm(&look).await?.space;
        self.follow(&record)?;
        Ok(record.mark)
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

/// Reads all names without an ordinal, and keeps those that have one among these generations.
async fn early_names(
    store: &dyn Store,
    space: &str,
    reached: Mark,
    codec: &Generations,
) -> Result<Vec<EarlyName>, StoreError> {
    let mut early = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = store.unplaced(space, reached, after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        early.extend(page.into_iter().filter_map(|key| match codec.ordinal(key.as_bytes()) {
            Ok(Located::Ordinal(ordinal)) => Some(EarlyName { ordinal, key }),
            _ => None,
        }));
    }
    early.sort_unstable();
    Ok(early)
}
