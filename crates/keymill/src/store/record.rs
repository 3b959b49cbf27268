//! What a store is asked and what it answers: plain records, the same for every store.

use std::ops::Range;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ERA, Ranges, RolledBack, StoreError, keys, must_be_on_record, next_era};
use crate::floor::{Floor, Lengths, Mark};
use crate::instance::Instance;
use crate::space::{Definition, Kind, Tuning};

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

/// A space as the store has it.
#[derive(Debug, Clone, PartialEq)]
pub struct SpaceRecord {
    /// Its name.
    pub name: String,
    /// What its keys look like.
    pub definition: Definition,
    /// How it is served.
    pub tuning: Tuning,
    /// Tells the secret behind it, where there is one.
    pub fingerprint: Option<String>,
    /// How many ordinals it has.
    pub capacity: u64,
    /// How far it has come.
    pub mark: Mark,
    /// What an advance has moved beyond: no window of a snowflake keyspace begins below it.
    pub base: u64,
    /// Ordinals below `next` that were given back and wait to be granted again.
    pub returned: Ranges,
    /// Whether it was ended.
    pub sealed: bool,
    /// When it was made.
    pub created_at: Timestamp,
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
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
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
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct InstanceRecord {
    /// The instance.
    #[serde(flatten)]
    pub instance: Instance,
    /// Where it can be reached.
    pub address: Option<String>,
    /// When it last reported to the store.
    #[cfg_attr(feature = "http", schema(value_type = String))]
    pub seen_at: Timestamp,
    /// When it stopped, if it reported that.
    #[cfg_attr(feature = "http", schema(value_type = Option<String>))]
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
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
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

impl SpaceRecord {
    /// How many ordinals can still be granted.
    pub fn left(&self) -> u64 {
        self.capacity - self.mark.next.min(self.capacity) + self.returned.count()
    }

    /// How many ordinals are granted, and perhaps handed out.
    pub fn leased(&self) -> u64 {
        self.mark.next - self.returned.count()
    }

    /// Refuses when this record lies below what the caller has seen of the space.
    pub fn check_floor(&self, store: &str, floor: &Floor) -> Result<(), StoreError> {
        floor.check(&self.name, store, self.mark).map_err(|error| match error {
            StoreError::RolledBack(how) if self.definition.kind == Kind::Digest => {
                let length = self.definition.length_last() + 1;
                let remedy = format!(
                    "Run `keymill space grow {} --length {length}`: known inputs keep their keys, \
                     and new ones get longer keys, which were never assigned",
                    self.name
                );
                StoreError::RolledBack(Arc::new(RolledBack { remedy, ..RolledBack::clone(&how) }))
            }
            error => error,
        })
    }

    /// Takes in a definition that has one generation more; whether it is new. Refuses one that
    /// does not continue this one: another may have grown the space since it was read.
    pub fn grow(&mut self, definition: &Definition, capacity: u64) -> Result<bool, StoreError> {
        if self.sealed {
            return Err(StoreError::Sealed(self.name.clone()));
        }
        let (known, wanted) = (&self.definition.grown, &definition.grown);
        if known == wanted {
            return Ok(false);
        }
        if wanted.split_last().map(|(_, before)| before) != Some(known.as_slice()) {
            return Err(StoreError::Outdated(self.name.clone()));
        }
        self.definition.clone_from(definition);
        self.capacity = capacity;
        self.mark.grown = Lengths::of(wanted);
        self.mark.revision += 1;
        Ok(true)
    }

    /// Moves ordinals out of what is left, for a lease to be recorded with the moved record:
    /// what came back first, otherwise from `next`. `None` where nothing is left.
    #[must_use]
    pub fn grant(&mut self, ask: &LeaseAsk) -> Option<Grant> {
        self.grant_up_to(ask.size_of(self.left()))
    }

    /// The same, for a size that needs no share of what is left.
    #[must_use]
    pub fn grant_up_to(&mut self, size: u64) -> Option<Grant> {
        let left = self.left();
        if left == 0 {
            return None;
        }
        self.mark.revision += 1;
        let ordinals = self.returned.take(size).unwrap_or_else(|| {
            let start = self.mark.next;
            self.mark.next = self.capacity.min(start.saturating_add(size));
            start..self.mark.next
        });
        let Range { start, end } = ordinals;
        assert!(start < end, "an empty grant: {ordinals:?} of {left} left");
        let mark = self.mark;
        Some(Grant { lease: mark.revision, ordinals, mark, left: left - (end - start) })
    }

    /// Takes in again what was not drawn of a lease, once the lease is closed.
    pub fn take_back(&mut self, returned: &[Range<u64>]) {
        self.mark.revision += 1;
        returned.iter().for_each(|range| self.returned.add(range.clone()));
    }

    /// Moves on beyond everything seen, into a new era, and makes growths again that were lost.
    /// Returns what is passed over.
    pub fn advance(&mut self, to: Mark) -> Result<Range<u64>, StoreError> {
        // The import would bring back what an advance drops: ranges that were returned, the pool.
        if self.tuning.importing.is_some() {
            return Err(StoreError::Sealed(self.name.clone()));
        }
        self.grow_again(to.grown)?;
        let era = next_era(self.mark.revision.max(to.revision)) / ERA;
        if self.definition.kind == Kind::Pooled && era > keys::ERA_MAX {
            let name = &self.name;
            return Err(StoreError::Broken(format!(
                "the pool of `{name}` was advanced {} times, which is the maximum",
                keys::ERA_MAX
            )));
        }
        let from = self.mark.next;
        self.mark.revision = next_era(self.mark.revision.max(to.revision));
        self.mark.next = from.max(to.next).min(self.capacity);
        self.base = self.mark.next;
        self.returned.clear();
        // What was passed over of a snowflake keyspace is time, not ordinals.
        let passed_from = if self.definition.kind == Kind::Snowflake { self.base } else { from };
        Ok(passed_from..self.mark.next)
    }

    /// Has the generations that were seen. Others in their place would have begun elsewhere, and
    /// made keys of the same ordinals that may be in use: that cannot be mended.
    fn grow_again(&mut self, seen: Lengths) -> Result<(), StoreError> {
        let (known, seen) = (self.definition.grown.clone(), seen.list());
        if known.starts_with(&seen) {
            return Ok(());
        }
        if !seen.starts_with(&known) {
            return Err(StoreError::Broken(format!(
                "`{}` was seen with the lengths {seen:?} after the first, but the store has \
                 {known:?}, so it could hand out keys that are already in use. Seal it and create \
                 a new keyspace",
                self.name
            )));
        }
        self.definition.grown = seen;
        let capacity = self.definition.capacity();
        self.capacity = capacity.map_err(|error| StoreError::Broken(error.to_string()))?;
        self.mark.grown = Lengths::of(&self.definition.grown);
        Ok(())
    }
}

impl Floor {
    /// Refuses a space that lies below what was seen of it.
    pub fn check(&self, space: &str, store: &str, found: Mark) -> Result<(), StoreError> {
        let seen = self.mark;
        if self.store != store {
            return Err(StoreError::other_store(space, self, store));
        }
        if !found.continues(seen) {
            return Err(StoreError::other_history(space, seen, found.history));
        }
        if !found.grown.contain(seen.grown) {
            let (found, lengths) = (found.grown.list(), seen.grown.list());
            let evidence =
                format!("`{space}` has grown to {found:?}, but was seen with {lengths:?}");
            return Err(StoreError::rolled_back(space, seen, evidence));
        }
        if !found.has_reached(seen) {
            let evidence = format!(
                "`{space}` is at ordinal {} (revision {}), but was seen at {} (revision {})",
                found.next, found.revision, seen.next, seen.revision
            );
            return Err(StoreError::rolled_back(space, seen, evidence));
        }
        Ok(())
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
