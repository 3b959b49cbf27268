//! What is written into etcd: documents in JSON, and the marks of spaces as two numbers.
//!
//! `change` writes them, and the rest of the store reads them. A field that is added here needs a
//! default, because versions before and after read the same documents.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::instance::Instance;
use crate::space::{Definition, Tuning};
use crate::store::values::{now, stamp, time};
use crate::store::{
    History, LeaseId, LeaseRecord, Lengths, Mark, MovedLease, NamePurpose, NameRecord, Purpose,
    Ranges, SpaceRecord,
};

/// The stamp of a store.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoreDoc {
    pub(super) identity: String,
    created_at: Timestamp,
}

/// A space, as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SpaceDoc {
    definition: Definition,
    tuning: Tuning,
    fingerprint: Option<String>,
    capacity: u64,
    next: u64,
    #[serde(default)]
    base: u64,
    returned: Ranges,
    revision: u64,
    sealed: bool,
    created_at: Timestamp,
}

/// A lease, as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LeaseDoc {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) closed_at_ordinal: Option<u64>,
    pub(super) purpose: String,
    pub(super) holder: Instance,
    pub(super) granted_at: Timestamp,
    pub(super) closed_at: Option<Timestamp>,
}

/// A name, as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct NameDoc {
    ordinal: Option<u64>,
    purpose: NamePurpose,
    owner: String,
    created_at: Timestamp,
    pub(super) removed_at: Option<Timestamp>,
}

/// An instance, as it is written.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct InstanceDoc {
    pub(super) instance: Instance,
    pub(super) address: Option<String>,
    pub(super) seen_at: Timestamp,
    pub(super) stopped_at: Option<Timestamp>,
}

impl StoreDoc {
    pub(super) fn new() -> StoreDoc {
        StoreDoc { identity: stamp(), created_at: time(now()) }
    }
}

impl SpaceDoc {
    pub(super) fn of(space: &SpaceRecord) -> SpaceDoc {
        SpaceDoc {
            definition: space.definition.clone(),
            tuning: space.tuning.clone(),
            fingerprint: space.fingerprint.clone(),
            capacity: space.capacity,
            next: space.mark.next,
            base: space.base,
            returned: space.returned.clone(),
            revision: space.mark.revision,
            sealed: space.sealed,
            created_at: space.created_at,
        }
    }

    pub(super) fn record(self, name: &str, history: History) -> SpaceRecord {
        SpaceRecord {
            name: name.to_owned(),
            tuning: self.tuning,
            fingerprint: self.fingerprint,
            capacity: self.capacity,
            mark: Mark {
                revision: self.revision,
                next: self.next,
                history,
                grown: Lengths::of(&self.definition.grown),
            },
            base: self.base,
            returned: self.returned,
            sealed: self.sealed,
            created_at: self.created_at,
            definition: self.definition,
        }
    }

    /// The mark as it is written beside the space, so that a heartbeat needs no whole documents.
    pub(super) fn mark(&self) -> String {
        format!("{} {}", self.revision, self.next)
    }
}

/// Reads what [`SpaceDoc::mark`] wrote.
pub(super) fn mark_in(text: &str, history: History) -> Option<Mark> {
    let (revision, next) = text.split_once(' ')?;
    let (revision, next) = (revision.parse().ok()?, next.parse().ok()?);
    Some(Mark { revision, next, history, grown: Lengths::NONE })
}

impl LeaseDoc {
    pub(super) fn of(moved: &MovedLease) -> LeaseDoc {
        LeaseDoc {
            start: moved.start,
            end: moved.end,
            closed_at_ordinal: moved.closed_at_ordinal,
            purpose: moved.purpose.name().to_owned(),
            holder: moved.holder.clone(),
            granted_at: moved.granted_at,
            closed_at: moved.closed_at,
        }
    }

    pub(super) fn record(self, space: &str, lease: LeaseId) -> LeaseRecord {
        LeaseRecord {
            space: space.to_owned(),
            lease,
            ordinals: self.start..self.end,
            closed_at_ordinal: self.closed_at_ordinal,
            purpose: Purpose::from_name(&self.purpose),
            holder: self.holder,
            granted_at: self.granted_at,
            closed_at: self.closed_at,
        }
    }
}

impl NameDoc {
    pub(super) fn of(record: &NameRecord) -> NameDoc {
        NameDoc {
            ordinal: record.ordinal,
            purpose: record.purpose,
            owner: record.owner.clone(),
            created_at: record.created_at,
            removed_at: record.removed_at,
        }
    }

    pub(super) fn record(self, space: &str, key: &str) -> NameRecord {
        NameRecord {
            space: space.to_owned(),
            key: key.to_owned(),
            ordinal: self.ordinal,
            purpose: self.purpose,
            owner: self.owner,
            created_at: self.created_at,
            removed_at: self.removed_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_two_numbers_and_nothing_else() {
        let history = History { server: 7, timeline: 0 };
        let mark = mark_in("12 18446744073709551615", history).unwrap();
        assert_eq!((mark.revision, mark.next, mark.history), (12, u64::MAX, history));
        for other in ["", "12", "12 ", "12 x", "-1 5", "12 5 6"] {
            assert_eq!(mark_in(other, history), None, "{other:?}");
        }
    }
}
