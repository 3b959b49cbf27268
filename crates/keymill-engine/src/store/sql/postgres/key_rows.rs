//! Keys as rows of PostgreSQL: pools and used keys.
//!
//! Claims and notes take rows that nobody else has locked, and touch the row of their space with
//! their last statement: instances wait for each other's commits at the most. What they decided before
//! is looked at again there: an advance or a seal may have come first.

use std::collections::HashSet;

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::PostgresStore;
use super::param::Params;
use super::statements::SPACE;
use super::transaction::Tx;
use crate::space::skips::without;
use crate::store::values::{millis, signed, time, unsigned};
use crate::store::{
    AvailablePage, Claim, ClaimAsk, Claimed, DigestBatch, Digested, Digests, Fill, Filled, Floor,
    Found, KeyId, KeyPlace, LastUse, Mark, Noted, Pools, Purpose, Release, Retire, SpaceRecord,
    StoreError, UseLog, UsedKey, UsedPage, Uses, first_id, is_later_era, key_id,
};

const AVAILABLE: &str = "SELECT available FROM pools WHERE space = $1";
pub(super) const AVAILABLE_ADD: &str = "INSERT INTO pools (space, available) VALUES ($1, $2)
    ON CONFLICT (space) DO UPDATE SET available = pools.available + excluded.available";
const AVAILABLE_DROP: &str = "UPDATE pools SET available = 0 WHERE space = $1";
const KEYS_ADD: &str = "COPY available_keys (id, space, key) FROM STDIN (FORMAT binary)";
const EXPIRED: &str = "SELECT id, key FROM available_keys
    WHERE space = $1 AND id >= $2 AND reserved_at <=
        (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $3::bigint)
    ORDER BY reserved_at LIMIT $4 FOR UPDATE SKIP LOCKED";
const FRESH: &str = "SELECT id, key FROM available_keys
    WHERE space = $1 AND id >= $2 AND reserved_by IS NULL
    ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED";
const FRESH_PAGE: &str = "SELECT id, key FROM available_keys
    WHERE space = $1 AND id >= $2 AND reserved_by IS NULL ORDER BY id LIMIT $3";
const RESERVE: &str = "UPDATE available_keys SET reserved_by = $3,
    reserved_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    WHERE space = $1 AND id = ANY($2)";
