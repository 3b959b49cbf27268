//! What is known of a take before it begins: whether keys can be taken, how long they are, and why there are
//! none.
//!
//! Takes and fronts ask it. It draws nothing, and never asks the store.

use super::source::Source;
use super::{ServiceError, Space};
use crate::source::numbers::Numbers;
use crate::source::outlook::NotReady;
use crate::source::uuids::{UUID_LEN, Uuids};

/// What a take draws from.
#[derive(Debug, Clone, Copy)]
pub(super) enum TakesFrom<'a> {
    /// What `supply` keeps filled.
    Numbers(Numbers<'a>),
    /// UUIDs, which are made when they are taken.
    Uuids(Uuids),
}

impl Space {
    /// What takes draw from. Refuses a space that makes keys from inputs; and one of UUIDs that was ended, because
    /// these never run out.
    #[inline]
    pub(super) fn takes_from(&self) -> Result<TakesFrom<'_>, ServiceError> {
        if let Some(numbers) = self.source.numbers() {
            return Ok(TakesFrom::Numbers(numbers));
        }
        let Source::Uuids(uuids) = self.source else { return Err(self.not_takeable()) };
        self.check_unsealed()?;
        Ok(TakesFrom::Uuids(uuids))
    }

    /// The refusal where keys are made from inputs, and there is nothing to take.
    pub(super) fn not_takeable(&self) -> ServiceError {
        ServiceError::WrongKind(format!(
            "`{0}` makes keys from inputs: use POST /v1/spaces/{0}/digests, `Digest` over gRPC, or `keymill \
             digest {0}`",
            self.name
        ))
    }

    /// Refuses where a take of one key is known to be refused. Nothing is drawn and the store is not asked, so
    /// what only the store can tell, such as that a pool has run empty meanwhile, is not known here.
    pub fn check_take(&self) -> Result<(), ServiceError> {
        let TakesFrom::Numbers(numbers) = self.takes_from()? else { return Ok(()) };
        if numbers.left() > 0 {
            return Ok(());
        }
        self.check_unsealed()?;
        let known = numbers.queue().outlook().check_hope().and_then(|()| numbers.can_meet(1));
        known.map_err(|why| self.refusal(why))
    }

    /// Refuses where the space was ended.
    pub(super) fn check_unsealed(&self) -> Result<(), ServiceError> {
        if self.record().sealed {
            return Err(ServiceError::Sealed(self.name.clone()));
        }
        Ok(())
    }

    /// The length of the longest key in bytes; imported ones may be longer.
    pub fn key_len_max(&self) -> usize {
        match self.source {
            Source::Uuids(_) => UUID_LEN,
            _ => self.generations().text_len_max(),
        }
    }

    /// Whether a take has the text of all its keys in memory at once, because they are rows.
    pub fn takes_rows(&self) -> bool {
        match self.source {
            Source::Leased(_) | Source::Ticks(_) => self.records_each_key(),
            Source::Claimed { .. } | Source::Digests(_) => true,
            Source::Uuids(_) => false,
        }
    }

    /// Why there are no keys, in the words of this space's kind.
    pub(super) fn refusal(&self, why: NotReady) -> ServiceError {
        match ServiceError::not_ready(&self.name, why) {
            ServiceError::Exhausted { space, .. } if self.is_empty_pool() => {
                ServiceError::PoolEmpty { space }
            }
            error => error,
        }
    }

    /// Refuses to look any further where so many ordinals in a row have made no key.
    pub(super) fn check_fruitless(&self, count: u64, max: u64) -> Result<(), ServiceError> {
        if count < max {
            return Ok(());
        }
        let (space, name) = (self.name.clone(), &self.name);
        let reason = format!(
            "the next {count} keys all match the blocklist and were skipped; try again to skip more, \
             or switch the blocklist off for `{name}` (`blocklist = false`)"
        );
        Err(ServiceError::NoKeysReady { space, reason, cause: None })
    }
}
