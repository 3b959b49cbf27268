//! Keys as rows: pools, used keys, digests. For the stores that can keep them.
//!
//! `operations` and `supply` find it through [`Store::keys`](super::Store::keys). A generated key's row
//! is found by its id, which follows from its ordinal; so the tables grow at their end, and no index
//! is written at random.
//!
//! # Promises
//!
//! - A key is available, reserved or used, and moves from one to the next in one transaction. A used
//!   key is never available again, unless the instance that claimed it gives it back undrawn.
//! - Every change adds to the revision of its space and is refused below the floor it carries.
//! - A reservation that has outlived its time, by the store's clock, is anybody's; because the use of
//!   a key checks that it is still reserved for the one who uses it, no key is used twice.
//! - What was available before an advance is never claimed after it: it may be in use.

mod digest;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{ERA, Floor, Grant, LeaseId, Mark, SpaceRecord, StoreError, must_be_on_record};
use crate::instance::Instance;

pub use digest::{DigestBatch, DigestInput, DigestKey, Digested};

/// The most keys that one fill writes: their places have to fit below the revision in an id.
pub const FILL_MAX: u64 = 1 << 16;

/// The last era of a pool: the ids of later ones would not fit 63 bits.
pub const ERA_MAX: u64 = (i64::MAX as u64) / FILL_MAX / ERA - 1;

/// A store that keeps rows of keys.
#[async_trait]
pub trait KeyStore: fmt::Debug + Send + Sync {
    /// Grants ordinals and writes their keys into the pool, in one transaction; those that names
    /// occupy are left out. Nothing, where the pool has as many as it should already;
    /// [`StoreError::Outdated`], where the space has grown or was advanced since the caller looked.
    async fn fill(&self, fill: &Fill) -> Result<Filled, StoreError>;

    /// Claims keys of the pool: at most `size`, and at most one `share`-th of what is available but
    /// always one. Reserved for the instance where `reserve` says so, used otherwise. None, where
    /// the pool is empty.
    async fn claim(&self, ask: &ClaimAsk) -> Result<Claim, StoreError>;

    /// Gives back claimed keys that were not handed out. Those that are not the instance's any more
    /// are left alone.
    async fn release(&self, back: &Release) -> Result<Mark, StoreError>;

    /// Notes that keys are handed out, all in one transaction. Says for each whether it may be: a key
    /// of a pool only if it is still reserved for the instance.
    async fn note(&self, uses: &Uses) -> Result<Noted, StoreError>;

    /// Retires a key, noting it as used where it was not; a second time changes nothing.
    async fn retire(&self, retire: &Retire) -> Result<UsedKey, StoreError>;

    /// How many keys of a pool are available.
    async fn available(&self, space: &str) -> Result<u64, StoreError>;

    /// Where a key of a pool is.
    async fn find(&self, at: &KeyPlace) -> Result<Option<Found>, StoreError>;

    /// The place of a key that somebody imported into a pool.
    async fn imported(&self, space: &str, key: &str) -> Result<Option<KeyPlace>, StoreError>;

    /// Keys that are available, in the order in which they are claimed.
    async fn available_page(&self, page: &AvailablePage) -> Result<Vec<Claimed>, StoreError>;

    /// Used keys by time, and by id where times are equal.
    async fn used_page(&self, page: &UsedPage) -> Result<Vec<UsedKey>, StoreError>;

    /// Finds or makes the keys of inputs, all in one transaction.
    async fn digest(&self, batch: &DigestBatch) -> Result<Digested, StoreError>;

    /// Whether every single key can be noted before it is handed out.
    fn notes_keys(&self) -> bool {
        true
    }

    /// The most keys of one fill that do not keep others waiting for long.
    fn fill_max(&self) -> u64 {
        FILL_MAX
    }
}

/// The number of a row of a key. It rises with the revision that wrote it.
pub type KeyId = i64;

/// Writes the keys of a run of ordinals, but for blocked ones.
pub type WriteKeys = Arc<dyn Fn(Range<u64>, &mut dyn FnMut(u64, &str)) + Send + Sync>;

/// A request to fill a pool.
#[derive(Clone)]
pub struct Fill {
    /// Of which space.
    pub space: String,
    /// Who fills it.
    pub instance: Instance,
    /// At most so many keys.
    pub size: u64,
    /// Do nothing when so many are available already.
    pub enough: Option<u64>,
    /// From ordinals to keys.
    pub write: WriteKeys,
    /// How many ordinals that knows of,
    pub capacity: u64,
    /// in which era.
    pub era: u64,
    /// What the space must have reached.
    pub floor: Floor,
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
    /// Of which space.
    pub space: String,
    /// For whom.
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
    /// What the space must have reached.
    pub floor: Floor,
}

/// A key that an instance has used last. In a store that was rolled back it is not on record, also when
/// others have made as many changes since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastUse {
    /// The key.
    pub key: Claimed,
    /// The revision that noted its use.
    pub revision: u64,
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

/// A key of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Its row.
    pub id: KeyId,
    /// The key.
    pub key: String,
}

