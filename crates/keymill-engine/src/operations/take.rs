//! Taking keys: the one thing everything else is for.

use std::ops::Range;
use std::sync::Arc;
use std::time as clock;

use jiff::Timestamp;
use keymill_core::KeyText;
use tokio::time::Instant;

use super::pools::no_pool;
use super::source::Source;
use super::takeable::TakesFrom;
use super::unwritten::{Run, Unwritten};
use super::use_log::Given;
use super::{Service, ServiceError, Space, check_caller};
use crate::source::drawn::Drawn;
use crate::source::outlook::NotReady;
use crate::space::Audit;
use crate::store::{GiveBack, LeaseAsk, StoreError};
use crate::supply::claims::FRUITLESS_FILLS_MAX;

/// The most ordinals that one lease of an exact take asks for: what a crash would waste.
const EXACT_LEASE_MAX: u64 = 100_000;

/// The same of one claim.
const EXACT_CLAIM_MAX: u64 = 10_000;

/// How many ordinals are turned into keys before others get a turn: a fraction of a millisecond.
const PIECE: u64 = 4_096;

/// After so many ordinals without a key, a take gives up. They stay spent, so that the next one gets
/// further; without an end, a keyspace whose next million keys are blocked would occupy a thread.
pub(super) const FRUITLESS_MAX: u64 = 100_000;

/// After how many of them others get a turn.
const FRUITLESS_TURN: u64 = 64;

/// The same for a command that ends.
const EXACT_FRUITLESS_MAX: u64 = 10_000_000;

/// How many keys a take gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// As many as asked for, or fewer where the space ends.
    pub count: u32,
    /// When the first of them expires, where keys do.
    pub expires_at: Option<Timestamp>,
}

/// A key that was taken without waiting.
#[derive(Debug)]
pub struct TakenNow {
    /// The key.
    pub key: KeyText,
    /// How long its request took until then.
    pub took: clock::Duration,
}

impl Service {
    /// Takes `count` keys and gives each of them to `each`. Fewer only when the space ends
    /// there; none at all is an error. A take that ends in an error, or is dropped, has drawn nothing:
    /// what it had comes back, and what `each` was given must not be used.
    pub async fn take(
        &self,
        space: &Arc<Space>,
        count: u32,
        caller: &str,
        each: impl FnMut(&[u8]) + Send,
    ) -> Result<Taken, ServiceError> {
        let began = clock::Instant::now();
        let taken = self.take_unnoted(space, count, caller, each).await;
        space.usage.note_end(began, taken.as_ref().ok().map(|taken| taken.count as usize));
        taken
    }

    /// Takes one key for each of several requests that came together at `began`. Where that fails nothing is noted,
    /// because each of them is then taken for itself.
    pub async fn take_together(
        &self,
        space: &Arc<Space>,
        count: u32,
        began: clock::Instant,
        each: impl FnMut(&[u8]) + Send,
    ) -> Result<Taken, ServiceError> {
        let taken = self.take_unnoted(space, count, "", each).await?;
        space.usage.note(began.elapsed(), taken.count, taken.count);
        Ok(taken)
    }

    async fn take_unnoted(
        &self,
        space: &Arc<Space>,
        count: u32,
        caller: &str,
        mut each: impl FnMut(&[u8]) + Send,
    ) -> Result<Taken, ServiceError> {
        self.check_count(count)?;
        check_caller(caller)?;
        let numbers = match space.takes_from()? {
            TakesFrom::Numbers(numbers) => numbers,
            TakesFrom::Uuids(uuids) => {
                uuids.make(count, each);
                return Ok(Taken { count, expires_at: None });
            }
        };
        numbers.can_meet(count.into()).map_err(|why| space.refusal(why))?;
        if space.takes_rows() {
            let Given { count, expires_at, .. } =
                space.take_on_record(numbers, count, caller, each).await?;
            return Ok(Taken { count, expires_at });
        }
        let (mut taken, mut fruitless) = (0, 0);
        let (mut drawn, deadline) = (Drawn::of(numbers), numbers.queue().deadline());
        while taken < count {
            let ordinals = match numbers.draw(u64::from(count - taken), deadline).await {
                Ok(ordinals) => ordinals,
                Err(NotReady::Exhausted { .. } | NotReady::Sealed) if taken > 0 => break,
                Err(why) => return Err(space.refusal(why)),
            };
            drawn.add(ordinals.clone());
            let tried = ordinals.end - ordinals.start;
            let made = space.write_keys(ordinals, &mut each).await;
            taken += made;
            if made == 0 {
                drawn.spend_last();
                fruitless += tried;
                space.check_fruitless(fruitless, FRUITLESS_MAX)?;
                yield_often(fruitless, tried).await;
            } else {
                fruitless = 0;
            }
        }
        drawn.keep();
        Ok(Taken { count: taken, expires_at: None })
    }

    /// Takes `count` keys whose text is written later, piece by piece: as many as a take would give, or
    /// the same refusal. All of them are drawn, and on record where they have to be, when this returns.
    pub async fn take_later(
        &self,
        space: &Arc<Space>,
        count: u32,
        caller: &str,
    ) -> Result<Unwritten, ServiceError> {
        let began = clock::Instant::now();
        let taken = self.take_later_unnoted(space, count, caller).await;
        space.usage.note_end(began, taken.as_ref().ok().map(|taken| taken.count() as usize));
        taken
    }

