//! Pools: keys that are written out in advance, for the stores that can keep them.
//!
//! # Promises
//!
//! - A key is available, reserved or used, and moves from one to the next in one transaction. A used
//!   key is never available again, unless the instance that claimed it gives it back undrawn.
//! - Every change adds to the revision of its space and is refused below the floor it carries.
//! - A reservation that has outlived its time, by the store's clock, is anybody's; because the use of
//!   a key checks that it is still reserved for the one who uses it, no key is used twice.
//! - What was available before an advance is never claimed after it: it may be in use.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{
    Claimed, ERA, FILL_MAX, Floor, Grant, KeyId, KeyRef, LastUse, Mark, SpaceRecord, StoreError,
    UsedKey,
};
use crate::instance::Instance;
use crate::space::skips::without;

/// Keys written out in advance, and claimed.
#[async_trait]
pub trait Pools: fmt::Debug + Send + Sync {
    /// Grants ordinals and writes their keys into the pool, in one transaction; those that names
    /// occupy are left out. Nothing, where the pool has as many as it should already;
    /// [`StoreError::Outdated`], where the space has grown or was advanced since the caller looked.
    async fn fill(&self, fill: &Fill, floor: &Floor) -> Result<Filled, StoreError>;

    /// Claims keys of the pool: at most `size`, and at most one `share`-th of what is available but
    /// always one. Reserved for the instance where `reserve` says so, used otherwise. None, where
    /// the pool is empty.
    async fn claim(&self, ask: &ClaimAsk, floor: &Floor) -> Result<Claim, StoreError>;

    /// Gives back claimed keys that were not handed out. Those that are not the instance's any more
    /// are left alone.
    async fn release(&self, back: &Release, floor: &Floor) -> Result<Mark, StoreError>;

    /// How many keys of a pool are available.
    async fn available(&self, space: &str) -> Result<u64, StoreError>;

    /// Where a key of a pool is.
    async fn find(&self, at: &KeyRef) -> Result<Option<Found>, StoreError>;

    /// What the row of a key is found by that somebody imported into a pool.
    async fn imported(&self, space: &str, key: &str) -> Result<Option<KeyRef>, StoreError>;

    /// Keys that are available, in the order in which they are claimed.
    async fn available_page(&self, page: &AvailablePage) -> Result<Vec<Claimed>, StoreError>;

    /// The most keys of one fill that do not keep others waiting for long.
    fn fill_max(&self) -> u64 {
        FILL_MAX
    }
}

/// Writes the keys of a run of ordinals, but for blocked ones.
pub type WriteKeys = Arc<dyn Fn(Range<u64>, &mut dyn FnMut(u64, &str)) + Send + Sync>;

/// A request to fill a pool.
#[derive(Clone)]
pub struct Fill {
    /// The name of the space.
    pub space: String,
    /// Who fills it.
    pub instance: Instance,
    /// At most so many keys.
    pub size: u64,
    /// Do nothing when so many are available already.
    pub enough: Option<u64>,
    /// From ordinals to keys.
    pub write: WriteKeys,
    /// How many ordinals `write` knows of. Where more are granted, the fill is refused.
    pub capacity: u64,
    /// The era in which that was so. In another one, the fill is refused.
    pub era: u64,
}

/// What a fill came to.
#[derive(Debug, Clone)]
pub struct Filled {
    /// How far the space has come.
    pub mark: Mark,
    /// How many keys were written.
    pub added: u64,
    /// How many are available now.
    pub available: u64,
}

/// A request for keys of a pool.
#[derive(Debug, Clone)]
pub struct ClaimAsk {
    /// The name of the space.
    pub space: String,
    /// The instance that claims them.
    pub instance: Instance,
    /// At most so many.
    pub size: u64,
    /// At most this fraction of what is available.
    pub share: u64,
    /// Where the last claim ended: looking begins there, to pass over what was deleted before.
    pub after: KeyId,
    /// Whether they are reserved, rather than used at once.
    pub reserve: bool,
    /// After which time others may claim what is reserved.
    pub reserve_max: Duration,
    /// How long a used key lives.
    pub ttl: Option<Duration>,
    /// What must still be on record.
    pub last: Option<LastUse>,
}

/// Claimed keys.
#[derive(Debug, Clone)]
pub struct Claim {
    /// How far the space has come.
    pub mark: Mark,
    /// The keys; none where the pool is empty.
    pub keys: Vec<Claimed>,
    /// How many are available after it.
    pub available: u64,
}

/// Claimed keys to give back.
#[derive(Debug, Clone)]
pub struct Release {
    /// The name of the space.
    pub space: String,
    /// The ID of the instance that claimed them.
    pub instance: String,
    /// The keys, each with its row.
    pub keys: Vec<Claimed>,
    /// Whether they were reserved, rather than used.
    pub reserved: bool,
}

/// A key that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// In the pool.
    Available,
    /// In the pool, for an instance.
    Reserved {
        /// The ID of the instance.
        by: String,
        /// Since when.
        at: Timestamp,
    },
    /// Handed out, or in the memory of the instance that will.
    Used(UsedKey),
}

/// Which available keys to list.
#[derive(Debug, Clone)]
pub struct AvailablePage {
    /// The name of the space.
    pub space: String,
    /// Those after this one.
    pub after: Option<Claimed>,
    /// At most so many.
    pub limit: u32,
}

impl Fill {
    /// Grants the ordinals to write: none where the space has ended.
    pub fn grant(&self, space: &mut SpaceRecord) -> Result<Grant, StoreError> {
        let Some(grant) = space.grant_up_to(self.size) else {
            return Err(StoreError::Exhausted { space: self.space.clone(), held_elsewhere: 0 });
        };
        if grant.ordinals.end > self.capacity || grant.lease / ERA != self.era {
            return Err(StoreError::Outdated(self.space.clone()));
        }
        Ok(grant)
    }

    /// The keys of ordinals, each with its ordinal, but for those that names occupy.
    pub fn keys(&self, ordinals: Range<u64>, skips: &[u64]) -> Vec<(u64, String)> {
        let mut keys = Vec::new();
        without(skips, ordinals, |run| {
            (self.write)(run, &mut |ordinal, key| keys.push((ordinal, key.to_owned())));
        });
        keys
    }
}

impl fmt::Debug for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fill { space, size, .. } = self;
        write!(f, "Fill {{ {size} of {space} }}")
    }
}

impl ClaimAsk {
    /// How many keys to claim where so many are available.
    pub fn size_of(&self, available: u64) -> u64 {
        self.size.min(available / self.share.max(1)).max(1)
    }
}
