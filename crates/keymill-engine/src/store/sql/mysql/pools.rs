//! Pools in a MySQL transaction: how keys come into one, are claimed, and come back. In which order
//! rows are locked is told in `key_rows`.

use std::ops::Range;

use mysql_async::params;

use super::bulk::{ROWS_MAX, hex, removal};
use super::rows::{claimed_from, column};
use super::statements::now;
use super::transaction::Tx;
use super::used::expiry;
use crate::space::skips::without;
use crate::store::values::{millis, signed, unsigned};
use crate::store::{
    Claim, ClaimAsk, Claimed, Fill, Filled, Grant, KeyId, Mark, Purpose, Release, SpaceRecord,
    StoreError, first_id, key_id,
};

/// How many keys are available, and the time.
pub(super) const POOL: &str =
    concat!("SELECT COALESCE((SELECT available FROM pools WHERE space = :space), 0), ", now!());
const POOL_ADD: &str = "INSERT INTO pools (space, available) VALUES (:space, :count)
    ON DUPLICATE KEY UPDATE available = available + VALUES(available)";
const POOL_DROP: &str = "UPDATE pools SET available = 0 WHERE space = :space";
const KEYS_ADD: &str = "INSERT INTO available_keys (id, space, `key`) VALUES ";
const EXPIRED: &str = "SELECT id, `key` FROM available_keys FORCE INDEX (available_keys_reserved)
    WHERE space = :space AND reserved_at <= :outlived AND id >= :first
    ORDER BY reserved_at LIMIT :size FOR UPDATE SKIP LOCKED";
const FRESH: &str = "SELECT id, `key` FROM available_keys FORCE INDEX (PRIMARY)
    WHERE space = :space AND id >= :from AND reserved_by IS NULL
    ORDER BY id LIMIT :size FOR UPDATE SKIP LOCKED";
const POOL_NAMES_ADD: &str = "INSERT INTO pool_names (space, `key`, id) VALUES ";

impl Tx {
    pub(super) async fn fill(&mut self, fill: &Fill) -> Result<Filled, StoreError> {
        let mut space = self.space_above(&fill.space, &fill.floor).await?;
        if space.sealed {
            return Err(StoreError::Sealed(fill.space.clone()));
        }
        let (before, _) = self.pool(&fill.space).await?;
        if fill.enough.is_some_and(|enough| before >= enough) {
            return Ok(Filled { mark: space.mark, added: 0, available: before });
        }
        let grant = fill.grant(&mut space)?;
        let instance = &fill.instance.id;
        self.know(&fill.instance).await?;
        self.record_lease(&space, grant.ordinals.clone(), Purpose::Fill, instance).await?;
        self.close(&fill.space, grant.lease, instance, None, None).await?;
        self.move_to(&space).await?;
        let added = self.write_keys(fill, &grant).await?;
        self.pool_add(&fill.space, signed(added)).await?;
        Ok(Filled { mark: space.mark, added, available: before + added })
    }

    /// Writes the keys of a grant into the pool, but for those that names occupy; how many.
    async fn write_keys(&mut self, fill: &Fill, grant: &Grant) -> Result<u64, StoreError> {
        let Range { start, end } = grant.ordinals;
        let skips = self.skips(&fill.space, start..end).await?;
        let space = hex(fill.space.as_bytes());
        let mut added = 0;
        // A statement at a time: making all keys at once would keep this thread from others.
        for from in (start..end).step_by(ROWS_MAX) {
            let mut rows = Vec::with_capacity(ROWS_MAX);
            without(&skips, from..end.min(from + ROWS_MAX as u64), |run| {
                (fill.write)(run, &mut |ordinal, key| {
                    let id = key_id(grant.lease, ordinal - start);
                    rows.push(format!("({id},{space},{})", hex(key.as_bytes())));
                });
            });
            self.insert(KEYS_ADD, &rows, "").await?;
            added += rows.len() as u64;
        }
        Ok(added)
    }

    pub(super) async fn claim(&mut self, ask: &ClaimAsk) -> Result<Claim, StoreError> {
        let space = self.look_above(&ask.space, &ask.floor).await?;
        if space.sealed {
            return Err(StoreError::Sealed(ask.space.clone()));
        }
        self.check_last(&space, ask.last.as_ref(), &ask.instance.id, &ask.floor).await?;
        let (available, now) = self.pool(&ask.space).await?;
        let first = first_id(space.mark.revision);
        let (mut keys, fresh) = self.pick(ask, ask.size_of(available), first, now).await?;
        if keys.is_empty() {
            return Ok(Claim { mark: space.mark, keys, available });
        }
        if ask.reserve {
            self.reserve(ask, &keys, now).await?;
        } else {
            keys = self.use_up(ask, keys, now).await?;
        }
        let after = self.step(&space).await?;
        if after.sealed {
            return Err(StoreError::Sealed(ask.space.clone()));
        }
        self.pool_add(&ask.space, -signed(fresh)).await?;
        let (available, _) = self.pool(&ask.space).await?;
        Ok(Claim { mark: after.mark, keys, available })
    }

