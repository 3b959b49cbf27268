//! Leases: what a store is asked about ranges of ordinals, and what it answers.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Floor, Mark, StoreError, must_be_on_record};
use crate::instance::Instance;

/// Ranges of ordinals and who holds them.
#[async_trait]
pub trait Leases: fmt::Debug + Send + Sync {
    /// Grants a range of ordinals: from what was given back first, otherwise from `next`.
    ///
    /// At most `size` ordinals, and at most one `share`-th of what is left but always one.
    /// Leases listed as `spent` are closed at their end in the same transaction, also when
    /// the answer is [`StoreError::Exhausted`].
    async fn lease(&self, ask: &LeaseAsk, floor: &Floor) -> Result<Grant, StoreError>;

    /// Closes leases where drawing ended and makes what was not drawn available again, all in one
    /// transaction, each above its floor. For each: how far its space has come with it. A lease that is not open, or not
    /// the caller's, or does not end where the caller says, is left alone, and so is one whose space
    /// is refused; the others are closed nevertheless. There may be
    /// several leases of one space, and hundreds of spaces.
    async fn give_back(
        &self,
        backs: &[(GiveBack, Floor)],
    ) -> Result<Vec<Result<Mark, StoreError>>, StoreError>;

    /// The lease under which an ordinal was, or may have been, handed out.
    async fn lease_of(&self, space: &str, ordinal: u64) -> Result<Option<LeaseRecord>, StoreError>;

    /// Leases by space and then by age, after a given one.
    async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, StoreError>;
}

/// A request for a lease.
#[derive(Debug, Clone)]
pub struct LeaseAsk {
    /// The name of the space.
    pub space: String,
    /// The instance that will hold it.
    pub instance: Instance,
    /// At most so many ordinals.
    pub size: u64,
    /// At most this fraction of what is left: one `share`-th, but always one ordinal.
    pub share: u64,
    /// The last lease this instance got of the space, which must still be on record.
    pub last_lease: Option<LeaseId>,
    /// Leases of this instance that are drawn to their end.
    pub spent: Vec<LeaseId>,
}

/// A granted lease and the space as it stands after it.
#[derive(Debug, Clone)]
pub struct Grant {
    /// Its number: the revision that made it.
    pub lease: LeaseId,
    /// The ordinals that are the holder's now.
    pub ordinals: Range<u64>,
    /// How far the space has come with it.
    pub mark: Mark,
    /// How many ordinals are left to grant after it.
    pub left: u64,
}

/// A lease's number within its space: the space's revision that granted it.
pub type LeaseId = u64;

/// A lease to close, with what was not drawn of it.
#[derive(Debug, Clone)]
pub struct GiveBack {
    /// The name of the space.
    pub space: String,
    /// The ID of the instance that holds it.
    pub instance: String,
    /// Its number.
    pub lease: LeaseId,
    /// Where the lease ends, as its holder knows it.
    pub end: u64,
    /// Where drawing ended: nothing from here on was drawn.
    pub closed_at: u64,
    /// What was not drawn, in order: what came back to the holder below `closed_at`, and the rest from
    /// there to the end.
    pub returned: Vec<Range<u64>>,
}

/// A lease on record.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaseRecord {
    /// The name of the space.
    pub space: String,
    /// Its number there.
    pub lease: LeaseId,
    /// The ordinals granted.
    pub ordinals: Range<u64>,
    /// Where drawing ended, once the lease is closed.
    pub closed_at_ordinal: Option<u64>,
    /// Why the range is on record.
    pub purpose: Purpose,
    /// Who got it.
    pub holder: Instance,
    /// When it was granted, by the store's clock.
    pub granted_at: Timestamp,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
}

/// Why a range of ordinals is on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Granted to an instance, to make keys of.
    Lease,
    /// Skipped by `space advance`: which keys of it were handed out is not recorded.
    Advance,
    /// Written into the pool of a keyspace.
    Fill,
    /// The time in which an instance held a worker of a snowflake keyspace.
    Window,
}

/// Which leases to list.
#[derive(Debug, Clone, Default)]
pub struct LeasePage {
    /// Of one space only.
    pub space: Option<String>,
    /// Those after this one: its space and number.
    pub after: Option<(String, LeaseId)>,
    /// At most so many.
    pub limit: u32,
}

impl Purpose {
    /// As stores write it.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Lease => "lease",
            Purpose::Advance => "advance",
            Purpose::Fill => "fill",
            Purpose::Window => "window",
        }
    }

    /// From what [`Purpose::name`] wrote.
    pub fn from_name(name: &str) -> Purpose {
        match name {
            "advance" => Purpose::Advance,
            "fill" => Purpose::Fill,
            "window" => Purpose::Window,
            _ => Purpose::Lease,
        }
    }
}

impl GiveBack {
    /// All of a lease, of which nothing was drawn.
    pub fn whole(ask: &LeaseAsk, grant: &Grant) -> GiveBack {
        GiveBack {
            space: ask.space.clone(),
            instance: ask.instance.id.clone(),
            lease: grant.lease,
            end: grant.ordinals.end,
            closed_at: grant.ordinals.start,
            returned: vec![grant.ordinals.clone()],
        }
    }
}

impl LeaseAsk {
    /// How many ordinals to grant where `left` are left in all.
    pub fn size_of(&self, left: u64) -> u64 {
        self.size.min(left / self.share.max(1)).max(1)
    }

    /// The last lease, if it has to be on record in a space that stands at `revision`.
    pub fn expected_lease(&self, revision: u64) -> Option<LeaseId> {
        self.last_lease.filter(|last| must_be_on_record(*last, revision))
    }

    /// What to answer when the last lease is not on record.
    pub fn lost_lease(&self, last: LeaseId, floor: &Floor) -> StoreError {
        let evidence = format!("lease {last} of `{}` is no longer on record", self.space);
        StoreError::rolled_back(&self.space, floor.mark, evidence)
    }
}