const USE_CLAIMED: &str = "WITH claimed AS (
        DELETE FROM available_keys WHERE space = $1 AND id = ANY($2) RETURNING id, key)
    INSERT INTO used_keys (id, space, key, used_at, caller, instance, expires_at)
    SELECT id, $1, key, now, '', $3, now + $4::bigint FROM claimed,
    (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS clock
    ON CONFLICT (space, id) DO NOTHING RETURNING id";
const USE_RESERVED: &str = "WITH uses AS (
        SELECT * FROM unnest($2::bigint[], $3::text[]) AS uses (id, caller)),
    moved AS (
        DELETE FROM available_keys AS available USING uses
        WHERE available.space = $1 AND available.id = uses.id AND available.id >= $6
        AND available.reserved_by = $4 RETURNING available.id, available.key, uses.caller)
    INSERT INTO used_keys (id, space, key, used_at, caller, instance, expires_at)
    SELECT id, $1, key, now, caller, $4, now + $5::bigint FROM moved,
    (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS clock
    ON CONFLICT (space, id) DO NOTHING RETURNING id";
const USE_LEASED: &str = "INSERT INTO used_keys
    (id, space, key, used_at, caller, instance, expires_at)
    SELECT id, $1, key, now, caller, $5, now + $6::bigint
    FROM unnest($2::bigint[], $3::text[], $4::text[]) AS uses (id, key, caller),
    (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS clock
    ON CONFLICT (space, id) DO NOTHING RETURNING id";
const REMOVE: &str = "DELETE FROM available_keys WHERE space = $1 AND id = $2
    RETURNING reserved_by IS NULL";
const UNRESERVE: &str = "UPDATE available_keys SET reserved_by = NULL, reserved_at = NULL
    WHERE space = $1 AND id = ANY($2) AND reserved_by = $3";
const USED_TAKE_BACK: &str = "WITH taken AS (
        DELETE FROM used_keys WHERE space = $1 AND id = ANY($2) AND instance = $3
        AND retired_at IS NULL RETURNING id, key)
    INSERT INTO available_keys (id, space, key) SELECT id, $1, key FROM taken";
const USED_RETIRE: &str = "INSERT INTO used_keys
    (id, space, key, used_at, caller, instance, retired_at)
    VALUES ($1, $2, $3, $4, '', $5, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    ON CONFLICT (space, id) DO UPDATE
    SET retired_at = coalesce(used_keys.retired_at, excluded.retired_at)
    RETURNING id, key, used_at, caller, instance, expires_at, retired_at";
const USED: &str = "SELECT id, key, used_at, caller, instance, expires_at, retired_at
    FROM used_keys WHERE space = $1 AND id = $2";
const USED_PAGE: &str = "SELECT id, key, used_at, caller, instance, expires_at, retired_at
    FROM used_keys WHERE space = $1 AND (used_at, id) > ($2, $3) AND used_at < $4
    ORDER BY used_at, id LIMIT $5";
const USED_PAGE_OF: &str = "SELECT id, key, used_at, caller, instance, expires_at, retired_at
    FROM used_keys WHERE space = $1 AND (used_at, id) > ($2, $3) AND used_at < $4
    AND caller = $6 AND caller <> '' ORDER BY used_at, id LIMIT $5";
/// Where a key is, in one statement: it may be moving from one table to the other.
const FIND: &str = "SELECT id, key, used_at, caller, instance, expires_at, retired_at, true
    FROM used_keys WHERE space = $1 AND id = $2 AND key = $3
    UNION ALL SELECT id, key, reserved_at, '', reserved_by, NULL, NULL, false
    FROM available_keys WHERE space = $1 AND id = $2";
const NAMES_ADD: &str = "INSERT INTO pool_names (space, key, id)
    SELECT $1, key, id FROM unnest($2::text[], $3::bigint[]) AS new (key, id)
    ON CONFLICT (space, key) DO UPDATE SET id = excluded.id";
const NAME_ID: &str = "SELECT id FROM pool_names WHERE space = $1 AND key = $2";
const SPACE_STEP: &str = "UPDATE spaces SET revision = revision + 1 WHERE name = $1
    RETURNING revision, next, sealed";

#[async_trait]
impl Pools for PostgresStore {
    async fn fill(&self, fill: &Fill) -> Result<Filled, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.fill(fill).await;
        tx.finish(answer).await
    }

    async fn claim(&self, ask: &ClaimAsk) -> Result<Claim, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.claim(ask).await;
        tx.finish(answer).await
    }

    async fn release(&self, back: &Release) -> Result<Mark, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.release(back).await;
        tx.finish(answer).await
    }

    async fn available(&self, space: &str) -> Result<u64, StoreError> {
        let tx = self.look().await?;
        let answer = tx.pool_size(space).await;
        tx.end(answer).await
    }

    async fn find(&self, at: &KeyPlace) -> Result<Option<Found>, StoreError> {
        let tx = self.look().await?;
        let answer = tx.find(at).await;
        tx.end(answer).await
    }

    async fn imported(&self, space: &str, key: &str) -> Result<Option<KeyPlace>, StoreError> {
        let rows = self.read(NAME_ID, &[&space, &key]).await?;
        let place =
            |row: &Row| KeyPlace { space: space.to_owned(), id: row.get(0), key: key.to_owned() };
        Ok(rows.first().map(place))
    }

    async fn available_page(&self, page: &AvailablePage) -> Result<Vec<Claimed>, StoreError> {
        let tx = self.look().await?;
        let answer = tx.available_page(page).await;
        tx.end(answer).await
    }
}

