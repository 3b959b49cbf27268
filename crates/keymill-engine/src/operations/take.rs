//! Taking keys: the one thing everything else is for.

use std::ops::Range;
use std::sync::Arc;
use std::time as clock;

use jiff::Timestamp;
use keymill_core::KeyText;
use tokio::time::Instant;

use super::source::Source;
use super::takeable::TakesFrom;
use super::unwritten::{Run, Unwritten};
use super::use_log::Given;
use super::{Service, ServiceError, Space, check_caller};
use crate::source::drawn::Drawn;
use crate::source::outlook::NotReady;

/// How many ordinals are turned into keys before others get a turn: a fraction of a millisecond.
pub(super) const PIECE: u64 = 4_096;

/// After so many ordinals without a key, a take gives up. They stay spent, so that the next one gets
/// further; without an end, a keyspace whose next million keys are blocked would occupy a thread.
pub(super) const FRUITLESS_MAX: u64 = 100_000;

/// After how many of them others get a turn.
const FRUITLESS_TURN: u64 = 64;

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
    pub(super) async fn write_keys(
        &self,
        ordinals: Range<u64>,
        mut each: impl FnMut(&[u8]) + Send,
    ) -> u32 {
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
