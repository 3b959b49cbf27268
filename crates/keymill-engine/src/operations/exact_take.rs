//! Takes of a command that ends: they lease exactly what they hand out, and keep nothing for later.

use std::ops::Range;
use std::sync::Arc;

use super::pools::no_pool;
use super::source::Source;
use super::take::PIECE;
use super::{Service, ServiceError, Space, check_caller};
use crate::space::Audit;
use crate::store::{GiveBack, LeaseAsk, StoreError};
use crate::supply::claims::FRUITLESS_FILLS_MAX;

/// The most ordinals that one lease asks for: what a crash would waste.
const LEASE_MAX: u64 = 100_000;

/// The same of one claim.
const CLAIM_MAX: u64 = 10_000;

/// After so many ordinals without a key, a take gives up: later than in a server, where others wait.
const FRUITLESS_MAX: u64 = 10_000_000;

impl Service {
    /// Takes keys for a command that ends: leases exactly as many as it hands out, and closes
    /// the leases behind it. Ends early when `each` says that nobody reads any more.
    pub async fn take_exactly(
        &self,
        space: &Arc<Space>,
        count: u64,
        caller: &str,
        mut each: impl FnMut(&[u8]) -> bool + Send,
    ) -> Result<u64, ServiceError> {
        check_caller(caller)?;
        match &space.source {
            Source::Leased(_) => {}
            Source::Claimed { .. } => {
                return self.claim_exactly(space, count, caller, each).await;
            }
            Source::Ticks(_) | Source::Uuids(_) => {
                return self.take_all(space, count, caller, each).await;
            }
            Source::Digests(_) => return Err(space.not_takeable()),
        }
        let inner = &self.inner;
        let (mut taken, mut fruitless, mut read) = (0, 0, true);
        let mut last_lease = None;
        while taken < count && read {
            let ask = LeaseAsk {
                space: space.name.clone(),
                instance: self.instance().clone(),
                // Where nothing but blocked keys came, more of them are leased at once.
                size: (count - taken).max(fruitless).min(LEASE_MAX),
                share: 1,
                last_lease,
                spent: last_lease.into_iter().collect(),
            };
            let grant = inner.fence.lease(&ask, &space.codec).await;
            let grant = match grant.map_err(ServiceError::from) {
                Err(ServiceError::Exhausted { .. } | ServiceError::Sealed(_)) if taken > 0 => break,
                grant => grant?,
            };
            last_lease = Some(grant.lease);
            let Range { start, end } = grant.ordinals;
            let (mut at, before) = (start, taken);
            while at < end && taken < count && read {
                // In pieces: where the reader has gone, the rest of the lease is given back.
                let records_each_key = space.records_each_key();
                let piece = if records_each_key { CLAIM_MAX } else { PIECE };
                let run = at..end.min(at.saturating_add((count - taken).min(piece)));
                at = run.end;
                let each = |key: &[u8]| read = read && each(key);
                taken += u64::from(if records_each_key {
                    space.hand_out(run, caller, each).await?
                } else {
                    space.write_keys(run, each).await
                });
            }
            fruitless = if taken == before { fruitless + (at - start) } else { 0 };
            let given_up = space.check_fruitless(fruitless, FRUITLESS_MAX);
            if taken >= count || !read || given_up.is_err() {
                let rest = at..end;
                let back = GiveBack {
                    space: space.name.clone(),
                    instance: self.instance().id.clone(),
                    lease: grant.lease,
                    end,
                    closed_at: at,
                    returned: if rest.is_empty() { Vec::new() } else { vec![rest] },
                };
                let closed = inner.fence.give_back(vec![back]).await?;
                closed.into_iter().collect::<Result<Vec<_>, StoreError>>()?;
            }
            given_up?;
        }
        Ok(taken)
    }

    /// Takes keys that are not leased by number, as many as one take may have at a time.
    async fn take_all(
        &self,
        space: &Arc<Space>,
        count: u64,
        caller: &str,
        mut each: impl FnMut(&[u8]) -> bool + Send,
    ) -> Result<u64, ServiceError> {
        let (mut taken, mut read) = (0, true);
        while taken < count && read {
            let some = u32::try_from(count - taken).unwrap_or(u32::MAX);
            let some = some.min(self.limits().count_max);
            let each = |key: &[u8]| read = read && each(key);
            match self.take(space, some, caller, each).await {
                Ok(some) => taken += u64::from(some.count),
                Err(ServiceError::Exhausted { .. } | ServiceError::Sealed(_)) if taken > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Takes keys of a pool for a command that ends.
    async fn claim_exactly(
        &self,
        space: &Space,
        count: u64,
        caller: &str,
        mut each: impl FnMut(&[u8]) -> bool + Send,
    ) -> Result<u64, ServiceError> {
        let pool = self.pool_of(space).ok_or_else(|| no_pool(&space.name))?;
        let (mut taken, mut fruitless, mut read) = (0, 0, true);
        while taken < count && read {
            let tuning = space.record().tuning.clone();
            let reserve = tuning.audit == Audit::Key;
            let size = (count - taken).min(CLAIM_MAX);
            let (claim, claimed_as) = pool.claim_now(size, 1, reserve, &tuning).await?;
            if claim.keys.is_empty() && claim.available > 0 {
                let problem = "other instances are claiming the last keys of the pool".to_owned();
                return Err(ServiceError::StoreUnavailable(problem));
            }
            if claim.keys.is_empty() {
                if tuning.low_water > 0 {
                    fruitless += 1;
                    if fruitless > FRUITLESS_FILLS_MAX {
                        return Err(ServiceError::PoolFilling { space: space.name.clone() });
                    }
                    match pool.top_up(&tuning).await {
                        Ok(_) => continue,
                        Err(StoreError::Exhausted { .. }) if taken > 0 => break,
                        Err(error) => return Err(error.into()),
                    }
                }
                if taken > 0 {
                    break;
                }
                return Err(ServiceError::PoolEmpty { space: space.name.clone() });
            }
            fruitless = 0;
            let numbers = pool.claimed.add(claim.keys, claimed_as);
            pool.claimed.forget_below(numbers.start);
            let each = |key: &[u8]| read = read && each(key);
            taken += u64::from(space.hand_out(numbers, caller, each).await?);
        }
        Ok(taken)
    }
}