#[async_trait]
impl UseLog for PostgresStore {
    async fn note(&self, uses: &Uses) -> Result<Noted, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.note(uses).await;
        tx.finish(answer).await
    }

    async fn retire(&self, retire: &Retire) -> Result<UsedKey, StoreError> {
        let tx = self.begin().await?;
        let answer = async {
            let KeyPlace { space, id, key } = &retire.at;
            let record = tx.look_above(space, &retire.floor).await?;
            let used_at = retire.used_at.as_millisecond();
            // One that came back to the pool meanwhile does not stay there.
            let removed = tx.query(REMOVE, &[space, id]).await?;
            let rows = tx.query(USED_RETIRE, &[id, space, key, &used_at, &retire.instance]).await?;
            tx.step(&record).await?;
            let unreserved = removed.first().is_some_and(|row| row.get(0));
            if unreserved && *id >= first_id(record.mark.revision) {
                tx.execute(AVAILABLE_ADD, &[space, &-1_i64]).await?;
            }
            Ok(used_from(&rows[0]))
        };
        let answer = answer.await;
        tx.finish(answer).await
    }

    async fn used_page(&self, page: &UsedPage) -> Result<Vec<UsedKey>, StoreError> {
        let (after, id) = page.after_or_from();
        let to = page.to.map_or(i64::MAX, jiff::Timestamp::as_millisecond);
        let limit = i64::from(page.limit);
        let rows = match &page.caller {
            None => self.read(USED_PAGE, &[&page.space, &after, &id, &to, &limit]).await?,
            Some(caller) => {
                let params: Params<'_> = &[&page.space, &after, &id, &to, &limit, caller];
                self.read(USED_PAGE_OF, params).await?
            }
        };
        Ok(rows.iter().map(used_from).collect())
    }
}

#[async_trait]
impl Digests for PostgresStore {
    async fn digest(&self, batch: &DigestBatch) -> Result<Digested, StoreError> {
        let tx = self.begin().await?;
        let answer = tx.digest(batch).await;
        tx.finish(answer).await
    }
}

impl Tx {
    async fn fill(&self, fill: &Fill) -> Result<Filled, StoreError> {
        let mut space = self.space_above(&fill.space, &fill.floor).await?;
        if space.sealed {
            return Err(StoreError::Sealed(fill.space.clone()));
        }
        let before = self.pool_size(&fill.space).await?;
        if fill.enough.is_some_and(|enough| before >= enough) {
            return Ok(Filled { mark: space.mark, added: 0, available: before });
        }
        let grant = fill.grant(&mut space)?;
        let instance = &fill.instance.id;
        self.know(&fill.instance).await?;
        self.record_lease(&space, grant.ordinals.clone(), Purpose::Fill, instance).await?;
        self.close(&fill.space, grant.lease, instance, None, None).await?;
        self.move_to(&space).await?;
        let (start, end) = (grant.ordinals.start, grant.ordinals.end);
        let skips = self.skips(&fill.space, start..end).await?;
        let mut keys = Vec::new();
        without(&skips, start..end, |run| {
            (fill.write)(run, &mut |ordinal, key| {
                keys.push((key_id(grant.lease, ordinal - start), key.to_owned()));
            });
        });
        let added = self.add_keys(&fill.space, &keys).await?;
        Ok(Filled { mark: space.mark, added, available: before + added })
    }

    async fn claim(&self, ask: &ClaimAsk) -> Result<Claim, StoreError> {
        let space = self.look_above(&ask.space, &ask.floor).await?;
        if space.sealed {
            return Err(StoreError::Sealed(ask.space.clone()));
        }
        self.check_last(&space, ask.last.as_ref(), &ask.instance.id, &ask.floor).await?;
        let available = self.pool_size(&ask.space).await?;
        let (size, first) = (signed(ask.size_of(available)), first_id(space.mark.revision));
        let (name, reserve_max) = (&ask.space, millis(ask.reserve_max));
        let rows = self.query(EXPIRED, &[name, &first, &reserve_max, &size]).await?;
        let mut keys: Vec<Claimed> = rows.iter().map(claimed_from).collect();
        let expired = keys.len() as u64;
        // From where the last claim ended, to pass over what is gone; what came back lies before.
        let (from, more) = (first.max(ask.after), size - signed(expired));
        let mut rows = self.query(FRESH, &[name, &from, &more]).await?;
        if keys.is_empty() && rows.is_empty() {
            rows = self.query(FRESH, &[name, &first, &size]).await?;
        }
        keys.extend(rows.iter().map(claimed_from));
        if keys.is_empty() {
            return Ok(Claim { mark: space.mark, keys, available });
        }
        let ids: Vec<KeyId> = keys.iter().map(|claimed| claimed.id).collect();
        let instance = &ask.instance.id;
        let fresh = keys.len() as u64 - expired;
        if ask.reserve {
            self.execute(RESERVE, &[name, &ids, instance]).await?;
        } else {
            let ttl = ask.ttl.map(millis);
            let rows = self.query(USE_CLAIMED, &[name, &ids, instance, &ttl]).await?;
            let moved: HashSet<KeyId> = rows.iter().map(|row| row.get(0)).collect();
            // One that was retired meanwhile is on record as used already.
            keys.retain(|claimed| moved.contains(&claimed.id));
        }
        let mark = self.step_unsealed(&space).await?;
        self.execute(AVAILABLE_ADD, &[name, &-signed(fresh)]).await?;
        Ok(Claim { mark, keys, available: available.saturating_sub(fresh) })
    }

