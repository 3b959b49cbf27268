//! Looking once more: whether a change that was committed is still there, in the very state of the
//! store that decides what becomes of it.
//!
//! A change and the reads that follow it may be answered by different servers: by an old primary
//! whose connection is still in the pool, by a replica behind a proxy that splits reads from writes,
//! or by a store that was restored while this process was paused. So what decides which keys leave is
//! read in one transaction that looks at the space's mark first, and an answer below the mark of the
//! change is refused.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;

use super::{KeyRef, LeaseId, Mark, NameRecord, NewName, SpaceRecord, StoreError};

/// Reads that decide which keys leave: each in one transaction together with the space's mark.
#[async_trait]
pub trait Snapshots: fmt::Debug + Send + Sync {
    /// Looks once more at what a change has left on record, and reads what decides which keys
    /// leave, in one transaction that looks at the space's mark first. Where that lies below what the
    /// change has reached, a store with several connections closes those that it has and asks over a
    /// new one; only that answer is [`StoreError::RolledBack`].
    async fn confirm(&self, what: &Confirm) -> Result<Confirmed, StoreError>;

    /// Names without an ordinal, removed ones too, by key and after a given one. Read in one
    /// transaction with the space's mark, which must have reached `reached`, as in
    /// [`Snapshots::confirm`].
    async fn names_without_ordinal(
        &self,
        space: &str,
        reached: Mark,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StoreError>;
}

/// What to look for.
#[derive(Debug, Clone)]
pub struct Confirm {
    /// The name of the space.
    pub space: String,
    /// How far the space must have come: the mark of the change.
    pub reached: Mark,
    /// What the change has left on record.
    pub evidence: Evidence,
    /// The ordinals whose skips are wanted; empty where none are.
    pub skips_in: Range<u64>,
}

/// What a change leaves on record. One row of many is enough: a change is a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing but the mark.
    Mark,
    /// A lease, or the tenancy of a worker, that reaches at least up to an ordinal.
    Lease {
        /// Its number.
        lease: LeaseId,
        /// The instance that holds it.
        holder: String,
        /// The end of its ordinals.
        end: u64,
    },
    /// A name and its owner.
    Name {
        /// The key that was taken.
        name: NewName,
        /// Whom it must belong to.
        owner: String,
    },
    /// A used key, and the instance that used it.
    Used {
        /// The key.
        at: KeyRef,
        /// Who used it.
        instance: String,
    },
    /// The key of an input.
    Digest {
        /// What tells the input from every other.
        hash: [u8; 32],
        /// The key that the input must have.
        key: String,
    },
}

/// What was found, all of it in one state of the store that has reached what was asked for.
#[derive(Debug, Clone)]
pub struct Confirmed {
    /// The space, in that state.
    pub space: SpaceRecord,
    /// Whether the evidence is on record.
    pub on_record: bool,
    /// The ordinals that names occupy, of those asked for; in order.
    pub skips: Vec<u64>,
}

impl Confirm {
    /// Refuses a state of the space that lies below what was asked for.
    pub fn check(&self, space: &SpaceRecord) -> Result<(), StoreError> {
        if space.mark.has_reached(self.reached) {
            return Ok(());
        }
        let (seen, found) = (self.reached, space.mark);
        let evidence = format!(
            "`{}` is at ordinal {} (revision {}), but a change was committed at {} (revision {})",
            self.space, found.next, found.revision, seen.next, seen.revision
        );
        Err(StoreError::rolled_back(&self.space, seen, evidence))
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Evidence::Mark => write!(f, "the last change"),
            Evidence::Lease { lease, .. } => write!(f, "lease {lease}"),
            Evidence::Name { name, .. } => write!(f, "the name `{}`", name.key),
            Evidence::Used { at, .. } => write!(f, "the use of `{}`", at.key),
            Evidence::Digest { key, .. } => write!(f, "the digest `{key}`"),
        }
    }
}

impl Evidence {
    /// Whether a name on record is the one that was taken. Keys in use elsewhere may be kept as mere
    /// ordinals, which have no owner.
    pub fn is_name(&self, found: Option<&NameRecord>) -> bool {
        let (Evidence::Name { owner, .. }, Some(found)) = (self, found) else { return false };
        found.removed_at.is_none() && (found.owner.is_empty() || found.owner == *owner)
    }
}