/// Claimed keys to give back.
#[derive(Debug, Clone)]
pub struct Release {
    /// Of which space.
    pub space: String,
    /// Whose they are.
    pub instance: String,
    /// The keys.
    pub keys: Vec<Claimed>,
    /// Whether they were reserved, rather than used.
    pub reserved: bool,
    /// What the space must have reached.
    pub floor: Floor,
}

/// Keys that are handed out.
#[derive(Debug, Clone)]
pub struct Uses {
    /// Of which space.
    pub space: String,
    /// By whom.
    pub instance: String,
    /// The keys.
    pub keys: Vec<KeyUse>,
    /// Whether they are reserved keys of a pool, rather than of a lease.
    pub pooled: bool,
    /// How long a used key lives.
    pub ttl: Option<Duration>,
    /// What must still be on record.
    pub last: Option<LastUse>,
    /// What the space must have reached.
    pub floor: Floor,
}

/// A key that is handed out to a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUse {
    /// Its row: in the pool, or its ordinal.
    pub id: KeyId,
    /// The key.
    pub key: String,
    /// To whom.
    pub caller: String,
}

/// What became of keys to be handed out.
#[derive(Debug, Clone)]
pub struct Noted {
    /// How far the space has come.
    pub mark: Mark,
    /// For each, in their order, whether it may be handed out.
    pub may_go: Vec<bool>,
}

/// A key to retire.
#[derive(Debug, Clone)]
pub struct Retire {
    /// Which.
    pub at: KeyPlace,
    /// Since when it may be in use, where no row tells.
    pub used_at: Timestamp,
    /// By whom.
    pub instance: String,
    /// What the space must have reached.
    pub floor: Floor,
}

/// Where a key would be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPlace {
    /// In which space.
    pub space: String,
    /// Under which id.
    pub id: KeyId,
    /// The key.
    pub key: String,
}

/// A key that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// In the pool.
    Available,
    /// In the pool, for an instance.
    Reserved {
        /// Which.
        by: String,
        /// Since when.
        at: Timestamp,
    },
    /// Handed out, or in the memory of the instance that will.
    Used(UsedKey),
}

/// A used key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedKey {
    /// Its row.
    pub id: KeyId,
    /// The key.
    pub key: String,
    /// When it was handed out, or claimed.
    pub used_at: Timestamp,
    /// To whom; empty where nobody said.
    pub caller: String,
    /// By which instance.
    pub instance: String,
    /// When it ceases to be.
    pub expires_at: Option<Timestamp>,
    /// When it was retired.
    pub retired_at: Option<Timestamp>,
}

/// Which available keys to list.
#[derive(Debug, Clone)]
pub struct AvailablePage {
    /// Of which space.
    pub space: String,
    /// Those after this one.
    pub after: Option<Claimed>,
    /// At most so many.
    pub limit: u32,
}

/// Which used keys to list.
#[derive(Debug, Clone)]
pub struct UsedPage {
    /// Of which space.
    pub space: String,
    /// Used at this time or later.
    pub from: Option<Timestamp>,
    /// Used before this time.
    pub to: Option<Timestamp>,
    /// Handed out to this caller.
    pub caller: Option<String>,
    /// Those after this one: its time and its id.
    pub after: Option<(Timestamp, KeyId)>,
    /// At most so many.
    pub limit: u32,
}

/// The id of the key at a place of a fill or an import, under the revision that it makes.
pub fn key_id(revision: LeaseId, place: u64) -> KeyId {
    assert!(place < FILL_MAX, "{place} is beyond a fill");
    let id = revision.checked_mul(FILL_MAX).and_then(|id| i64::try_from(id + place).ok());
    id.expect("an advance for each of a hundred eras")
}

/// The lowest id of a pool that may be claimed: what lies below was written before an advance.
pub fn first_id(revision: u64) -> KeyId {
    key_id(revision / ERA * ERA, 0)
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
}

impl fmt::Debug for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fill { space, size, .. } = self;
        write!(f, "Fill {{ {size} of {space} }}")
    }
}

impl LastUse {
    /// Whether it has to be on record in a space that stands at `revision`.
    pub fn is_expected(&self, revision: u64) -> bool {
        must_be_on_record(self.revision, revision)
    }

    /// What to answer when it is not.
    pub fn lost(&self, space: &str, floor: &Floor) -> StoreError {
        let evidence = format!("the use of `{}` is no longer on record", self.key.key);
        StoreError::rolled_back(space, floor.mark, evidence)
    }
}

impl ClaimAsk {
    /// How many keys to claim where so many are available.
    pub fn size_of(&self, available: u64) -> u64 {
        self.size.min(available / self.share.max(1)).max(1)
    }
}

impl UsedPage {
    /// Where the page begins: after this time and id.
    pub fn after_or_from(&self) -> (i64, KeyId) {
        let from =
            self.from.map_or((i64::MIN, KeyId::MIN), |from| (from.as_millisecond(), KeyId::MIN));
        self.after.map_or(from, |(at, id)| from.max((at.as_millisecond(), id)))
    }
}

impl UsedKey {
    /// When the key ended, if it has.
    pub fn ended_at(&self, now: Timestamp) -> Option<Timestamp> {
        let expired = self.expires_at.filter(|at| *at <= now);
        [self.retired_at, expired].into_iter().flatten().min()
    }
}
