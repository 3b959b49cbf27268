//! Rows of keys: how they are numbered and found.
//!
//! A generated key's row is found by its id, which follows from its ordinal; so the tables grow at their
//! end, and no index is written at random. Pools and the use log share them.

use super::{ERA, LeaseId};
pub use crate::space::{Claimed, KeyId};

/// The most keys that one fill writes: their positions have to fit below the revision in an id.
pub const FILL_MAX: u64 = 1 << 16;

/// The last era of a pool: the ids of later ones would not fit 63 bits.
pub const ERA_MAX: u64 = (i64::MAX as u64) / FILL_MAX / ERA - 1;

/// What the row of a key is found by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRef {
    /// The name of the space.
    pub space: String,
    /// Under which id.
    pub id: KeyId,
    /// Its text.
    pub key: String,
}

/// The id of the key at a position in a fill or an import, under the revision that it makes.
pub fn key_id(revision: LeaseId, position: u64) -> KeyId {
    assert!(position < FILL_MAX, "{position} is beyond a fill");
    let id = revision.checked_mul(FILL_MAX).and_then(|id| i64::try_from(id + position).ok());
    id.expect("an advance for each of a hundred eras")
}

/// The lowest id of a pool that may be claimed: what lies below was written before an advance.
pub fn first_id(revision: u64) -> KeyId {
    key_id(revision / ERA * ERA, 0)
}
