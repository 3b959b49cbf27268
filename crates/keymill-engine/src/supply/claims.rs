//! A pool's side of `leases`: claims instead of leases, and the filling of a pool that runs low.
//!
//! `supply` calls it where a mill's keys are rows. A claim is one transaction; what it brought
//! reaches the mill only after the fence has made sure of it.

use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::clock::Clock;
use crate::fence::Fence;
use crate::source::claimed_keys::{ClaimedAs, ClaimedKeys, Lifetime};
use crate::source::outlook::Outlook;
use crate::source::queue::Queue;
use crate::space::codec::SpaceCodec;
use crate::space::{Audit, Tuning};
use crate::store::{Claim, ClaimAsk, Fill, Grant, LastUse, Release, StoreError, WriteKeys};

/// The most keys of one claim: what a crash may cost, and what a reservation may hold up.
const CLAIM_MAX: u64 = 10_000;
/// No claim takes more than this part of a pool, so that its last keys spread over all instances.
const SHARE: u64 = 8;

/// After so many fills in a row that have made no key, filling is given up for a while.
pub(crate) const FRUITLESS_FILLS_MAX: u32 = 16;

/// Where a mill's keys come from, for a pool.
pub(crate) struct PoolSupply {
    pub(crate) space: String,
    /// Through which it claims.
    pub(crate) fence: Arc<Fence>,
    /// What it has claimed.
    pub(crate) claimed: Arc<ClaimedKeys>,
    /// Its keys, to fill the pool.
    pub(crate) codec: Arc<SpaceCodec>,
    /// Writes them.
    pub(crate) write: WriteKeys,
    /// Where the last claim ended.
    pub(crate) after: AtomicI64,
    /// A key of the last claim that is on record as used.
    pub(crate) last: Mutex<Option<LastUse>>,
    /// Tells when claimed keys expire.
    pub(crate) clock: Clock,
}

impl PoolSupply {
    /// Claims keys for the mill. Where the pool is empty and should not be, it is filled first.
    pub(crate) async fn claim(
        &self,
        size: u64,
        tuning: &Tuning,
        queue: &Queue,
    ) -> Result<Grant, StoreError> {
        self.release_too_old().await;
        for _ in 0..FRUITLESS_FILLS_MAX {
            let reserve = tuning.audit == Audit::Key;
            let (claim, claimed_as) =
                self.claim_now(size.min(CLAIM_MAX), SHARE, reserve, tuning).await?;
            if let Some(last) = claim.keys.last() {
                self.after.store(last.id + 1, Ordering::Relaxed);
                let (mark, left) = (claim.mark, claim.available);
                let ordinals = self.claimed.add(claim.keys, claimed_as);
                return Ok(Grant { lease: mark.revision, ordinals, mark, left });
            }
            if claim.available > 0 {
                let problem = "other instances are claiming the last keys of the pool".to_owned();
                return Err(StoreError::Unavailable(problem));
            }
            if tuning.low_water == 0 {
                return Err(StoreError::Exhausted { space: self.space.clone(), held_elsewhere: 0 });
            }
            queue.set_outlook(Outlook::PoolFilling);
            self.top_up(tuning).await?;
        }
        Err(StoreError::Unavailable(format!(
            "{FRUITLESS_FILLS_MAX} fills of the pool added no keys, because the blocklist matches \
             them all"
        )))
    }

    /// Claims keys once, and makes sure of them; with how they are on record.
    pub(crate) async fn claim_now(
        &self,
        size: u64,
        share: u64,
        reserve: bool,
        tuning: &Tuning,
    ) -> Result<(Claim, ClaimedAs), StoreError> {
        let claimed_as = if reserve {
            ClaimedAs::Reserved
        } else {
            // Before the store is asked, which counts from a later moment: no caller is told more time than there is.
            ClaimedAs::Used(tuning.ttl().map(|ttl| Lifetime::new(self.clock.now_ms(), ttl)))
        };
        let last = self.last().clone();
        let ask = ClaimAsk {
            space: self.space.clone(),
            instance: self.fence.instance().clone(),
            size,
            share,
            after: self.after.load(Ordering::Relaxed),
            reserve,
            reserve_max: tuning.reserve_max(),
            ttl: tuning.ttl(),
            last,
        };
        let claim = self.fence.claim(&ask).await?;
        // What is only reserved is not on record as used.
        if let Some(key) = claim.keys.first().filter(|_| !reserve).cloned() {
            *self.last() = Some(LastUse { key, revision: claim.mark.revision });
        }
        Ok((claim, claimed_as))
    }

    /// Fills the pool once if it runs low; how many keys are available then.
    pub(crate) async fn top_up(&self, tuning: &Tuning) -> Result<u64, StoreError> {
        let fill_max = self.fence.store().rows_of(&self.space)?.pools.fill_max();
        let (capacity, era) = self.fence.reach_all(&self.codec).await?;
        let fill = Fill {
            space: self.space.clone(),
            instance: self.fence.instance().clone(),
            size: tuning.low_water.clamp(1, fill_max),
            enough: Some(tuning.low_water),
            write: self.write.clone(),
            capacity,
            era,
        };
        let filled = self.fence.fill(&fill).await?;
        if filled.added > 0 {
            let (added, available) = (filled.added, filled.available);
            tracing::info!(space = self.space, added, available, "filled the pool");
        }
        Ok(filled.available)
    }

    /// Gives back what was claimed and not drawn.
    pub(crate) async fn give_back(&self, rest: Range<u64>) -> Result<(), StoreError> {
        let (mut used, mut reserved) = (Vec::new(), Vec::new());
        self.claimed.keys(rest, |_, claimed, claimed_as| {
            let is_reserved = claimed_as == ClaimedAs::Reserved;
            let keys = if is_reserved { &mut reserved } else { &mut used };
            keys.push(claimed.clone());
        });
        for (keys, reserved) in [(used, false), (reserved, true)] {
            if keys.is_empty() {
                continue;
            }
            let back = Release {
                space: self.space.clone(),
                instance: self.fence.instance().id.clone(),
                keys,
                reserved,
            };
            self.fence.release(&back).await?;
        }
        self.release_too_old().await;
        Ok(())
    }

    /// Gives back keys that became too old to be handed out, so that their time begins anew with their next claim. What
    /// fails is not tried again: the store may have done it, and a key that is given back twice could be handed out twice.
    async fn release_too_old(&self) {
        // The record of the last one shows that the store was not rolled back: it waits until there is a later one.
        let last = self.last().as_ref().map(|last| last.key.id);
        let too_old = self.claimed.take_too_old();
        let (kept, keys): (Vec<_>, Vec<_>) =
            too_old.into_iter().partition(|claimed| Some(claimed.id) == last);
        self.claimed.add_too_old(kept);
        let Some(first) = keys.iter().map(|claimed| claimed.id).min() else { return };
        let count = keys.len();
        let back = Release {
            space: self.space.clone(),
            instance: self.fence.instance().id.clone(),
            keys,
            reserved: false,
        };
        match self.fence.release(&back).await {
            Ok(_) => {
                self.after.fetch_min(first, Ordering::Relaxed);
            }
            Err(error) => {
                let space = &self.space;
                tracing::warn!(space, count, "keys of the pool have expired unused: {error}");
            }
        }
    }

    fn last(&self) -> MutexGuard<'_, Option<LastUse>> {
        self.last.lock().expect("nothing panics while it is held")
    }
}

impl std::fmt::Debug for PoolSupply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolSupply").field("space", &self.space).finish_non_exhaustive()
    }
}
