//! Writing a keyspace that comes from another store. Each call is one transaction under the lock of
//! the space, which is sealed: nobody else changes any of these rows.
//!
//! Rows that are there already are left as they are. `INSERT IGNORE` would do that too, but it also
//! cuts off what does not fit its column. Reading a keyspace to be moved is in `export`.

use std::fmt::Display;

use jiff::Timestamp;
use mysql_async::params;

use super::bulk::hex;
use super::transaction::Tx;
use crate::store::sql::export_page::{checked_input, first_available, holders, whole};
use crate::store::values::{json, signed};
use crate::store::{Created, History, KeyId, MovedRow, MovedSpace, SpaceRecord, StoreError};

const SPACE_IMPORT: &str = "INSERT INTO spaces (name, definition, tuning, fingerprint, capacity,
    next, returned, revision, created_at, base, sealed)
    VALUES (:space, :definition, :tuning, :fingerprint, :capacity, :next, :returned, :revision,
    :created_at, :base, :sealed) ON DUPLICATE KEY UPDATE name = name";
const SPACE_REPLACE: &str = "UPDATE spaces SET definition = :definition, tuning = :tuning,
    fingerprint = :fingerprint, capacity = :capacity, next = :next, returned = :returned,
    revision = :revision, created_at = :created_at, base = :base, sealed = :sealed
    WHERE name = :space";
const INSTANCES: &str =
    "INSERT INTO instances (id, host, pid, version, started_at, seen_at) VALUES ";
const LEASES: &str = "INSERT INTO leases (space, lease, start_ordinal, end_ordinal,
    closed_at_ordinal, purpose, instance, open_for, granted_at, closed_at) VALUES ";
const WORKERS: &str = "INSERT INTO workers (space, worker, instance, lease, ends) VALUES ";
const NAMES: &str = "INSERT INTO names
    (space, `key`, ordinal, purpose, owner, created_at, removed_at) VALUES ";
const IN_USE: &str = "INSERT INTO imported (space, ordinal, imported_at) VALUES ";
const POOL_NAMES: &str = "INSERT INTO pool_names (space, `key`, id) VALUES ";
const AVAILABLE: &str = "INSERT INTO available_keys (space, id, `key`) VALUES ";
const USED: &str = "INSERT INTO used_keys
    (space, id, `key`, used_at, caller, instance, expires_at, retired_at) VALUES ";
const DIGESTS: &str = "INSERT INTO digests (space, input, `key`, created_at) VALUES ";
/// The server counts rows that were there, and stay as they are, as none.
const UNLESS_THERE: &str = " ON DUPLICATE KEY UPDATE space = space";

/// How many ids one statement names: from 1,000 on MariaDB turns a list into a join.
const IDS_MAX: usize = 500;

/// Rows as statements have them, by table.
#[derive(Debug, Default)]
struct Written {
    instances: Vec<String>,
    leases: Vec<String>,
    workers: Vec<String>,
    names: Vec<String>,
    in_use: Vec<String>,
    pool_names: Vec<String>,
    available: Vec<String>,
    used: Vec<String>,
    digests: Vec<String>,
}

impl Tx {
    pub(super) async fn begin_import(&mut self, space: &MovedSpace) -> Result<Created, StoreError> {
        self.put_space(SPACE_IMPORT, &space.record(History::default())).await?;
        let found = self.space(&space.name).await?;
        // Before anything is concluded: a server that follows another may lag behind it.
        self.identity().await?;
        let begun = space.begun(Some(found), History::default());
        if let Created::Made(record) = &begun {
            // One that was there may have come from an earlier export.
            self.put_space(SPACE_REPLACE, record).await?;
        }
        Ok(begun)
    }

    pub(super) async fn import_rows(
        &mut self,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
    ) -> Result<(), StoreError> {
        let found = self.locked(space).await?;
        found.check_importing(importing)?;
        let written = Written::of(&found, rows)?;
        self.insert(INSTANCES, &written.instances, " ON DUPLICATE KEY UPDATE id = id").await?;
        self.insert(LEASES, &written.leases, UNLESS_THERE).await?;
        self.insert(WORKERS, &written.workers, UNLESS_THERE).await?;
        self.insert(NAMES, &written.names, UNLESS_THERE).await?;
        self.insert(IN_USE, &written.in_use, UNLESS_THERE).await?;
        self.insert(POOL_NAMES, &written.pool_names, UNLESS_THERE).await?;
        let added = self.insert(AVAILABLE, &written.available, UNLESS_THERE).await?;
        self.insert(USED, &written.used, UNLESS_THERE).await?;
        let removed = self.remove_used(&found, rows).await?;
        self.insert(DIGESTS, &written.digests, UNLESS_THERE).await?;
        if added != removed {
            self.pool_add(space, signed(added) - signed(removed)).await?;
        }
        Ok(())
    }

    pub(super) async fn finish_import(
        &mut self,
        space: &MovedSpace,
    ) -> Result<SpaceRecord, StoreError> {
        let found = self.locked(&space.name).await?;
        let opened = space.finished(&found)?;
        self.put_space(SPACE_REPLACE, &opened).await?;
        Ok(opened)
    }

