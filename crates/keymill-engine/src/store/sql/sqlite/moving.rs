//! A keyspace that is moved into or out of a SQLite file, row by row.
//!
//! Called by the store for `operations`, which has sealed the keyspace before. Rows are read by the primary
//! keys of their tables, and written only where there are none, so that an import which was interrupted
//! can begin again. Nothing here changes a keyspace that is not importing.

use jiff::Timestamp;
use rusqlite::{Row, ToSql, params};

use super::key_rows::{AVAILABLE_ADD, REMOVE, used_from};
use super::rows::{lease_from, name_from};
use super::statements::{INSTANCE_KNOW, LEASE};
use super::transaction::Tx;
use crate::instance::Instance;
use crate::store::values::{from_hex, json, signed, time, unsigned};
use crate::store::{
    Created, History, KeyId, MovedRow, MovedSpace, Part, Rows, RowsPage, SpaceRecord, StoreError,
    first_id,
};

const SPACE_PUT: &str = "INSERT INTO spaces (name, definition, tuning, fingerprint, capacity, next,
    revision, returned, base, sealed, created_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (name) DO UPDATE SET
    definition = excluded.definition, tuning = excluded.tuning, fingerprint = excluded.fingerprint,
    capacity = excluded.capacity, next = excluded.next, revision = excluded.revision,
    returned = excluded.returned, base = excluded.base, sealed = excluded.sealed,
    created_at = excluded.created_at";
const LEASES: &str = "WHERE space = ?1 AND lease > ?2 ORDER BY lease LIMIT ?3";
const LEASE_ADD: &str = "INSERT INTO leases (space, lease, start_ordinal, end_ordinal,
    closed_at_ordinal, purpose, instance, granted_at, closed_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (space, lease) DO NOTHING";
const WORKERS: &str = "SELECT worker, instance, lease, ends FROM workers
    WHERE space = ?1 AND worker > ?2 ORDER BY worker LIMIT ?3";
const WORKER_ADD: &str = "INSERT INTO workers (space, worker, instance, lease, ends)
    VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (space, worker) DO NOTHING";
const NAMES: &str = "SELECT space, key, ordinal, purpose, owner, created_at, removed_at
    FROM names WHERE space = ?1 AND key > ?2 ORDER BY key LIMIT ?3";
const NAME_ADD: &str =
    "INSERT INTO names (space, key, ordinal, purpose, owner, created_at, removed_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (space, key) DO NOTHING";
const IN_USE: &str = "SELECT ordinal, imported_at FROM imported
    WHERE space = ?1 AND ordinal > ?2 ORDER BY ordinal LIMIT ?3";
const IN_USE_ADD: &str = "INSERT INTO imported (space, ordinal, imported_at)
    VALUES (?1, ?2, ?3) ON CONFLICT (space, ordinal) DO NOTHING";
const POOL_NAMES: &str = "SELECT key, id FROM pool_names
    WHERE space = ?1 AND key > ?2 ORDER BY key LIMIT ?3";
const POOL_NAME_ADD: &str = "INSERT INTO pool_names (space, key, id)
    VALUES (?1, ?2, ?3) ON CONFLICT (space, key) DO NOTHING";
const AVAILABLE: &str = "SELECT id, key FROM available_keys
    WHERE space = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
const AVAILABLE_PUT: &str = "INSERT INTO available_keys (id, space, key) SELECT ?1, ?2, ?3
    WHERE NOT EXISTS (SELECT 1 FROM used_keys WHERE space = ?2 AND id = ?1)
    ON CONFLICT (space, id) DO NOTHING";
const USED: &str = "SELECT id, key, used_at, caller, instance, expires_at, retired_at
    FROM used_keys WHERE space = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
const USED_ADD: &str =
    "INSERT INTO used_keys (id, space, key, used_at, caller, instance, expires_at, retired_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (space, id) DO NOTHING";
