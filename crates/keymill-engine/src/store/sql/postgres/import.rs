//! Writing a keyspace that comes from another store. Each call is one transaction under the lock of
//! the space, which is sealed: nobody else changes any of these rows.
//!
//! Reading one to be moved is in `export`.

use jiff::Timestamp;

use super::key_rows::AVAILABLE_ADD;
use super::param::Params;
use super::transaction::Tx;
use crate::store::sql::export_page::{checked_input, first_available, holders, whole};
use crate::store::values::{json, signed};
use crate::store::{Created, History, MovedRow, MovedSpace, SpaceRecord, StoreError};

const SPACE_IMPORT: &str = "INSERT INTO spaces (name, definition, tuning, fingerprint, capacity,
    next, returned, revision, created_at, base, sealed)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING";
const SPACE_REPLACE: &str = "UPDATE spaces SET definition = $2, tuning = $3, fingerprint = $4,
    capacity = $5, next = $6, returned = $7, revision = $8, created_at = $9, base = $10,
    sealed = $11 WHERE name = $1";
const INSTANCES: &str = "INSERT INTO instances (id, host, pid, version, started_at, seen_at)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[],
    $6::bigint[]) ON CONFLICT DO NOTHING";
const LEASES: &str = "INSERT INTO leases (space, lease, start_ordinal, end_ordinal,
    closed_at_ordinal, purpose, instance, granted_at, closed_at)
    SELECT $1, new.* FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
    $6::text[], $7::text[], $8::bigint[], $9::bigint[]) AS new ON CONFLICT DO NOTHING";
const WORKERS: &str = "INSERT INTO workers (space, worker, instance, lease, ends)
    SELECT $1, new.* FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::bigint[]) AS new
    ON CONFLICT DO NOTHING";
const NAMES: &str = "INSERT INTO names
    (space, key, ordinal, purpose, owner, created_at, removed_at)
    SELECT $1, new.* FROM unnest($2::text[], $3::bigint[], $4::text[], $5::text[], $6::bigint[],
    $7::bigint[]) AS new ON CONFLICT DO NOTHING";
const IN_USE: &str = "INSERT INTO imported (space, ordinal, imported_at)
    SELECT $1, new.* FROM unnest($2::bigint[], $3::bigint[]) AS new ON CONFLICT DO NOTHING";
const POOL_NAMES: &str = "INSERT INTO pool_names (space, key, id)
    SELECT $1, new.* FROM unnest($2::text[], $3::bigint[]) AS new ON CONFLICT DO NOTHING";
const AVAILABLE: &str = "INSERT INTO available_keys (space, id, key)
    SELECT $1, new.* FROM unnest($2::bigint[], $3::text[]) AS new (id, key)
    WHERE NOT EXISTS (SELECT 1 FROM used_keys WHERE used_keys.space = $1 AND used_keys.id = new.id)
    ON CONFLICT DO NOTHING";
const AVAILABLE_REMOVE: &str =
    "DELETE FROM available_keys WHERE space = $1 AND id = ANY ($2::bigint[])";
const USED: &str = "INSERT INTO used_keys
    (space, id, key, used_at, caller, instance, expires_at, retired_at)
    SELECT $1, new.* FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::text[],
    $7::bigint[], $8::bigint[]) AS new ON CONFLICT DO NOTHING";
const DIGESTS: &str = "INSERT INTO digests (space, input, key, created_at)
    SELECT $1, decode(input, 'hex'), key, created_at
    FROM unnest($2::text[], $3::text[], $4::bigint[]) AS new (input, key, created_at)
    ON CONFLICT DO NOTHING";

impl Tx {
    pub(super) async fn begin_import(&self, space: &MovedSpace) -> Result<Created, StoreError> {
        self.put_space(SPACE_IMPORT, &space.record(History::default())).await?;
        let found = self.space(&space.name).await?;
        let history = found.mark.history;
        let begun = space.begun(Some(found), history);
        if let Created::Made(record) = &begun {
            // One that was there may have come from an earlier export.
            self.put_space(SPACE_REPLACE, record).await?;
        }
        Ok(begun)
    }