    /// Removes keys from the pool that are used: one may be read as available before it is used, and
    /// a used key is nothing else. How many it were that count.
    async fn remove_used(
        &mut self,
        space: &SpaceRecord,
        rows: &[MovedRow],
    ) -> Result<u64, StoreError> {
        let Some(first) = first_available(space) else { return Ok(0) };
        let id = |row: &MovedRow| match row {
            MovedRow::Available { id, .. } | MovedRow::Used { id, .. } => Some(*id),
            _ => None,
        };
        let ids = rows.iter().filter_map(id).filter(|id| *id >= first);
        let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
        let mut removed = 0;
        for some in ids.chunks(IDS_MAX) {
            let (name, some) = (hex(space.name.as_bytes()), some.join(", "));
            let delete = format!(
                "DELETE available_keys FROM available_keys JOIN used_keys
                 ON used_keys.space = available_keys.space AND used_keys.id = available_keys.id
                 WHERE available_keys.space = {name} AND available_keys.id IN ({some})"
            );
            removed += self.execute_text(&delete).await?;
        }
        Ok(removed)
    }

    /// The space, its row locked.
    async fn locked(&mut self, name: &str) -> Result<SpaceRecord, StoreError> {
        let found = self.lock(name).await?;
        // Before anything is concluded: a server that follows another may lag behind it.
        self.identity().await?;
        found.ok_or_else(|| StoreError::UnknownSpace(name.to_owned()))
    }

    /// Writes the row of a space.
    async fn put_space(
        &mut self,
        sql: &'static str,
        space: &SpaceRecord,
    ) -> Result<(), StoreError> {
        let params = params! {
            "space" => &space.name,
            "definition" => json(&space.definition),
            "tuning" => json(&space.tuning),
            "fingerprint" => space.fingerprint.clone(),
            "capacity" => whole(space.capacity)?,
            "next" => whole(space.mark.next)?,
            "returned" => json(&space.returned),
            "revision" => whole(space.mark.revision)?,
            "created_at" => space.created_at.as_millisecond(),
            "base" => whole(space.base)?,
            "sealed" => space.sealed,
        };
        self.execute(sql, params).await.map(drop)
    }
}

impl Written {
    fn of(space: &SpaceRecord, rows: &[MovedRow]) -> Result<Written, StoreError> {
        let mut written = Written::default();
        for (id, (holder, granted_at)) in holders(rows) {
            let (id, host) = (hex(id.as_bytes()), hex(holder.host.as_bytes()));
            let (pid, version) = (holder.pid, hex(holder.version.as_bytes()));
            let (started, seen) = (holder.started_at.as_millisecond(), granted_at.as_millisecond());
            written.instances.push(format!("({id},{host},{pid},{version},{started},{seen})"));
        }
        let (name, first) = (hex(space.name.as_bytes()), first_available(space));
        for row in rows {
            written.add(&name, first, row)?;
        }
        Ok(written)
    }

    /// Adds a row of a space, whose name is a literal here. `first` is the lowest id that its pool can
    /// have.
    fn add(&mut self, space: &str, first: Option<KeyId>, row: &MovedRow) -> Result<(), StoreError> {
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
                let (lease, start, end) = (whole(*lease)?, whole(*start)?, whole(*end)?);
                let ended = or_null(closed_at_ordinal.map(whole).transpose()?);
                let (purpose, instance) = (purpose.name(), hex(holder.id.as_bytes()));
                let open_for = or_null(closed_at.is_none().then_some(&instance));
                let (granted, closed) = (granted_at.as_millisecond(), time_or_null(*closed_at));
                self.leases.push(format!(
                    "({space},{lease},{start},{end},{ended},'{purpose}',{instance},{open_for},\
                     {granted},{closed})"
                ));
            }
            MovedRow::Worker { worker, instance, lease, end } => {
                let (instance, lease, end) =
                    (hex(instance.as_bytes()), whole(*lease)?, whole(*end)?);
                self.workers.push(format!("({space},{worker},{instance},{lease},{end})"));
            }
            MovedRow::Name { key, ordinal, purpose, owner, created_at, removed_at } => {
                let (key, ordinal) =
                    (hex(key.as_bytes()), or_null(ordinal.map(whole).transpose()?));
                let (purpose, owner) = (purpose.name(), hex(owner.as_bytes()));
                let (created, removed) = (created_at.as_millisecond(), time_or_null(*removed_at));
                self.names.push(format!(
                    "({space},{key},{ordinal},'{purpose}',{owner},{created},{removed})"
                ));
            }
            MovedRow::InUse { ordinal, imported_at } => {
                let (ordinal, imported) = (whole(*ordinal)?, imported_at.as_millisecond());
                self.in_use.push(format!("({space},{ordinal},{imported})"));
            }
            MovedRow::PoolName { key, id } => {
                self.pool_names.push(format!("({space},{},{id})", hex(key.as_bytes())));
            }
            MovedRow::Available { id, key } => {
                if first.is_some_and(|first| *id >= first) {
                    self.available.push(format!("({space},{id},{})", hex(key.as_bytes())));
                }
            }
            MovedRow::Used { id, key, used_at, caller, instance, expires_at, retired_at } => {
                let (key, used) = (hex(key.as_bytes()), used_at.as_millisecond());
                let (caller, instance) = (hex(caller.as_bytes()), hex(instance.as_bytes()));
                let (expires, retired) = (time_or_null(*expires_at), time_or_null(*retired_at));
                self.used.push(format!(
                    "({space},{id},{key},{used},{caller},{instance},{expires},{retired})"
                ));
            }
            MovedRow::Digest { input, key, created_at } => {
                let (input, key) = (checked_input(input)?, hex(key.as_bytes()));
                let created = created_at.as_millisecond();
                self.digests.push(format!("({space},x'{input}',{key},{created})"));
            }
        }
        Ok(())
    }
}

fn or_null(value: Option<impl Display>) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| value.to_string())
}

fn time_or_null(time: Option<Timestamp>) -> String {
    or_null(time.map(Timestamp::as_millisecond))
}