    async fn release(&self, back: &Release) -> Result<Mark, StoreError> {
        let space = self.look_above(&back.space, &back.floor).await?;
        let first = first_id(space.mark.revision);
        let ids = back.keys.iter().map(|claimed| claimed.id).filter(|id| *id >= first);
        let ids: Vec<KeyId> = ids.collect();
        let sql = if back.reserved { UNRESERVE } else { USED_TAKE_BACK };
        let released = self.execute(sql, &[&back.space, &ids, &back.instance]).await?;
        let mark = self.step(&space).await?;
        self.execute(AVAILABLE_ADD, &[&back.space, &signed(released)]).await?;
        Ok(mark)
    }

    async fn note(&self, uses: &Uses) -> Result<Noted, StoreError> {
        let space = self.look_above(&uses.space, &uses.floor).await?;
        self.check_last(&space, uses.last.as_ref(), &uses.instance, &uses.floor).await?;
        let ids: Vec<KeyId> = uses.keys.iter().map(|used| used.id).collect();
        let callers: Vec<&str> = uses.keys.iter().map(|used| used.caller.as_str()).collect();
        let (name, instance, ttl) = (&uses.space, &uses.instance, uses.ttl.map(millis));
        let rows = if uses.pooled {
            let first = first_id(space.mark.revision);
            self.query(USE_RESERVED, &[name, &ids, &callers, instance, &ttl, &first]).await?
        } else {
            let keys: Vec<&str> = uses.keys.iter().map(|used| used.key.as_str()).collect();
            self.query(USE_LEASED, &[name, &ids, &keys, &callers, instance, &ttl]).await?
        };
        let mut moved: HashSet<KeyId> = rows.iter().map(|row| row.get(0)).collect();
        // One that comes twice goes once.
        let may_go = ids.iter().map(|id| moved.remove(id)).collect();
        Ok(Noted { mark: self.step_unsealed(&space).await?, may_go })
    }

    /// Writes imported keys into the pool, under the revision that the space has moved to.
    pub(super) async fn pool_names(
        &self,
        space: &SpaceRecord,
        made: &[&str],
    ) -> Result<(), StoreError> {
        let place = |(place, key): (usize, &&str)| {
            (key_id(space.mark.revision, place as u64), (*key).to_owned())
        };
        let keys: Vec<(KeyId, String)> = made.iter().enumerate().map(place).collect();
        let ids: Vec<KeyId> = keys.iter().map(|(id, _)| *id).collect();
        self.execute(NAMES_ADD, &[&space.name, &made, &ids]).await?;
        self.add_keys(&space.name, &keys).await.map(drop)
    }

    /// Where a key is.
    pub(super) async fn find(&self, at: &KeyPlace) -> Result<Option<Found>, StoreError> {
        let rows = self.query(FIND, &[&at.space, &at.id, &at.key]).await?;
        Ok(rows.first().map(found_from))
    }

    async fn available_page(&self, page: &AvailablePage) -> Result<Vec<Claimed>, StoreError> {
        let space = self.look(&page.space).await?;
        let space = space.ok_or_else(|| StoreError::UnknownSpace(page.space.clone()))?;
        let first = first_id(space.mark.revision);
        let from = page.after.as_ref().map_or(first, |after| first.max(after.id + 1));
        let rows = self.query(FRESH_PAGE, &[&page.space, &from, &i64::from(page.limit)]).await?;
        Ok(rows.iter().map(claimed_from).collect())
    }

