//! A keyspace that is moved into or out of a store, in transactions.
//!
//! Rows are read by the primary keys of their tables, and written only where there are none, so that an
//! import which was interrupted can begin again. An import is made under the lock of the space, which is
//! sealed: nobody else changes any of these rows. What a file may have is looked at in `moved_values`.

use super::driver::{Result, Sql, Step, Transaction};
use super::moved_values::{
    after_bytes, after_number, after_text, checked_input, first_available, whole,
};
use super::rows::{lease_from, name_from, used_from};
use super::spaces::{locked, space, space_above};
use super::statements::{
    AVAILABLE_IMPORT, AVAILABLE_MOVED, DIGESTS_IMPORT, DIGESTS_MOVED, IN_USE_IMPORT, IN_USE_MOVED,
    INSTANCES_IMPORT, KEYS_REMOVE, LEASES_IMPORT, LEASES_MOVED, NAMES_IMPORT, NAMES_MOVED,
    POOL_ADD, POOL_NAMES_IMPORT, POOL_NAMES_MOVED, SPACE_IMPORT, SPACE_REPLACE, USED_AMONG,
    USED_IMPORT, USED_MOVED, WORKERS_IMPORT, WORKERS_MOVED,
};
use super::steps::moved;
use super::value::{Row, Value, values};
use crate::store::moves::holders;
use crate::store::values::{json, signed};
use crate::store::{
    Created, Floor, History, KeyId, Mark, MovedRow, MovedSpace, Part, Rows, RowsPage, SpaceRecord,
};

pub(super) async fn moved_rows<T: Transaction>(tx: &mut T, page: &RowsPage) -> Result<Rows> {
    let space = space(tx, &page.space).await?;
    let (sql, after): (Sql, Value<'_>) = match page.part {
        Part::Leases => (&LEASES_MOVED, after_number(page)?.into()),
        Part::Workers => (&WORKERS_MOVED, after_number(page)?.into()),
        Part::Names => (&NAMES_MOVED, after_text(page).into()),
        Part::InUse => (&IN_USE_MOVED, after_number(page)?.into()),
        Part::PoolNames => (&POOL_NAMES_MOVED, after_text(page).into()),
        Part::Available => {
            let Some(first) = first_available(&space) else { return Ok(Rows::default()) };
            (&AVAILABLE_MOVED, after_number(page)?.max(first - 1).into())
        }
        Part::Used => (&USED_MOVED, after_number(page)?.into()),
        Part::Digests => (&DIGESTS_MOVED, after_bytes(page)?.into()),
    };
    let found = tx.query(sql, &[Value::from(&page.space), after, page.limit.into()], &[]).await?;
    let rows = found.iter().map(|row| row_of(page.part, row)).collect();
    Ok(Rows::page(rows, page.limit))
}

pub(super) async fn begin_import<T: Transaction>(
    tx: &mut T,
    space: &MovedSpace,
) -> Result<Created> {
    put_space(tx, &SPACE_IMPORT, &space.record(History::default())).await?;
    let found = locked(tx, &space.name).await?;
    let history = found.mark.history;
    let begun = space.begun(Some(found), history);
    if let Created::Made(record) = &begun {
        // One that was there may have come from an earlier export.
        put_space(tx, &SPACE_REPLACE, record).await?;
    }
    Ok(begun)
}

pub(super) async fn import_rows<T: Transaction>(
    tx: &mut T,
    space: &str,
    importing: &str,
    rows: &[MovedRow],
    floor: &Floor,
) -> Result<Mark> {
    let mut found = space_above(tx, space, floor).await?;
    found.check_importing(importing)?;
    let written = Written::of(&found, rows)?;
    let here = values![space];
    tx.execute(&INSTANCES_IMPORT, &[], &written.instances).await?;
    tx.execute(&LEASES_IMPORT, &here, &written.leases).await?;
    tx.execute(&WORKERS_IMPORT, &here, &written.workers).await?;
    tx.execute(&NAMES_IMPORT, &here, &written.names).await?;
    tx.execute(&IN_USE_IMPORT, &here, &written.in_use).await?;
    tx.execute(&POOL_NAMES_IMPORT, &here, &written.pool_names).await?;
    let added = tx.execute(&AVAILABLE_IMPORT, &here, &written.available).await?;
    tx.execute(&USED_IMPORT, &here, &written.used).await?;
    let removed = remove_used(tx, &found, rows).await?;
    tx.execute(&DIGESTS_IMPORT, &here, &written.digests).await?;
    if added != removed {
        tx.execute(&POOL_ADD, &[], &values![space, signed(added) - signed(removed)]).await?;
    }
    found.mark.revision += 1;
    tx.run_all(&[moved(&found)]).await?;
    Ok(found.mark)
}

pub(super) async fn finish_import<T: Transaction>(
    tx: &mut T,
    space: &MovedSpace,
    floor: &Floor,
) -> Result<SpaceRecord> {
    let found = space_above(tx, &space.name, floor).await?;
    let opened = space.finished(&found)?;
    put_space(tx, &SPACE_REPLACE, &opened).await?;
    Ok(opened)
}

