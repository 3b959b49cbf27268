//! From rows of MySQL to the store's records.

use mysql_async::Row;
use mysql_async::prelude::FromValue;

use crate::instance::Instance;
use crate::space::Definition;
use crate::store::values::{from_json, time, unsigned};
use crate::store::{
    Claimed, LeaseRecord, Lengths, Mark, NamePurpose, NameRecord, Purpose, SpaceRecord, StoreError,
    UsedKey, WorkerRecord,
};

/// A column of a row, of the type that our own statement and schema give it.
pub(super) fn column<T: FromValue>(row: &Row, number: usize) -> T {
    row.get(number).expect("the statement asks for this column")
}

pub(super) fn space_from(row: &Row) -> Result<SpaceRecord, StoreError> {
    let text = |number| column::<String>(row, number);
    let (next, revision) = (unsigned(column(row, 5)), unsigned(column(row, 6)));
    let definition: Definition = from_json(&text(1))?;
    Ok(SpaceRecord {
        name: text(0),
        tuning: from_json(&text(2))?,
        fingerprint: column(row, 3),
        capacity: unsigned(column(row, 4)),
        mark: Mark { next, revision, grown: Lengths::of(&definition.grown), ..Mark::default() },
        sealed: column(row, 7),
        created_at: time(column(row, 8)),
        returned: from_json(&text(9))?,
        base: unsigned(column(row, 10)),
        definition,
    })
}

pub(super) fn lease_from(row: &Row) -> LeaseRecord {
    LeaseRecord {
        space: column(row, 0),
        lease: unsigned(column(row, 1)),
        ordinals: unsigned(column(row, 2))..unsigned(column(row, 3)),
        closed_at_ordinal: column::<Option<i64>>(row, 4).map(unsigned),
        purpose: Purpose::from_name(&column::<String>(row, 5)),
        granted_at: time(column(row, 6)),
        closed_at: column::<Option<i64>>(row, 7).map(time),
        holder: instance_from(row, 8),
    }
}

pub(super) fn worker_from(row: &Row) -> WorkerRecord {
    WorkerRecord {
        worker: column(row, 0),
        lease: unsigned(column(row, 1)),
        end: unsigned(column(row, 2)),
    }
}

pub(super) fn name_from(row: &Row) -> NameRecord {
    NameRecord {
        space: column(row, 0),
        key: column(row, 1),
        ordinal: column::<Option<i64>>(row, 2).map(unsigned),
        purpose: NamePurpose::from_name(&column::<String>(row, 3)),
        owner: column(row, 4),
        created_at: time(column(row, 5)),
        removed_at: column::<Option<i64>>(row, 6).map(time),
    }
}

pub(super) fn claimed_from(row: &Row) -> Claimed {
    Claimed { id: column(row, 0), key: column(row, 1) }
}

pub(super) fn used_from(row: &Row) -> UsedKey {
    UsedKey {
        id: column(row, 0),
        key: column(row, 1),
        used_at: time(column(row, 2)),
        caller: column(row, 3),
        instance: column(row, 4),
        expires_at: column::<Option<i64>>(row, 5).map(time),
        retired_at: column::<Option<i64>>(row, 6).map(time),
    }
}

pub(super) fn instance_from(row: &Row, first: usize) -> Instance {
    Instance {
        id: column(row, first),
        host: column(row, first + 1),
        pid: column(row, first + 2),
        version: column(row, first + 3),
        started_at: time(column(row, first + 4)),
    }
}
