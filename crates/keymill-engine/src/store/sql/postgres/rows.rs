//! From rows of PostgreSQL to the store's records.

use tokio_postgres::Row;

use crate::instance::Instance;
use crate::space::Definition;
use crate::store::values::{from_json, time, unsigned};
use crate::store::{
    History, LeaseRecord, Lengths, Mark, NamePurpose, NameRecord, Purpose, SpaceRecord, StoreError,
    WorkerRecord,
};

pub(super) fn space_from(row: &Row, history: History) -> Result<SpaceRecord, StoreError> {
    let definition: Definition = from_json(row.get(1))?;
    Ok(SpaceRecord {
        name: row.get(0),
        tuning: from_json(row.get(2))?,
        fingerprint: row.get(3),
        capacity: unsigned(row.get(4)),
        mark: Mark {
            next: unsigned(row.get(5)),
            revision: unsigned(row.get(6)),
            history,
            grown: Lengths::of(&definition.grown),
        },
        sealed: row.get(7),
        created_at: time(row.get(8)),
        returned: from_json(row.get(9))?,
        base: unsigned(row.get(10)),
        definition,
    })
}

pub(super) fn lease_from(row: &Row) -> LeaseRecord {
    LeaseRecord {
        space: row.get(0),
        lease: unsigned(row.get(1)),
        ordinals: unsigned(row.get(2))..unsigned(row.get(3)),
        closed_at_ordinal: row.get::<_, Option<i64>>(4).map(unsigned),
        purpose: Purpose::from_name(row.get(5)),
        granted_at: time(row.get(6)),
        closed_at: row.get::<_, Option<i64>>(7).map(time),
        holder: instance_from(row, 8),
    }
}

pub(super) fn worker_from(row: &Row) -> WorkerRecord {
    WorkerRecord {
        worker: u32::try_from(row.get::<_, i64>(0)).expect("no worker needs more than 32 bits"),
        lease: unsigned(row.get(1)),
        end: unsigned(row.get(2)),
    }
}

pub(super) fn name_from(row: &Row) -> NameRecord {
    NameRecord {
        space: row.get(0),
        key: row.get(1),
        ordinal: row.get::<_, Option<i64>>(2).map(unsigned),
        purpose: NamePurpose::from_name(row.get(3)),
        owner: row.get(4),
        created_at: time(row.get(5)),
        removed_at: row.get::<_, Option<i64>>(6).map(time),
    }
}

pub(super) fn instance_from(row: &Row, first: usize) -> Instance {
    Instance {
        id: row.get(first),
        host: row.get(first + 1),
        pid: u32::try_from(row.get::<_, i64>(first + 2)).unwrap_or_default(),
        version: row.get(first + 3),
        started_at: time(row.get(first + 4)),
    }
}