    pub(super) async fn import_rows(
        &self,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
    ) -> Result<(), StoreError> {
        let found = self.space(space).await?;
        found.check_importing(importing)?;
        self.import_leases(space, rows).await?;
        self.import_workers(space, rows).await?;
        self.import_names(space, rows).await?;
        self.import_in_use(space, rows).await?;
        self.import_pool_names(space, rows).await?;
        self.import_available(&found, rows).await?;
        self.import_used(&found, rows).await?;
        self.import_digests(space, rows).await
    }

    pub(super) async fn finish_import(
        &self,
        space: &MovedSpace,
    ) -> Result<SpaceRecord, StoreError> {
        let found = self.space(&space.name).await?;
        let opened = space.finished(&found)?;
        self.put_space(SPACE_REPLACE, &opened).await?;
        Ok(opened)
    }

    /// Writes the row of a space.
    async fn put_space(&self, sql: &str, space: &SpaceRecord) -> Result<(), StoreError> {
        let (definition, tuning) = (json(&space.definition), json(&space.tuning));
        let (capacity, next) = (whole(space.capacity)?, whole(space.mark.next)?);
        let (revision, base) = (whole(space.mark.revision)?, whole(space.base)?);
        let (returned, created_at) = (json(&space.returned), space.created_at.as_millisecond());
        let params: Params<'_> = &[
            &space.name,
            &definition,
            &tuning,
            &space.fingerprint,
            &capacity,
            &next,
            &returned,
            &revision,
            &created_at,
            &base,
            &space.sealed,
        ];
        self.execute(sql, params).await.map(drop)
    }

    async fn import_leases(&self, space: &str, rows: &[MovedRow]) -> Result<(), StoreError> {
        let (mut numbers, mut starts, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let (mut closed_ordinals, mut purposes) = (Vec::new(), Vec::new());
        let (mut instances, mut granted, mut closed) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let MovedRow::Lease {
                lease,
                start,
                end,
                closed_at_ordinal,
                purpose,
                holder,
                granted_at,
                closed_at,
            } = row
            else {
                continue;
            };
            numbers.push(whole(*lease)?);
            starts.push(whole(*start)?);
            ends.push(whole(*end)?);
            closed_ordinals.push(closed_at_ordinal.map(whole).transpose()?);
            purposes.push(purpose.name());
            instances.push(holder.id.as_str());
            granted.push(granted_at.as_millisecond());
            closed.push(closed_at.map(Timestamp::as_millisecond));
        }
        if numbers.is_empty() {
            return Ok(());
        }
        self.import_instances(rows).await?;
        let params: Params<'_> = &[
            &space,
            &numbers,
            &starts,
            &ends,
            &closed_ordinals,
            &purposes,
            &instances,
            &granted,
            &closed,
        ];
        self.execute(LEASES, params).await.map(drop)
    }

    /// Makes the holders of leases known.
    async fn import_instances(&self, rows: &[MovedRow]) -> Result<(), StoreError> {
        let (mut ids, mut hosts, mut pids) = (Vec::new(), Vec::new(), Vec::new());
        let (mut versions, mut started, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        for (id, (holder, granted_at)) in holders(rows) {
            ids.push(id);
            hosts.push(holder.host.as_str());
            pids.push(i64::from(holder.pid));
            versions.push(holder.version.as_str());
            started.push(holder.started_at.as_millisecond());
            seen.push(granted_at.as_millisecond());
        }
        let params: Params<'_> = &[&ids, &hosts, &pids, &versions, &started, &seen];
        self.execute(INSTANCES, params).await.map(drop)
    }

    async fn import_workers(&self, space: &str, rows: &[MovedRow]) -> Result<(), StoreError> {
        let (mut workers, mut instances) = (Vec::new(), Vec::new());
        let (mut leases, mut ends) = (Vec::new(), Vec::new());
        for row in rows {
            let MovedRow::Worker { worker, instance, lease, end } = row else { continue };
            workers.push(i64::from(*worker));
            instances.push(instance.as_str());
            leases.push(whole(*lease)?);
            ends.push(whole(*end)?);
        }
        if workers.is_empty() {
            return Ok(());
        }
        self.execute(WORKERS, &[&space, &workers, &instances, &leases, &ends]).await.map(drop)
    }

    async fn import_names(&self, space: &str, rows: &[MovedRow]) -> Result<(), StoreError> {
        let (mut keys, mut ordinals, mut purposes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut owners, mut created, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let MovedRow::Name { key, ordinal, purpose, owner, created_at, removed_at } = row
            else {
                continue;
            };
            keys.push(key.as_str());
            ordinals.push(ordinal.map(whole).transpose()?);
            purposes.push(purpose.name());
            owners.push(owner.as_str());
            created.push(created_at.as_millisecond());
            removed.push(removed_at.map(Timestamp::as_millisecond));
        }
        if keys.is_empty() {
            return Ok(());
        }
        let params: Params<'_> =
            &[&space, &keys, &ordinals, &purposes, &owners, &created, &removed];
        self.execute(NAMES, params).await.map(drop)
    }

    async fn import_in_use(&self, space: &str, rows: &[MovedRow]) -> Result<(), StoreError> {
        let (mut ordinals, mut times) = (Vec::new(), Vec::new());
        for row in rows {
            let MovedRow::InUse { ordinal, imported_at } = row else { continue };
            ordinals.push(whole(*ordinal)?);
            times.push(imported_at.as_millisecond());
        }
        if ordinals.is_empty() {
            return Ok(());
        }
        self.execute(IN_USE, &[&space, &ordinals, &times]).await.map(drop)
    }

    async fn import_pool_names(&self, space: &str, rows: &[MovedRow]) -> Result<(), StoreError> {
        let (mut keys, mut ids) = (Vec::new(), Vec::new());
        for row in rows {
            let MovedRow::PoolName { key, id } = row else { continue };
            keys.push(key.as_str());
            ids.push(*id);
        }
        if keys.is_empty() {
            return Ok(());
        }
        self.execute(POOL_NAMES, &[&space, &keys, &ids]).await.map(drop)
    }

    async fn import_available(
        &self,
        space: &SpaceRecord,
        rows: &[MovedRow],
    ) -> Result<(), StoreError> {
        let Some(first) = first_available(space) else { return Ok(()) };
        let (mut ids, mut keys) = (Vec::new(), Vec::new());
        for row in rows {
            let MovedRow::Available { id, key } = row else { continue };
            if *id >= first {
                ids.push(*id);
                keys.push(key.as_str());
            }
        }
        if ids.is_empty() {
            return Ok(());
        }
        let added = self.execute(AVAILABLE, &[&space.name, &ids, &keys]).await?;
        self.execute(AVAILABLE_ADD, &[&space.name, &signed(added)]).await.map(drop)
    }

    async fn import_used(&self, space: &SpaceRecord, rows: &[MovedRow]) -> Result<(), StoreError> {
        let (mut ids, mut keys, mut used) = (Vec::new(), Vec::new(), Vec::new());
        let (mut callers, mut instances) = (Vec::new(), Vec::new());
        let (mut expire, mut retired) = (Vec::new(), Vec::new());
        for row in rows {
            let MovedRow::Used { id, key, used_at, caller, instance, expires_at, retired_at } = row
            else {
                continue;
            };
            ids.push(*id);
            keys.push(key.as_str());
            used.push(used_at.as_millisecond());
            callers.push(caller.as_str());
            instances.push(instance.as_str());
            expire.push(expires_at.map(Timestamp::as_millisecond));
            retired.push(retired_at.map(Timestamp::as_millisecond));
        }
        if ids.is_empty() {
            return Ok(());
        }
        let params: Params<'_> =
            &[&space.name, &ids, &keys, &used, &callers, &instances, &expire, &retired];
        self.execute(USED, params).await?;
        // One that was read as available before it was used. A used key is nothing else.
        let Some(first) = first_available(space) else { return Ok(()) };
        let ids: Vec<i64> = ids.into_iter().filter(|id| *id >= first).collect();
        let removed = self.execute(AVAILABLE_REMOVE, &[&space.name, &ids]).await?;
        if removed > 0 {
            self.execute(AVAILABLE_ADD, &[&space.name, &-signed(removed)]).await?;
        }
        Ok(())
    }

    async fn import_digests(&self, space: &str, rows: &[MovedRow]) -> Result<(), StoreError> {
        let (mut inputs, mut keys, mut created) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let MovedRow::Digest { input, key, created_at } = row else { continue };
            inputs.push(checked_input(input)?);
            keys.push(key.as_str());
            created.push(created_at.as_millisecond());
        }
        if inputs.is_empty() {
            return Ok(());
        }
        self.execute(DIGESTS, &[&space, &inputs, &keys, &created]).await.map(drop)
    }
}