    /// Refuses where the last use is not on record any more.
    async fn check_last(
        &self,
        space: &SpaceRecord,
        last: Option<&LastUse>,
        instance: &str,
        floor: &Floor,
    ) -> Result<(), StoreError> {
        let Some(last) = last.filter(|last| last.is_expected(space.mark.revision)) else {
            return Ok(());
        };
        let rows = self.query(USED, &[&space.name, &last.key.id]).await?;
        match rows.first().map(used_from) {
            Some(used) if used.instance == instance && used.key == last.key.key => Ok(()),
            _ => Err(last.lost(&space.name, floor)),
        }
    }

    /// Drops what was available before an advance.
    pub(super) async fn drop_pool(&self, space: &str) -> Result<(), StoreError> {
        self.execute(AVAILABLE_DROP, &[&space]).await.map(drop)
    }

    /// Writes keys into the pool; how many.
    async fn add_keys(&self, space: &str, keys: &[(KeyId, String)]) -> Result<u64, StoreError> {
        let types = [Type::INT8, Type::TEXT, Type::TEXT];
        let rows = keys.iter().map(|(id, key)| [id as &(dyn ToSql + Sync), &space, key]);
        let added = self.copy(KEYS_ADD, &types, rows).await?;
        self.execute(AVAILABLE_ADD, &[&space, &signed(added)]).await?;
        Ok(added)
    }

    async fn pool_size(&self, space: &str) -> Result<u64, StoreError> {
        let rows = self.query(AVAILABLE, &[&space]).await?;
        Ok(rows.first().map_or(0, |row| unsigned(row.get(0))))
    }

    /// The space, unless it lies below its floor. Its row is not locked.
    async fn look_above(&self, name: &str, floor: &Floor) -> Result<SpaceRecord, StoreError> {
        let rows = self.query(SPACE, &[&name]).await?;
        self.checked(name, rows.first(), floor)
    }

    /// Adds a change to the revision of a space. As late in a transaction as can be, because it
    /// locks the space's row; and before that of its pool, as where both are locked from the start.
    pub(super) async fn step(&self, space: &SpaceRecord) -> Result<Mark, StoreError> {
        self.stepped(space).await.map(|(mark, _)| mark)
    }

    /// The same for what hands out keys: a space may have been sealed before its row was locked.
    async fn step_unsealed(&self, space: &SpaceRecord) -> Result<Mark, StoreError> {
        match self.stepped(space).await? {
            (_, true) => Err(StoreError::Sealed(space.name.clone())),
            (mark, false) => Ok(mark),
        }
    }

    /// How far a space has come with a change, and whether it is sealed.
    async fn stepped(&self, space: &SpaceRecord) -> Result<(Mark, bool), StoreError> {
        let rows = self.query(SPACE_STEP, &[&space.name]).await?;
        let row = rows.first().ok_or_else(|| StoreError::UnknownSpace(space.name.clone()))?;
        let (revision, next) = (unsigned(row.get(0)), unsigned(row.get(1)));
        if is_later_era(revision, space.mark.revision) {
            let problem = "the keyspace was advanced at the same time; try again".to_owned();
            return Err(StoreError::Unavailable(problem));
        }
        Ok((Mark { revision, next, ..space.mark }, row.get(2)))
    }
}

fn claimed_from(row: &Row) -> Claimed {
    Claimed { id: row.get(0), key: row.get(1) }
}

fn found_from(row: &Row) -> Found {
    match (row.get(7), row.get(4)) {
        (true, _) => Found::Used(used_from(row)),
        (false, None) => Found::Available,
        (false, Some(by)) => Found::Reserved { by, at: time(row.get(2)) },
    }
}

pub(super) fn used_from(row: &Row) -> UsedKey {
    UsedKey {
        id: row.get(0),
        key: row.get(1),
        used_at: time(row.get(2)),
        caller: row.get(3),
        instance: row.get(4),
        expires_at: row.get::<_, Option<i64>>(5).map(time),
        retired_at: row.get::<_, Option<i64>>(6).map(time),
    }
}