    async fn take_later_unnoted(
        &self,
        space: &Arc<Space>,
        count: u32,
        caller: &str,
    ) -> Result<Unwritten, ServiceError> {
        self.check_count(count)?;
        let numbers = match space.takes_from()? {
            TakesFrom::Numbers(numbers) => numbers,
            TakesFrom::Uuids(uuids) => return Ok(Unwritten::of_uuids(uuids, count)),
        };
        numbers.can_meet(count.into()).map_err(|why| space.refusal(why))?;
        if space.takes_rows() {
            // These are rows, and were text before they were drawn.
            let mut texts = Vec::with_capacity((space.key_len_max() + 1) * count as usize);
            let each = |key: &[u8]| {
                texts.extend_from_slice(key);
                texts.push(b'\n');
            };
            let given = space.take_on_record(numbers, count, caller, each).await?;
            return Ok(Unwritten::of_texts(texts, given.count, given.expires_at));
        }
        let mut unwritten = Unwritten::of_numbers();
        let (mut fruitless, mut deadline) = (0, numbers.queue().deadline());
        while unwritten.count() < count {
            let wanted = u64::from(count - unwritten.count());
            let discards = space.discards();
            let drawn = match numbers.draw(wanted, deadline).await {
                Ok(drawn) => drawn,
                Err(NotReady::Exhausted { .. } | NotReady::Sealed) if unwritten.count() > 0 => {
                    break;
                }
                Err(why) => return Err(space.refusal(why)),
            };
            let tried = drawn.end - drawn.start;
            // What an advance has overtaken since it was drawn is a gap.
            let Some(run) = Run::new(space, drawn, discards) else { continue };
            let began = Instant::now();
            let made = unwritten.add(run).await;
            // To look at keys is not to wait for them.
            deadline += began.elapsed();
            if made == 0 {
                fruitless += tried;
                space.check_fruitless(fruitless, FRUITLESS_MAX)?;
                yield_often(fruitless, tried).await;
            } else {
                fruitless = 0;
            }
        }
        Ok(unwritten)
    }

    /// Takes one key of a space that this instance has met, without waiting and without a
    /// reference count that all threads would have to share; `None` where that is not possible.
    #[inline]
    pub fn take_now(&self, space: &str) -> Option<KeyText> {
        self.inner.spaces.shard(space).load().get(space)?.take_now()
    }

    /// The same for a request that came at `began`, which is noted in the usage of the space.
    #[inline]
    pub fn take_noted(&self, space: &str, began: clock::Instant) -> Option<TakenNow> {
        self.inner.spaces.shard(space).load().get(space)?.take_noted(began)
    }

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
                size: (count - taken).max(fruitless).min(EXACT_LEASE_MAX),
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
                let piece = if records_each_key { EXACT_CLAIM_MAX } else { PIECE };
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
            let given_up = space.check_fruitless(fruitless, EXACT_FRUITLESS_MAX);
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
            let size = (count - taken).min(EXACT_CLAIM_MAX);
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

    /// Refuses a count that cannot be asked for.
    pub fn check_count(&self, count: u32) -> Result<(), ServiceError> {
        let max = self.limits().count_max;
        if (1..=max).contains(&count) { Ok(()) } else { Err(ServiceError::BadCount { max }) }
    }
}

/// Gives others their turn now and then, while ordinals make no key.
pub(super) async fn yield_often(fruitless: u64, tried: u64) {
    if fruitless % FRUITLESS_TURN < tried {
        tokio::task::yield_now().await;
    }
}

impl Space {
    /// Takes one key without waiting; `None` where that is not possible.
    #[inline]
    pub fn take_now(&self) -> Option<KeyText> {
        if self.records_each_key() {
            return None;
        }
        let drawn = match &self.source {
            Source::Leased(mill) => mill.try_draw(1),
            Source::Ticks(ticks) => ticks.try_draw(1),
            Source::Claimed { .. } | Source::Uuids(_) | Source::Digests(_) => return None,
        };
        let ordinal = drawn.ok()??.start;
        // After the draw: it may be the first of a new generation.
        self.with_rules(|rules| rules.key(ordinal))
    }

    /// The same for a request that came at `began`, which is noted in the usage of the space.
    #[inline]
    pub fn take_noted(&self, began: clock::Instant) -> Option<TakenNow> {
        let key = self.take_now()?;
        let took = began.elapsed();
        self.usage.note(took, 1, 1);
        Some(TakenNow { key, took })
    }

    /// Writes the keys of a run of ordinals, but for skips and blocked ones, and counts them. Others
    /// get their turn between its pieces.
    async fn write_keys(&self, ordinals: Range<u64>, mut each: impl FnMut(&[u8]) + Send) -> u32 {
        let (mut start, mut count) = (ordinals.start, 0);
        loop {
            let end = ordinals.end.min(start.saturating_add(PIECE));
            count += self.write_piece(start..end, &mut each);
            start = end;
            if start >= ordinals.end {
                return count;
            }
            tokio::task::yield_now().await;
        }
    }

    fn write_piece(&self, ordinals: Range<u64>, mut each: impl FnMut(&[u8])) -> u32 {
        let mut count = 0;
        self.with_rules(|rules| {
            rules.keys(ordinals, |_, key| {
                each(key);
                count += 1;
            });
        });
        count
    }
}
