//! What a store is asked and what it answers: plain records, the same for every store.

use std::ops::Range;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Floor, Mark, SpaceRecord, StoreError, must_be_on_record};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};

/// A space to make.
#[derive(Debug, Clone)]
pub struct NewSpace {
    /// Its name, never used before.
    pub name: String,
    /// What its keys look like.
    pub definition: Definition,
    /// How it is served.
    pub tuning: Tuning,
    /// Tells the secret behind it, where there is one.
    pub fingerprint: Option<String>,
    /// How many ordinals it has.
    pub capacity: u64,
    /// The first ordinal to grant.
    pub start: u64,
}

/// What `create` found or made.
#[derive(Debug, Clone)]
pub enum Created {
    /// The space is new.
    Made(SpaceRecord),
    /// The name was there already.
    Exists(SpaceRecord),
}

/// A request for a lease.
#[derive(Debug, Clone)]
pub struct LeaseAsk {
    /// Of which space.
    pub space: String,
    /// For whom.
    pub instance: Instance,
    /// At most so many ordinals.
    pub size: u64,
    /// At most this fraction of what is left: one `share`-th, but always one ordinal.
    pub share: u64,
    /// What the space must have reached.
    pub floor: Floor,
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
    /// The ordinals.
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
    /// Of which space.
    pub space: String,
    /// Whose lease it is.
    pub instance: String,
    /// Which lease.
    pub lease: LeaseId,
    /// Where the lease ends, as its holder knows it.
    pub end: u64,
    /// Where drawing ended: nothing from here on was drawn.
    pub closed_at: u64,
    /// What was not drawn, in order: what came back to the holder below `closed_at`, and the rest from
    /// there to the end.
    pub returned: Vec<Range<u64>>,
    /// What the space must have reached.
    pub floor: Floor,
}

/// A lease on record.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaseRecord {
    /// Of which space.
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

/// A sign of life.
#[derive(Debug, Clone)]
pub struct Pulse {
    /// Who lives.
    pub instance: Instance,
    /// Where it can be reached.
    pub address: Option<String>,
    /// Whether this is its last word.
    pub stopping: bool,
    /// The last lease it got of each space.
    pub last_leases: Vec<(String, LeaseId)>,
    /// The spaces that it serves, by name, each with the revision that it knows.
    pub serves: Vec<(String, u64)>,
}

/// The store's answer to a sign of life.
#[derive(Debug, Clone, Default)]
pub struct Beat {
    /// The identity of the store.
    pub store: String,
    /// How far all spaces have come, by name.
    pub marks: Vec<(String, Mark)>,
    /// The spaces that the instance serves and that stand at another revision than it knows.
    pub changed: Vec<SpaceRecord>,
    /// Spaces of which the instance's last lease is gone, though no advance explains it.
    pub lost: Vec<String>,
}

/// An instance as the store knows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InstanceRecord {
    /// The instance.
    #[serde(flatten)]
    pub instance: Instance,
    /// Where it can be reached.
    pub address: Option<String>,
    /// When it last reported to the store.
    pub seen_at: Timestamp,
    /// When it stopped, if it reported that.
    pub stopped_at: Option<Timestamp>,
}

/// Which instances to list.
#[derive(Debug, Clone, Default)]
pub struct InstancePage {
    /// Those after this one.
    pub after: Option<String>,
    /// At most so many.
    pub limit: u32,
}

/// A store in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// `sqlite`, …
    pub kind: &'static str,
    /// A path or a URL without its password.
    pub location: String,
    /// Whether it was created when it was opened.
    pub created: bool,
}

impl Pulse {
    /// The last leases that have to be on record in spaces that have come this far, by name.
    pub fn expected<'a>(&'a self, marks: &[(String, Mark)]) -> Vec<(&'a str, LeaseId)> {
        let expected = |(space, lease): &&(String, LeaseId)| {
            must_be_on_record(*lease, revision_in(marks, space).unwrap_or(0))
        };
        let expected = self.last_leases.iter().filter(expected);
        expected.map(|(space, lease)| (space.as_str(), *lease)).collect()
    }

    /// The spaces to read whole: those that it serves at another revision than these.
    pub fn outdated<'a>(&'a self, marks: &[(String, Mark)]) -> Vec<&'a str> {
        let outdated = |(space, known): &&(String, u64)| {
            revision_in(marks, space).is_some_and(|revision| revision != *known)
        };
        self.serves.iter().filter(outdated).map(|(space, _)| space.as_str()).collect()
    }
}

/// The revision of a space among marks by name.
fn revision_in(marks: &[(String, Mark)], space: &str) -> Option<u64> {
    let found = marks.binary_search_by(|(name, _)| name.as_str().cmp(space)).ok()?;
    Some(marks[found].1.revision)
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
            floor: ask.floor.clone(),
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
    pub fn lost_lease(&self, last: LeaseId) -> StoreError {
        let evidence = format!("lease {last} of `{}` is no longer on record", self.space);
        StoreError::rolled_back(&self.space, self.floor.mark, evidence)
    }
}