/// Writes the row of a space.
async fn put_space<T: Transaction>(tx: &mut T, sql: Sql, space: &SpaceRecord) -> Result<()> {
    let row = values![
        &space.name,
        json(&space.definition),
        json(&space.tuning),
        space.fingerprint.as_deref(),
        whole(space.capacity)?,
        whole(space.mark.next)?,
        json(&space.returned),
        whole(space.mark.revision)?,
        space.created_at,
        whole(space.base)?,
        space.sealed,
    ];
    tx.run_all(&[Step::new(sql, row)]).await.map(drop)
}

/// Removes keys from the pool that are used: one may be read as available before it is used, and
/// a used key is nothing else. How many it were.
async fn remove_used<T: Transaction>(
    tx: &mut T,
    space: &SpaceRecord,
    rows: &[MovedRow],
) -> Result<u64> {
    let Some(first) = first_available(space) else { return Ok(0) };
    let id = |row: &MovedRow| match row {
        MovedRow::Available { id, .. } | MovedRow::Used { id, .. } => Some(*id),
        _ => None,
    };
    let ids = rows.iter().filter_map(id).filter(|id| *id >= first);
    let ids: Vec<Value<'_>> = ids.map(Value::from).collect();
    let used = tx.query(&USED_AMONG, &values![&space.name], &ids).await?;
    let used: Vec<Value<'_>> = used.iter().map(|row| row.get::<KeyId>(0).into()).collect();
    tx.execute(&KEYS_REMOVE, &values![&space.name], &used).await
}

/// A row of the statement that reads this part.
fn row_of(part: Part, row: &Row) -> MovedRow {
    match part {
        Part::Leases => lease_from(row).into(),
        Part::Workers => MovedRow::Worker {
            worker: row.get(0),
            instance: row.get(1),
            lease: row.get(2),
            end: row.get(3),
        },
        Part::Names => name_from(row).into(),
        Part::InUse => MovedRow::InUse { ordinal: row.get(0), imported_at: row.get(1) },
        Part::PoolNames => MovedRow::PoolName { key: row.get(0), id: row.get(1) },
        Part::Available => MovedRow::Available { id: row.get(0), key: row.get(1) },
        Part::Used => used_from(row).into(),
        Part::Digests => MovedRow::Digest {
            input: hex::encode(row.get::<Vec<u8>>(0)),
            key: row.get(1),
            created_at: row.get(2),
        },
    }
}

/// Rows as the tables have them.
#[derive(Debug, Default)]
struct Written<'a> {
    instances: Vec<Value<'a>>,
    leases: Vec<Value<'a>>,
    workers: Vec<Value<'a>>,
    names: Vec<Value<'a>>,
    in_use: Vec<Value<'a>>,
    pool_names: Vec<Value<'a>>,
    available: Vec<Value<'a>>,
    used: Vec<Value<'a>>,
    digests: Vec<Value<'a>>,
}

impl<'a> Written<'a> {
    fn of(space: &SpaceRecord, rows: &'a [MovedRow]) -> Result<Written<'a>> {
        let mut written = Written::default();
        for (id, (holder, granted_at)) in holders(rows) {
            let (host, version) = (&holder.host, &holder.version);
            let holder = values![id, host, holder.pid, version, holder.started_at, granted_at];
            written.instances.extend(holder);
        }
        let first = first_available(space);
        for row in rows {
            written.add(first, row)?;
        }
        Ok(written)
    }

    /// Adds a row of a space. `first` is the lowest id that its pool can have.
    fn add(&mut self, first: Option<KeyId>, row: &'a MovedRow) -> Result<()> {
        match row {
            MovedRow::Lease(moved) => {
                let holder = &moved.holder.id;
                self.leases.extend(values![
                    whole(moved.lease)?,
                    whole(moved.start)?,
                    whole(moved.end)?,
                    moved.closed_at_ordinal.map(whole).transpose()?,
                    moved.purpose.name(),
                    holder,
                    moved.granted_at,
                    moved.closed_at,
                    moved.closed_at.is_none().then_some(holder.as_str()),
                ]);
            }
            MovedRow::Worker { worker, instance, lease, end } => {
                self.workers.extend(values![*worker, instance, whole(*lease)?, whole(*end)?]);
            }
            MovedRow::Name { key, ordinal, purpose, owner, created_at, removed_at } => {
                let (ordinal, purpose) = (ordinal.map(whole).transpose()?, purpose.name());
                let row = values![key, ordinal, purpose, owner, *created_at, *removed_at];
                self.names.extend(row);
            }
            MovedRow::InUse { ordinal, imported_at } => {
                self.in_use.extend(values![whole(*ordinal)?, *imported_at]);
            }
            MovedRow::PoolName { key, id } => self.pool_names.extend(values![key, *id]),
            MovedRow::Available { id, key } => {
                if first.is_some_and(|first| *id >= first) {
                    self.available.extend(values![*id, key]);
                }
            }
            MovedRow::Used { id, key, used_at, caller, instance, expires_at, retired_at } => {
                let times = (*expires_at, *retired_at);
                let row = values![*id, key, *used_at, caller, instance, times.0, times.1];
                self.used.extend(row);
            }
            MovedRow::Digest { input, key, created_at } => {
                self.digests.extend(values![checked_input(input)?, key, *created_at]);
            }
        }
        Ok(())
    }
}
