//! From rows to the store's records, in the order of columns that `statements` has.

use super::driver::Result;
use super::value::Row;
use crate::instance::Instance;
use crate::space::Definition;
use crate::store::values::from_json;
use crate::store::{
    Act, Claimed, Found, History, InstanceRecord, LeaseRecord, Lengths, Mark, NamePurpose,
    NameRecord, Purpose, SpaceRecord, UsedKey, WorkerRecord,
};

pub(super) fn space_from(row: &Row, history: History) -> Result<SpaceRecord> {
    let text = |column: usize| row.get::<String>(column);
    let definition: Definition = from_json(&text(1))?;
    let grown = Lengths::of(&definition.grown);
    Ok(SpaceRecord {
        name: text(0),
        tuning: from_json(&text(2))?,
        fingerprint: row.get(3),
        capacity: row.get(4),
        mark: Mark { next: row.get(5), revision: row.get(6), history, grown },
        sealed: row.get(7),
        created_at: row.get(8),
        returned: from_json(&text(9))?,
        base: row.get(10),
        definition,
    })
}

/// How far a space has come; but for what it has grown to.
pub(super) fn mark_from(row: &Row, history: History) -> (String, Mark) {
    let (next, revision) = (row.get(1), row.get(2));
    (row.get(0), Mark { next, revision, history, grown: Lengths::NONE })
}

pub(super) fn lease_from(row: &Row) -> LeaseRecord {
    LeaseRecord {
        space: row.get(0),
        lease: row.get(1),
        ordinals: row.get(2)..row.get(3),
        closed_at_ordinal: row.get(4),
        purpose: Purpose::from_name(&row.get::<String>(5)),
        granted_at: row.get(6),
        closed_at: row.get(7),
        holder: instance_from(row, 8),
    }
}

pub(super) fn worker_from(row: &Row) -> WorkerRecord {
    WorkerRecord { worker: row.get(0), lease: row.get(1), end: row.get(2) }
}

pub(super) fn name_from(row: &Row) -> NameRecord {
    NameRecord {
        space: row.get(0),
        key: row.get(1),
        ordinal: row.get(2),
        purpose: NamePurpose::from_name(&row.get::<String>(3)),
        owner: row.get(4),
        created_at: row.get(5),
        removed_at: row.get(6),
    }
}

pub(super) fn claimed_from(row: &Row) -> Claimed {
    Claimed { id: row.get(0), key: row.get(1) }
}

pub(super) fn used_from(row: &Row) -> UsedKey {
    UsedKey {
        id: row.get(0),
        key: row.get(1),
        used_at: row.get(2),
        caller: row.get(3),
        instance: row.get(4),
        expires_at: row.get(5),
        retired_at: row.get(6),
    }
}

/// Where a key is, of what both tables have of it.
pub(super) fn found_from(rows: &[Row]) -> Option<Found> {
    if let Some(used) = rows.iter().find(|row| row.get(7)) {
        return Some(Found::Used(used_from(used)));
    }
    rows.first().map(|row| match row.get(4) {
        None => Found::Available,
        Some(by) => Found::Reserved { by, at: row.get(2) },
    })
}

pub(super) fn instance_from(row: &Row, first: usize) -> Instance {
    Instance {
        id: row.get(first),
        host: row.get(first + 1),
        pid: row.get(first + 2),
        version: row.get(first + 3),
        started_at: row.get(first + 4),
    }
}

pub(super) fn act_from(row: &Row) -> Act {
    Act { id: row.get(0), at: row.get(1), by: row.get(2), from: row.get(3), what: row.get(4) }
}

pub(super) fn instance_record_from(row: &Row) -> InstanceRecord {
    InstanceRecord {
        instance: instance_from(row, 0),
        address: row.get(5),
        seen_at: row.get(6),
        stopped_at: row.get(7),
    }
}
