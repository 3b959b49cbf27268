//! The rows of a keyspace that moves: what a file has of each, and from which record it is made.
//!
//! Stores read and write them in their own words; a file has them as JSON.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::instance::Instance;
use crate::store::{KeyId, LeaseId, LeaseRecord, NamePurpose, NameRecord, Purpose, UsedKey};

/// A row of a keyspace, as a file has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MovedRow {
    /// A lease.
    Lease(MovedLease),
    /// A worker of a snowflake keyspace.
    Worker {
        /// Its number.
        worker: u32,
        /// Who holds it, or held it last.
        instance: String,
        /// Under which lease.
        lease: LeaseId,
        /// The first tick that nobody may have used.
        end: u64,
    },
    /// A name.
    Name {
        /// Its text.
        key: String,
        /// The ordinal that it could be generated from.
        ordinal: Option<u64>,
        /// Why it was taken.
        purpose: NamePurpose,
        /// Whom it belongs to.
        owner: String,
        /// When it was taken.
        created_at: Timestamp,
        /// When it was removed.
        removed_at: Option<Timestamp>,
    },
    /// An ordinal whose key is in use elsewhere.
    InUse {
        /// The ordinal, which is skipped.
        ordinal: u64,
        /// When it was imported.
        imported_at: Timestamp,
    },
    /// The id of a key that was imported into a pool.
    PoolName {
        /// Its text.
        key: String,
        /// Its row.
        id: KeyId,
    },
    /// A key that waits in the pool.
    Available {
        /// Its row.
        id: KeyId,
        /// Its text.
        key: String,
    },
    /// A used key.
    Used {
        /// Its row.
        id: KeyId,
        /// Its text.
        key: String,
        /// When it was handed out, or claimed.
        used_at: Timestamp,
        /// Who got it.
        caller: String,
        /// The ID of the instance that handed it out.
        instance: String,
        /// When it ceases to be.
        expires_at: Option<Timestamp>,
        /// When it was retired.
        retired_at: Option<Timestamp>,
    },
    /// The key of an input.
    Digest {
        /// What tells the input from every other, in hexadecimal.
        input: String,
        /// The key that the input has.
        key: String,
        /// Since when.
        created_at: Timestamp,
    },
}

/// A lease of a keyspace, as a file has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MovedLease {
    /// Its number.
    pub lease: LeaseId,
    /// Where its ordinals begin.
    pub start: u64,
    /// Where they end.
    pub end: u64,
    /// Where drawing ended, once it is closed.
    pub closed_at_ordinal: Option<u64>,
    /// Why it is on record.
    pub purpose: Purpose,
    /// Who got it.
    pub holder: Instance,
    /// When.
    pub granted_at: Timestamp,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
}

impl MovedRow {
    /// What tells a row from all others of its part, for the page after it.
    pub fn cursor(&self) -> String {
        match self {
            MovedRow::Lease(moved) => moved.lease.to_string(),
            MovedRow::Worker { worker, .. } => worker.to_string(),
            MovedRow::InUse { ordinal, .. } => ordinal.to_string(),
            MovedRow::Available { id, .. } | MovedRow::Used { id, .. } => id.to_string(),
            MovedRow::Name { key, .. } | MovedRow::PoolName { key, .. } => key.clone(),
            MovedRow::Digest { input, .. } => input.clone(),
        }
    }
}

/// The holders of leases by id, which is the order in which all lock them; each with the time of its
/// last lease among these rows: then it was alive.
#[cfg_attr(
    not(any(feature = "mysql", feature = "postgres", feature = "redis", feature = "sqlite")),
    allow(dead_code)
)]
pub(in crate::store) fn holders(rows: &[MovedRow]) -> BTreeMap<&str, (&Instance, Timestamp)> {
    let leases = rows.iter().filter_map(|row| match row {
        MovedRow::Lease(lease) => Some(lease),
        _ => None,
    });
    leases.map(|lease| (lease.holder.id.as_str(), (&lease.holder, lease.granted_at))).collect()
}

impl From<LeaseRecord> for MovedRow {
    fn from(record: LeaseRecord) -> MovedRow {
        MovedRow::Lease(MovedLease {
            lease: record.lease,
            start: record.ordinals.start,
            end: record.ordinals.end,
            closed_at_ordinal: record.closed_at_ordinal,
            purpose: record.purpose,
            holder: record.holder,
            granted_at: record.granted_at,
            closed_at: record.closed_at,
        })
    }
}

impl From<NameRecord> for MovedRow {
    fn from(record: NameRecord) -> MovedRow {
        MovedRow::Name {
            key: record.key,
            ordinal: record.ordinal,
            purpose: record.purpose,
            owner: record.owner,
            created_at: record.created_at,
            removed_at: record.removed_at,
        }
    }
}

impl From<UsedKey> for MovedRow {
    fn from(used: UsedKey) -> MovedRow {
        MovedRow::Used {
            id: used.id,
            key: used.key,
            used_at: used.used_at,
            caller: used.caller,
            instance: used.instance,
            expires_at: used.expires_at,
            retired_at: used.retired_at,
        }
    }
}
