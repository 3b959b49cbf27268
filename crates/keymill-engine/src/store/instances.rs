//! Instances: their heartbeats, and what the store answers to them.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;

use super::{LeaseId, Mark, SpaceRecord, StoreError, must_be_on_record};
use crate::instance::Instance;

/// The processes on a store.
#[async_trait]
pub trait Instances: fmt::Debug + Send + Sync {
    /// Records that an instance is running (or, at its end, that it stopped), returns how far all spaces have
    /// come, and tells which of the instance's last leases are not on record any more. Whole
    /// records are read only of the spaces that `pulse` names at another revision than the store has.
    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError>;

    /// Instances by age, after a given one.
    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError>;
}

/// A heartbeat of an instance.
#[derive(Debug, Clone)]
pub struct Pulse {
    /// Which instance is running.
    pub instance: Instance,
    /// Where it can be reached.
    pub address: Option<String>,
    /// Whether it stops now.
    pub stopping: bool,
    /// The last lease it got of each space.
    pub last_leases: Vec<(String, LeaseId)>,
    /// The spaces that it serves, by name, each with the revision that it knows.
    pub serves: Vec<(String, u64)>,
}

/// The store's answer to a heartbeat.
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
