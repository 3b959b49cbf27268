//! Readiness: what must be known of a space before ordinals of it can be handed out, read from the store.
//!
//! Those are its generations, and the names that are older than their generation ([`EarlyName`]). Whoever
//! leases, fills a pool or looks for a name asks here first; [`Keys`] keeps what was read.

use keymill_core::Generations;

use crate::space::codec::{EarlyName, Keys};
use crate::store::{Confirm, ERA, Evidence, Mark, Store, StoreError};

/// How many names one request asks for.
const PAGE: u32 = 1_000;

/// Makes ready to hand out ordinals below `end`, of a space that has come at least this far: their
/// generations and early names are known when this returns.
pub(crate) async fn reach(
    store: &Store,
    keys: &Keys,
    end: u64,
    reached: Mark,
) -> Result<(), StoreError> {
    let era = reached.revision / ERA;
    if keys.is_ready(end, era) {
        return Ok(());
    }
    let _reading = keys.reading().await;
    if keys.is_ready(end, era) {
        return Ok(());
    }
    if end > keys.capacity() {
        follow_store(store, keys, reached).await?;
    }
    let codec = keys.codec_now();
    if end > codec.capacity() {
        let (space, capacity) = (keys.space(), codec.capacity());
        return Err(StoreError::Broken(format!(
            "the store has granted ordinals of `{space}` up to {end}, but it has only {capacity}"
        )));
    }
    let early = early_names(store, keys.space(), reached, &codec).await?;
    keys.take_in(early, &codec, era);
    Ok(())
}

/// Makes ready to hand out every ordinal of a space as it is now, which is not below `floor`; how
/// many they are, and the era that this holds for.
pub(crate) async fn all_ready(
    store: &Store,
    keys: &Keys,
    floor: Mark,
) -> Result<(u64, u64), StoreError> {
    let mark = follow_store(store, keys, floor).await?;
    let capacity = keys.capacity();
    reach(store, keys, capacity, mark).await?;
    Ok((capacity, mark.revision / ERA))
}

/// Takes in the generations that the store has; how far the space has come there.
async fn follow_store(store: &Store, keys: &Keys, floor: Mark) -> Result<Mark, StoreError> {
    let look = Confirm {
        space: keys.space().to_owned(),
        reached: floor,
        evidence: Evidence::Mark,
        skips_in: 0..0,
    };
    let record = store.snapshots.confirm(&look).await?.space;
    keys.follow(&record.definition)?;
    Ok(record.mark)
}

/// Reads all names without an ordinal, and keeps those that have one among these generations.
async fn early_names(
    store: &Store,
    space: &str,
    reached: Mark,
    codec: &Generations,
) -> Result<Vec<EarlyName>, StoreError> {
    let mut early = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = store.snapshots.unplaced(space, reached, after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        early.extend(page.into_iter().filter_map(|key| EarlyName::among(codec, key)));
    }
    Ok(early)
}
