//! Readiness: what must be known of a space before ordinals of it can be handed out, read from the store.
//!
//! Those are its generations, and the names that are older than their generation ([`EarlyName`]). Whoever
//! leases, fills a pool or looks for a name asks here first; [`SpaceCodec`] keeps what was read.

use keymill_core::Generations;

use super::Fence;
use crate::space::codec::{EarlyName, SpaceCodec};
use crate::store::{Confirm, ERA, Evidence, Mark, Store, StoreError};

/// How many names one request asks for.
const PAGE: u32 = 1_000;

impl Fence {
    /// Makes ready to hand out ordinals below `end`, of a space that has come at least this far: their
    /// generations and early names are known when this returns.
    pub(crate) async fn reach(
        &self,
        codec: &SpaceCodec,
        end: u64,
        reached: Mark,
    ) -> Result<(), StoreError> {
        let era = reached.revision / ERA;
        if codec.is_ready(end, era) {
            return Ok(());
        }
        let _reading = codec.reading().await;
        if codec.is_ready(end, era) {
            return Ok(());
        }
        if end > codec.capacity() {
            follow_store(&self.store, codec, reached).await?;
        }
        let generations = codec.generations_now();
        if end > generations.capacity() {
            let (space, capacity) = (codec.space(), generations.capacity());
            return Err(StoreError::Broken(format!(
                "the store has granted ordinals of `{space}` up to {end}, but it has only {capacity}"
            )));
        }
        let early = early_names(&self.store, codec.space(), reached, &generations).await?;
        codec.take_in(early, &generations, era);
        Ok(())
    }

    /// Makes ready to hand out every ordinal of a space as it is now, which is not below what was seen of it;
    /// how many they are, and the era that this holds for.
    pub(crate) async fn reach_all(&self, codec: &SpaceCodec) -> Result<(u64, u64), StoreError> {
        let seen = self.floor(codec.space()).await?.mark;
        let mark = follow_store(&self.store, codec, seen).await?;
        let capacity = codec.capacity();
        self.reach(codec, capacity, mark).await?;
        Ok((capacity, mark.revision / ERA))
    }
}

/// Takes in the generations that the store has; how far the space has come there.
async fn follow_store(store: &Store, codec: &SpaceCodec, floor: Mark) -> Result<Mark, StoreError> {
    let look = Confirm {
        space: codec.space().to_owned(),
        reached: floor,
        evidence: Evidence::Mark,
        skips_in: 0..0,
    };
    let record = store.snapshots.confirm(&look).await?.space;
    codec.follow(&record.definition)?;
    Ok(record.mark)
}

/// Reads all names without an ordinal, and keeps those that have one among these generations.
async fn early_names(
    store: &Store,
    space: &str,
    reached: Mark,
    generations: &Generations,
) -> Result<Vec<EarlyName>, StoreError> {
    let mut early = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page =
            store.snapshots.names_without_ordinal(space, reached, after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        early.extend(page.into_iter().filter_map(|key| EarlyName::among(generations, key)));
    }
    Ok(early)
}
