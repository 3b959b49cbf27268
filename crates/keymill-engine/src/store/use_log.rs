//! The record of single keys: who got which key, and when.
//!
//! For the stores that can keep a row for each key.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Claimed, Floor, KeyId, KeyRef, Mark, StoreError, must_be_on_record};

/// The record of single keys.
#[async_trait]
pub trait UseLog: fmt::Debug + Send + Sync {
    /// Notes that keys are handed out, all in one transaction. Says for each whether it may be: a key
    /// of a pool only if it is still reserved for the instance.
    async fn note(&self, uses: &Uses, floor: &Floor) -> Result<Noted, StoreError>;

    /// Retires a key, noting it as used where it was not; a second time changes nothing of it. Returns how
    /// far the space has come, and the key.
    async fn retire(&self, retire: &Retire, floor: &Floor) -> Result<(Mark, UsedKey), StoreError>;

    /// Used keys by time, and by id where times are equal.
    async fn used_page(&self, page: &UsedPage) -> Result<Vec<UsedKey>, StoreError>;

    /// Whether every single key can be noted before it is handed out.
    fn notes_keys(&self) -> bool {
        true
    }
}

/// Keys that are handed out.
#[derive(Debug, Clone)]
pub struct Uses {
    /// The name of the space.
    pub space: String,
    /// The ID of the instance that hands them out.
    pub instance: String,
    /// The keys, in the order of the answer.
    pub keys: Vec<KeyUse>,
    /// Whether they are reserved keys of a pool, rather than of a lease.
    pub pooled: bool,
    /// How long a used key lives.
    pub ttl: Option<Duration>,
    /// What must still be on record.
    pub last: Option<LastUse>,
}

/// A key that is handed out to a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUse {
    /// Its row: in the pool, or its ordinal.
    pub id: KeyId,
    /// Its text.
    pub key: String,
    /// Who gets it; empty where the caller gave no name.
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

/// A key that an instance has used last. In a store that was rolled back it is not on record, also when
/// others have made as many changes since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastUse {
    /// The key, with its row.
    pub key: Claimed,
    /// The revision that noted its use.
    pub revision: u64,
}

/// A key to retire.
#[derive(Debug, Clone)]
pub struct Retire {
    /// What its row is found by.
    pub at: KeyRef,
    /// Since when it may be in use, where no row tells.
    pub used_at: Timestamp,
    /// The ID of the instance that retires it.
    pub instance: String,
}

/// A used key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedKey {
    /// Its row.
    pub id: KeyId,
    /// Its text.
    pub key: String,
    /// When it was handed out, or claimed.
    pub used_at: Timestamp,
    /// To whom; empty where nobody said.
    pub caller: String,
    /// The ID of the instance that handed it out.
    pub instance: String,
    /// When it ceases to be.
    pub expires_at: Option<Timestamp>,
    /// When it was retired.
    pub retired_at: Option<Timestamp>,
}

/// Which used keys to list.
#[derive(Debug, Clone)]
pub struct UsedPage {
    /// The name of the space.
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