    /// Locks keys that nobody else has locked, and with them what outlived its reservation. The
    /// number tells how many were not reserved.
    async fn pick(
        &mut self,
        ask: &ClaimAsk,
        size: u64,
        first: KeyId,
        now: i64,
    ) -> Result<(Vec<Claimed>, u64), StoreError> {
        let (space, outlived) = (&ask.space, now - millis(ask.reserve_max));
        let params = params! { space, outlived, first, "size" => signed(size) };
        let rows = self.query(EXPIRED, params).await?;
        let mut keys: Vec<Claimed> = rows.iter().map(claimed_from).collect();
        let expired = keys.len() as u64;
        // From where the last claim ended, to pass over what is gone; what came back lies before.
        let from = first.max(ask.after);
        let params = params! { space, from, "size" => signed(size - expired) };
        let mut rows = self.query(FRESH, params).await?;
        if keys.is_empty() && rows.is_empty() {
            let params = params! { space, "from" => first, "size" => signed(size) };
            rows = self.query(FRESH, params).await?;
        }
        keys.extend(rows.iter().map(claimed_from));
        Ok((keys, rows.len() as u64))
    }

    async fn reserve(
        &mut self,
        ask: &ClaimAsk,
        keys: &[Claimed],
        now: i64,
    ) -> Result<(), StoreError> {
        let (space, instance) = (hex(ask.space.as_bytes()), hex(ask.instance.id.as_bytes()));
        let reserve = format!(
            "UPDATE available_keys FORCE INDEX (PRIMARY)
            SET reserved_by = {instance}, reserved_at = {now} WHERE space = {space}"
        );
        self.on_ids(&reserve, &ids_of(keys)).await.map(drop)
    }

    /// Moves keys from the pool to the used ones. Those that were retired before only leave the
    /// pool, and are not among what is returned.
    async fn use_up(
        &mut self,
        ask: &ClaimAsk,
        mut keys: Vec<Claimed>,
        now: i64,
    ) -> Result<Vec<Claimed>, StoreError> {
        let (space, instance) = (hex(ask.space.as_bytes()), hex(ask.instance.id.as_bytes()));
        let all = ids_of(&keys);
        let retired = self.used_among(&space, &all).await?;
        keys.retain(|claimed| !retired.contains(&claimed.id));
        let expires_at = expiry(now, ask.ttl);
        let copy = format!(
            "INSERT INTO used_keys (id, space, `key`, used_at, caller, instance, expires_at)
            SELECT id, space, `key`, {now}, '', {instance}, {expires_at}
            FROM available_keys FORCE INDEX (PRIMARY) WHERE space = {space}"
        );
        self.on_ids(&copy, &ids_of(&keys)).await?;
        self.on_ids(&removal("available_keys", &space), &all).await?;
        Ok(keys)
    }

    pub(super) async fn release(&mut self, back: &Release) -> Result<Mark, StoreError> {
        let read = self.look_above(&back.space, &back.floor).await?;
        let first = first_id(read.mark.revision);
        let (space, instance) = (hex(back.space.as_bytes()), hex(back.instance.as_bytes()));
        let mut ids = ids_of(&back.keys);
        ids.retain(|id| *id >= first);
        ids.sort_unstable();
        ids.dedup();
        let released = if back.reserved {
            let unreserve = format!(
                "UPDATE available_keys FORCE INDEX (PRIMARY) SET reserved_by = NULL,
                reserved_at = NULL WHERE space = {space} AND reserved_by = {instance}"
            );
            self.on_ids(&unreserve, &ids).await?
        } else {
            let ours = format!(
                "SELECT id FROM used_keys FORCE INDEX (PRIMARY)
                WHERE space = {space} AND instance = {instance} AND retired_at IS NULL"
            );
            let ids = self.lock_ids(&ours, &ids).await?;
            let copy = format!(
                "INSERT INTO available_keys (id, space, `key`) SELECT id, space, `key`
                FROM used_keys FORCE INDEX (PRIMARY) WHERE space = {space}"
            );
            self.on_ids(&copy, &ids).await?;
            self.on_ids(&removal("used_keys", &space), &ids).await?
        };
        let after = self.step(&read).await?;
        self.pool_add(&back.space, signed(released)).await?;
        Ok(after.mark)
    }

    /// Writes imported keys into the pool, under the revision that the space has moved to.
    pub(super) async fn pool_names(
        &mut self,
        space: &SpaceRecord,
        made: &[&str],
    ) -> Result<(), StoreError> {
        let name = hex(space.name.as_bytes());
        let (mut keys, mut names) = (Vec::new(), Vec::new());
        for (place, key) in made.iter().enumerate() {
            let (id, key) = (key_id(space.mark.revision, place as u64), hex(key.as_bytes()));
            keys.push(format!("({id},{name},{key})"));
            names.push(format!("({name},{key},{id})"));
        }
        self.insert(KEYS_ADD, &keys, "").await?;
        self.insert(POOL_NAMES_ADD, &names, " ON DUPLICATE KEY UPDATE id = VALUES(id)").await?;
        self.pool_add(&space.name, signed(made.len() as u64)).await
    }

    /// Drops what was available before an advance.
    pub(super) async fn drop_pool(&mut self, space: &str) -> Result<(), StoreError> {
        self.execute(POOL_DROP, params! { space }).await.map(drop)
    }

    /// How many keys are available, and the time.
    pub(super) async fn pool(&mut self, space: &str) -> Result<(u64, i64), StoreError> {
        let rows = self.query(POOL, params! { space }).await?;
        Ok((unsigned(column(&rows[0], 0)), column(&rows[0], 1)))
    }

    /// Counts keys that came or went. After the row of the space was locked.
    pub(super) async fn pool_add(&mut self, space: &str, count: i64) -> Result<(), StoreError> {
        self.execute(POOL_ADD, params! { space, count }).await.map(drop)
    }
}

fn ids_of(keys: &[Claimed]) -> Vec<KeyId> {
    keys.iter().map(|claimed| claimed.id).collect()
}
