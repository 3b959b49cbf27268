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

use async_trait::async_trait;
use jiff::Timestamp;
use mysql_async::{Row, params};

use super::MysqlStore;
use super::pools::POOL;
use super::rows::{claimed_from, column, used_from};
use super::transaction::Tx;
use crate::store::values::{time, unsigned};
use crate::store::{
    AvailablePage, Claim, ClaimAsk, Claimed, DigestBatch, Digested, Digests, Fill, Filled, Found,
    KeyPlace, Mark, Noted, Pools, Release, Retire, SpaceRecord, Spaces, StoreError, UseLog,
    UsedKey, UsedPage, Uses, first_id, is_later_era,
};

const FRESH_PAGE: &str = "SELECT id, `key` FROM available_keys FORCE INDEX (PRIMARY)
    WHERE space = :space AND id >= :from AND reserved_by IS NULL ORDER BY id LIMIT :limit";
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
const POOL_NAME_ID: &str = "SELECT id FROM pool_names WHERE space = :space AND `key` = :key";
const SPACE_STEP: &str = "UPDATE spaces SET revision = revision + 1 WHERE name = :space";

#[async_trait]
impl Pools for MysqlStore {
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

    async fn available(&self, space: &str) -> Result<u64, StoreError> {
        let rows = self.connection().await?.query(POOL, params! { space }).await?;
        Ok(unsigned(column(&rows[0], 0)))
    }

    async fn find(&self, at: &KeyPlace) -> Result<Option<Found>, StoreError> {
        let mut tx = self.begin_reading().await?;
        let answer = tx.find(at).await;
        tx.finish_reading(answer).await
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

    // Under the lock of the space, and within the time of a request.
    fn fill_max(&self) -> u64 {
        10_000
    }
}

#[async_trait]
impl UseLog for MysqlStore {
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
}

#[async_trait]
impl Digests for MysqlStore {
    async fn digest(&self, batch: &DigestBatch) -> Result<Digested, StoreError> {
        let mut tx = self.begin().await?;
        let answer = tx.digest(batch).await;
        tx.finish(answer).await
    }
}

impl Tx {
    /// Where a key of a pool is.
    pub(super) async fn find(&mut self, at: &KeyPlace) -> Result<Option<Found>, StoreError> {
        let KeyPlace { space, id, key } = at;
        let rows = self.query(FOUND, params! { space, id, key }).await?;
        let is_used = |row: &&Row| column::<i64>(row, 7) == 1;
        if let Some(used) = rows.iter().find(is_used) {
            return Ok(Some(Found::Used(used_from(used))));
        }
        Ok(rows.first().map(|row| match column::<Option<String>>(row, 4) {
            None => Found::Available,
            Some(by) => Found::Reserved { by, at: time(column(row, 2)) },
        }))
    }

    /// Adds a change to the revision of a space that was only looked at, which locks its row: as
    /// late in a transaction as can be. An advance may have come in between, and what was chosen
    /// before it must not be used after it.
    pub(super) async fn step(&mut self, read: &SpaceRecord) -> Result<SpaceRecord, StoreError> {
        let name = &read.name;
        self.execute(SPACE_STEP, params! { "space" => name }).await?;
        let space = self.space(name).await?;
        if is_later_era(space.mark.revision, read.mark.revision) {
            return Err(StoreError::Unavailable(format!(
                "`{name}` was advanced at the same time; try again"
            )));
        }
        Ok(space)
    }
}