const DIGESTS: &str = "SELECT lower(hex(input)), key, created_at FROM digests
    WHERE space = ?1 AND input > ?2 ORDER BY input LIMIT ?3";
const DIGEST_ADD: &str = "INSERT INTO digests (space, input, key, created_at)
    VALUES (?1, ?2, ?3, ?4) ON CONFLICT (space, input) DO NOTHING";

impl Tx<'_> {
    pub(super) fn moved_rows(&self, page: &RowsPage) -> Result<Rows, StoreError> {
        let text = page.after.as_deref().unwrap_or_default();
        let number = text.parse().unwrap_or(i64::MIN);
        let rows = match page.part {
            Part::Leases => self.rows(&format!("{LEASE} {LEASES}"), page, &number, |row| {
                lease_from(row).map(MovedRow::from)
            }),
            Part::Workers => self.rows(WORKERS, page, &number, worker_from),
            Part::Names => self.rows(NAMES, page, &text, |row| name_from(row).map(MovedRow::from)),
            Part::InUse => self.rows(IN_USE, page, &number, in_use_from),
            Part::PoolNames => self.rows(POOL_NAMES, page, &text, |row| {
                Ok(MovedRow::PoolName { key: row.get(0)?, id: row.get(1)? })
            }),
            Part::Available => self.rows(AVAILABLE, page, &number, |row| {
                Ok(MovedRow::Available { id: row.get(0)?, key: row.get(1)? })
            }),
            Part::Used => self.rows(USED, page, &number, |row| used_from(row).map(MovedRow::from)),
            Part::Digests => self.rows(DIGESTS, page, &from_hex(text)?, digest_from),
        };
        Ok(Rows::page(rows?, page.limit))
    }

    fn rows(
        &self,
        sql: &str,
        page: &RowsPage,
        after: &dyn ToSql,
        row_from: fn(&Row<'_>) -> rusqlite::Result<MovedRow>,
    ) -> Result<Vec<MovedRow>, StoreError> {
        self.query(|connection| {
            let params = params![page.space, after, page.limit];
            connection.prepare_cached(sql)?.query_map(params, row_from)?.collect()
        })
    }

    pub(super) fn begin_import(&self, moved: &MovedSpace) -> Result<Created, StoreError> {
        let known = match self.space(&moved.name) {
            Err(StoreError::UnknownSpace(_)) => None,
            found => Some(found?),
        };
        match moved.begun(known, History::default()) {
            Created::Made(space) => self.put_space(&space).map(Created::Made),
            exists @ Created::Exists(_) => Ok(exists),
        }
    }

    pub(super) fn import_rows(
        &self,
        name: &str,
        importing: &str,
        rows: &[MovedRow],
    ) -> Result<(), StoreError> {
        let space = self.space(name)?;
        space.check_importing(importing)?;
        let mut available = 0;
        for row in rows {
            available += self.import_row(&space, row)?;
        }
        if available != 0 {
            self.execute(AVAILABLE_ADD, params![name, available])?;
        }
        Ok(())
    }

    pub(super) fn finish_import(&self, moved: &MovedSpace) -> Result<SpaceRecord, StoreError> {
        let known = self.space(&moved.name)?;
        self.put_space(&moved.finished(&known)?)
    }

    fn put_space(&self, space: &SpaceRecord) -> Result<SpaceRecord, StoreError> {
        let SpaceRecord { name, fingerprint, mark, sealed, .. } = space;
        let params = params![
            name,
            json(&space.definition),
            json(&space.tuning),
            fingerprint,
            signed(space.capacity),
            signed(mark.next),
            signed(mark.revision),
            json(&space.returned),
            signed(space.base),
            sealed,
            space.created_at.as_millisecond()
        ];
        self.execute(SPACE_PUT, params)?;
        self.space(name)
    }

    /// Writes a row, unless it is there; how many keys of the pool are available with it.
    fn import_row(&self, space: &SpaceRecord, row: &MovedRow) -> Result<i64, StoreError> {
        let name = &space.name;
        match row {
            MovedRow::Lease {
                lease,
                start,
                end,
                closed_at_ordinal,
                purpose,
                holder,
                granted_at,
                closed_at,
            } => {
                let Instance { id, host, pid, version, started_at } = holder;
                let started_at = started_at.as_millisecond();
                let granted_at = granted_at.as_millisecond();
                let known = params![id, host, pid, version, started_at, granted_at];
                self.execute(INSTANCE_KNOW, known)?;
                let (lease, start, end) = (signed(*lease), signed(*start), signed(*end));
                let rest = closed_at_ordinal.map(signed);
                let closed_at = closed_at.map(Timestamp::as_millisecond);
                let purpose = purpose.name();
                let params =
                    params![name, lease, start, end, rest, purpose, id, granted_at, closed_at];
                self.execute(LEASE_ADD, params)?;
            }
            MovedRow::Worker { worker, instance, lease, end } => {
                let params = params![name, worker, instance, signed(*lease), signed(*end)];
                self.execute(WORKER_ADD, params)?;
            }
            MovedRow::Name { key, ordinal, purpose, owner, created_at, removed_at } => {
                let (ordinal, purpose) = (ordinal.map(signed), purpose.name());
                let created_at = created_at.as_millisecond();
                let removed_at = removed_at.map(Timestamp::as_millisecond);
                let params = params![name, key, ordinal, purpose, owner, created_at, removed_at];
                self.execute(NAME_ADD, params)?;
            }
            MovedRow::InUse { ordinal, imported_at } => {
                let params = params![name, signed(*ordinal), imported_at.as_millisecond()];
                self.execute(IN_USE_ADD, params)?;
            }
            MovedRow::PoolName { key, id } => {
                self.execute(POOL_NAME_ADD, params![name, key, id])?;
            }
            MovedRow::Available { id, key } => {
                let is_new = self.execute(AVAILABLE_PUT, params![id, name, key])? > 0;
                return Ok(i64::from(is_new && can_be_claimed(space, *id)));
            }
            MovedRow::Used { id, key, used_at, caller, instance, expires_at, retired_at } => {
                let used_at = used_at.as_millisecond();
                let expires_at = expires_at.map(Timestamp::as_millisecond);
                let retired_at = retired_at.map(Timestamp::as_millisecond);
                let params =
                    params![id, name, key, used_at, caller, instance, expires_at, retired_at];
                self.execute(USED_ADD, params)?;
                // It was read as available before it was retired. A used key is nothing else.
                let was_available = self.execute(REMOVE, params![name, id])? > 0;
                return Ok(-i64::from(was_available && can_be_claimed(space, *id)));
            }
            MovedRow::Digest { input, key, created_at } => {
                let created_at = created_at.as_millisecond();
                self.execute(DIGEST_ADD, params![name, from_hex(input)?, key, created_at])?;
            }
        }
        Ok(0)
    }
}

/// Whether a key that is available counts: what was written before an advance does not.
fn can_be_claimed(space: &SpaceRecord, id: KeyId) -> bool {
    id >= first_id(space.mark.revision)
}

fn worker_from(row: &Row<'_>) -> rusqlite::Result<MovedRow> {
    Ok(MovedRow::Worker {
        worker: row.get(0)?,
        instance: row.get(1)?,
        lease: unsigned(row.get(2)?),
        end: unsigned(row.get(3)?),
    })
}

fn in_use_from(row: &Row<'_>) -> rusqlite::Result<MovedRow> {
    Ok(MovedRow::InUse { ordinal: unsigned(row.get(0)?), imported_at: time(row.get(1)?) })
}

fn digest_from(row: &Row<'_>) -> rusqlite::Result<MovedRow> {
    Ok(MovedRow::Digest { input: row.get(0)?, key: row.get(1)?, created_at: time(row.get(2)?) })
}
