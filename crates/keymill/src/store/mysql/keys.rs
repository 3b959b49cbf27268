//! Keys as rows of MySQL: pools, used keys, digests.
//!
//! Claims and notes take rows that nobody else has locked, and touch the row of their space with
//! their last statements: instances wait for each other's commits at the most. Rows move many to a
//! statement, whose text names them; strings in it are written in hex.
//!
//! # Invariants
//!
//! - Locks are taken in one order: rows of keys, then the row of the space, then that of its pool.
//!   What begins with the row of the space touches no row of a key that another may have locked.
//! - Rows of keys are locked by their ids alone. A plan that looked at others on the way would wait
//!   for them, and they for it: hence `FORCE INDEX`, and hence the form of `DELETE` that takes it.

use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use mysql_async::{Row, params};

use super::rows::column;
use super::text::{ROWS_MAX, hex};
use super::tx::Tx;
use super::{MysqlStore, SKIPS, now};
use crate::floor::{Floor, Mark};
use crate::skip::without;
use crate::store::keys::{
    AvailablePage, Claim, ClaimAsk, Claimed, DigestBatch, Digested, Fill, Filled, Found, KeyId,
    KeyPlace, KeyStore, KeyUse, LastUse, Noted, Release, Retire, UsedKey, UsedPage, Uses, first_id,
    key_id,
};
use crate::store::values::{millis, signed, time, unsigned};
use crate::store::{Grant, Purpose, SpaceRecord, Store, StoreError, is_later_era};

/// How many keys are available, and the time.
const POOL: &str =
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
const FRESH_PAGE: &str = "SELECT id, `key` FROM available_keys FORCE INDEX (PRIMARY)
    WHERE space = :space AND id >= :from AND reserved_by IS NULL ORDER BY id LIMIT :limit";
const KEY_REMOVE: &str =
    "DELETE FROM available_keys WHERE space = :space AND id = :id AND `key` = :key";
const KEY_REMOVE_FRESH: &str = "DELETE FROM available_keys
    WHERE space = :space AND id = :id AND `key` = :key AND reserved_by IS NULL";
const USED_ADD: &str =
    "INSERT INTO used_keys (id, space, `key`, used_at, caller, instance, expires_at) VALUES ";
const USED_RETIRE: &str = concat!(
    "INSERT INTO used_keys (id, space, `key`, used_at, caller, instance, retired_at)
    VALUES (:id, :space, :key, :used_at, '', :instance, ",
    now!(),
    ") ON DUPLICATE KEY UPDATE retired_at = COALESCE(retired_at, VALUES(retired_at))"
);
const USED: &str = "SELECT id, `key`, used_at, caller, instance, expires_at, retired_at
    FROM used_keys WHERE space = :space AND id = :id";
const USED_PAGE: &str = "SELECT id, `key`, used_at, caller, instance, expires_at, retired_at
    FROM used_keys FORCE INDEX (used_keys_by_time) WHERE space = :space
    AND (used_at > :after OR (used_at = :after AND id > :id))
    AND used_at >= :from AND used_at < :to ORDER BY used_at, id LIMIT :limit";
const USED_PAGE_OF: &str = "SELECT id, `key`, used_at, caller, instance, expires_at, retired_at
    FROM used_keys FORCE INDEX (used_keys_by_caller) WHERE space = :space AND caller = :caller
    AND (used_at > :after OR (used_at = :after AND id > :id))
    AND used_at >= :from AND used_at < :to ORDER BY used_at, id LIMIT :limit";
/// Both tables in one statement, so that a key on its way from one to the other is found.
const FOUND: &str = "SELECT id, `key`, used_at, caller, instance, expires_at, retired_at, 1
    FROM used_keys WHERE space = :space AND id = :id AND `key` = :key
    UNION ALL SELECT id, `key`, reserved_at, NULL, reserved_by, NULL, NULL, 0
    FROM available_keys WHERE space = :space AND id = :id AND `key` = :key";
const POOL_NAMES_ADD: &str = "INSERT INTO pool_names (space, `key`, id) VALUES ";
const POOL_NAME_ID: &str = "SELECT id FROM pool_names WHERE space = :space AND `key` = :key";
const SPACE_STEP: &str = "UPDATE spaces SET revision = revision + 1 WHERE name = :space";

#[async_trait]
impl KeyStore for MysqlStore {
    async fn fill(&self, fill: &Fill) -> Result<Filled, StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.fill(fill).await;
        tx.finish(answer).await
    }

    async fn claim(&self, ask: &ClaimAsk) -> Result<Claim, StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.claim(ask).await;
        tx.finish(answer).await
    }

    async fn release(&self, back: &Release) -> Result<Mark, StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.release(back).await;
        tx.finish(answer).await
    }

    async fn note(&self, uses: &Uses) -> Result<Noted, StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.note(uses).await;
        tx.finish(answer).await
    }

    async fn retire(&self, retire: &Retire) -> Result<UsedKey, StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.retire(retire).await;
        tx.finish(answer).await
    }

    async fn available(&self, space: &str) -> Result<u64, StoreError> {
        let rows = self.connection().await?.query(POOL, params! { space }).await?;
        Ok(unsigned(column(&rows[0], 0)))
    }

    async fn find(&self, at: &KeyPlace) -> Result<Option<Found>, StoreError> {
        let KeyPlace { space, id, key } = at;
        let rows = self.connection().await?.query(FOUND, params! { space, id, key }).await?;
        let is_used = |row: &&Row| column::<i64>(row, 7) == 1;
        if let Some(used) = rows.iter().find(is_used) {
            return Ok(Some(Found::Used(used_from(used))));
        }
        Ok(rows.first().map(|row| match column::<Option<String>>(row, 4) {
            None => Found::Available,
            Some(by) => Found::Reserved { by, at: time(column(row, 2)) },
        }))
    }

    async fn imported(&self, space: &str, key: &str) -> Result<Option<KeyPlace>, StoreError> {
        let rows = self.connection().await?.query(POOL_NAME_ID, params! { space, key }).await?;
        let place = |row: &Row| KeyPlace {
            space: space.to_owned(),
            id: column(row, 0),
            key: key.to_owned(),
        };
        Ok(rows.first().map(place))
    }

    async fn available_page(&self, page: &AvailablePage) -> Result<Vec<Claimed>, StoreError> {
        let first = first_id(self.space(&page.space).await?.mark.revision);
        let from = page.after.as_ref().map_or(first, |after| first.max(after.id + 1));
        let params = params! { "space" => &page.space, from, "limit" => page.limit };
        let rows = self.connection().await?.query(FRESH_PAGE, params).await?;
        Ok(rows.iter().map(claimed_from).collect())
    }

    async fn used_page(&self, page: &UsedPage) -> Result<Vec<UsedKey>, StoreError> {
        let (after, id) = page.after.map_or((i64::MIN, 0), |(at, id)| (at.as_millisecond(), id));
        let from = page.from.map_or(i64::MIN, Timestamp::as_millisecond);
        let params = params! {
            "space" => &page.space,
            after,
            id,
            // One bound from below, for the index.
            "from" => from.max(after),
            "to" => page.to.map_or(i64::MAX, Timestamp::as_millisecond),
            "caller" => page.caller.clone(),
            "limit" => page.limit,
        };
        let sql = if page.caller.is_some() { USED_PAGE_OF } else { USED_PAGE };
        let rows = self.connection().await?.query(sql, params).await?;
        Ok(rows.iter().map(used_from).collect())
    }

    // Under the lock of the space, and within the time of a request.
    fn fill_max(&self) -> u64 {
        10_000
    }

    async fn digest(&self, batch: &DigestBatch) -> Result<Digested, StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.digest(batch).await;
        tx.finish(answer).await
    }
}

