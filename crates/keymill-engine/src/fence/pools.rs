//! Keys of pools through the fence.

use super::Fence;
use crate::store::{
    Claim, ClaimAsk, Claimed, Evidence, Fill, Filled, KeyRef, Pools, Release, StoreError,
};

impl Fence {
    /// Claims keys of a pool, and makes sure of them. Keys that cannot be made sure of stay claimed, and are never
    /// handed out: a gap. Keys that are only reserved are made sure of when they are used.
    pub(crate) async fn claim(&self, ask: &ClaimAsk) -> Result<Claim, StoreError> {
        let floor = self.floor(&ask.space).await?;
        let claim = self.pools(&ask.space)?.claim(ask, &floor).await?;
        let evidence = match claim.keys.first().filter(|_| !ask.reserve) {
            Some(key) => used(&ask.space, key, &ask.instance.id),
            None => Evidence::Mark,
        };
        self.make_sure_or_burn(&ask.space, claim.mark, evidence).await?;
        Ok(claim)
    }

    /// Writes keys into a pool. Nothing of them leaves before it is claimed, and a claim is made sure of.
    pub(crate) async fn fill(&self, fill: &Fill) -> Result<Filled, StoreError> {
        let floor = self.floor(&fill.space).await?;
        let filled = self.pools(&fill.space)?.fill(fill, &floor).await?;
        self.raise(&fill.space, filled.mark).await?;
        Ok(filled)
    }

    /// Gives back what was claimed and not handed out.
    pub(crate) async fn release(&self, back: &Release) -> Result<(), StoreError> {
        let floor = self.floor(&back.space).await?;
        let mark = self.pools(&back.space)?.release(back, &floor).await?;
        self.raise(&back.space, mark).await
    }

    fn pools(&self, space: &str) -> Result<&dyn Pools, StoreError> {
        Ok(&*self.store.rows_of(space)?.pools)
    }
}

/// What the use of a key leaves on record.
pub(super) fn used(space: &str, Claimed { id, key }: &Claimed, instance: &str) -> Evidence {
    let at = KeyRef { space: space.to_owned(), id: *id, key: key.clone() };
    Evidence::Used { at, instance: instance.to_owned() }
}