impl Tx {
    async fn fill(&mut self, fill: &Fill) -> Result<Filled, StoreError> {
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
        let (space, bounds) = (&fill.space, (signed(start), signed(end)));
        let params = params! { space, "start" => bounds.0, "end" => bounds.1 };
        let skips = self.query(SKIPS, params).await?;
        let skips: Vec<u64> = skips.iter().map(|row| unsigned(column(row, 0))).collect();
        let space = hex(space.as_bytes());
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

    async fn claim(&mut self, ask: &ClaimAsk) -> Result<Claim, StoreError> {
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

    async fn release(&mut self, back: &Release) -> Result<Mark, StoreError> {
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

    async fn note(&mut self, uses: &Uses) -> Result<Noted, StoreError> {
        let read = self.look_above(&uses.space, &uses.floor).await?;
        self.check_last(&read, uses.last.as_ref(), &uses.instance, &uses.floor).await?;
        let (_, now) = self.pool(&uses.space).await?;
        let (space, instance) = (hex(uses.space.as_bytes()), hex(uses.instance.as_bytes()));
        let mut ids: Vec<KeyId> = uses.keys.iter().map(|used| used.id).collect();
        ids.sort_unstable();
        if uses.pooled {
            let first = first_id(read.mark.revision);
            ids.retain(|id| *id >= first);
            let ours = format!(
                "SELECT id FROM available_keys FORCE INDEX (PRIMARY)
                WHERE space = {space} AND reserved_by = {instance}"
            );
            ids = self.lock_ids(&ours, &ids).await?;
            self.on_ids(&removal("available_keys", &space), &ids).await?;
        }
        // One that was retired before it was handed out is not handed out.
        let retired = self.used_among(&space, &ids).await?;
        let mut free: HashSet<KeyId> = ids.into_iter().filter(|id| !retired.contains(id)).collect();
        let expires_at = expiry(now, uses.ttl);
        let (mut rows, mut may_go) = (Vec::new(), Vec::with_capacity(uses.keys.len()));
        for KeyUse { id, key, caller } in &uses.keys {
            let goes = free.remove(id);
            if goes {
                let (key, caller) = (hex(key.as_bytes()), hex(caller.as_bytes()));
                rows.push(format!("({id},{space},{key},{now},{caller},{instance},{expires_at})"));
            }
            may_go.push(goes);
        }
        self.insert(USED_ADD, &rows, "").await?;
        Ok(Noted { mark: self.step(&read).await?.mark, may_go })
    }

    async fn retire(&mut self, retire: &Retire) -> Result<UsedKey, StoreError> {
        let KeyPlace { space, id, key } = &retire.at;
        let read = self.look_above(space, &retire.floor).await?;
        let (used_at, instance) = (retire.used_at.as_millisecond(), &retire.instance);
        // One that came back to the pool meanwhile does not stay there.
        let fresh = self.execute(KEY_REMOVE_FRESH, params! { space, id, key }).await?;
        self.execute(KEY_REMOVE, params! { space, id, key }).await?;
        self.execute(USED_RETIRE, params! { id, space, key, used_at, instance }).await?;
        self.step(&read).await?;
        if fresh > 0 && *id >= first_id(read.mark.revision) {
            self.pool_add(space, -1).await?;
        }
        let rows = self.query(USED, params! { space, id }).await?;
        Ok(used_from(&rows[0]))
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

    /// Refuses where the last use is not on record any more.
    async fn check_last(
        &mut self,
        space: &SpaceRecord,
        last: Option<&LastUse>,
        instance: &str,
        floor: &Floor,
    ) -> Result<(), StoreError> {
        let Some(last) = last.filter(|last| last.is_expected(space.mark.revision)) else {
            return Ok(());
        };
        let params = params! { "space" => &space.name, "id" => last.key.id };
        let rows = self.query(USED, params).await?;
        match rows.first().map(used_from) {
            Some(used) if used.instance == instance && used.key == last.key.key => Ok(()),
            _ => Err(last.lost(&space.name, floor)),
        }
    }

    /// Drops what was available before an advance.
    pub(super) async fn drop_pool(&mut self, space: &str) -> Result<(), StoreError> {
        self.execute(POOL_DROP, params! { space }).await.map(drop)
    }

    /// How many keys are available, and the time.
    async fn pool(&mut self, space: &str) -> Result<(u64, i64), StoreError> {
        let rows = self.query(POOL, params! { space }).await?;
        Ok((unsigned(column(&rows[0], 0)), column(&rows[0], 1)))
    }

    /// Counts keys that came or went. After the row of the space was locked.
    async fn pool_add(&mut self, space: &str, count: i64) -> Result<(), StoreError> {
        self.execute(POOL_ADD, params! { space, count }).await.map(drop)
    }

    /// Adds a change to the revision of a space that was only looked at, which locks its row: as
    /// late in a transaction as can be. An advance may have come in between, and what was chosen
    /// before it must not be used after it.
    async fn step(&mut self, read: &SpaceRecord) -> Result<SpaceRecord, StoreError> {
        let name = &read.name;
        self.execute(SPACE_STEP, params! { "space" => name }).await?;
        let space = self.space(name).await?;
        if is_later_era(space.mark.revision, read.mark.revision) {
            return Err(StoreError::Unavailable(format!("`{name}` was advanced meanwhile")));
        }
        Ok(space)
    }

    /// The ids that are used ones, locked from here on.
    async fn used_among(
        &mut self,
        space: &str,
        ids: &[KeyId],
    ) -> Result<HashSet<KeyId>, StoreError> {
        let used = format!("SELECT id FROM used_keys FORCE INDEX (PRIMARY) WHERE space = {space}");
        Ok(self.lock_ids(&used, ids).await?.into_iter().collect())
    }

    /// The ids whose rows a query finds, locked from here on.
    async fn lock_ids(&mut self, select: &str, ids: &[KeyId]) -> Result<Vec<KeyId>, StoreError> {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let rows = self.among(&format!("{select} AND id"), &ids, " FOR UPDATE").await?;
        Ok(rows.iter().map(|row| column(row, 0)).collect())
    }

    /// Runs a statement on the rows of ids, part by part; how many it changed.
    async fn on_ids(&mut self, statement: &str, ids: &[KeyId]) -> Result<u64, StoreError> {
        let mut changed = 0;
        for ids in ids.chunks(ROWS_MAX) {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let text = format!("{statement} AND id IN ({})", ids.join(","));
            changed += self.execute_text(&text).await?;
        }
        Ok(changed)
    }
}

/// A statement that deletes rows of a space; it lacks their ids.
fn removal(table: &str, space: &str) -> String {
    format!("DELETE gone FROM {table} AS gone FORCE INDEX (PRIMARY) WHERE space = {space}")
}

fn expiry(now: i64, ttl: Option<Duration>) -> String {
    ttl.map_or("NULL".to_owned(), |ttl| now.saturating_add(millis(ttl)).to_string())
}

fn ids_of(keys: &[Claimed]) -> Vec<KeyId> {
    keys.iter().map(|claimed| claimed.id).collect()
}

fn claimed_from(row: &Row) -> Claimed {
    Claimed { id: column(row, 0), key: column(row, 1) }
}

fn used_from(row: &Row) -> UsedKey {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_hex_also_of_nothing_and_of_quotes() {
        for (bytes, expected) in [("", "x''"), ("a'\\", "x'61275c'"), ("\u{fc}", "x'c3bc'")] {
            assert_eq!(hex(bytes.as_bytes()), expected);
        }
    }
}
