//! Keys as rows of SQLite: pools, used keys, digests.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::SqliteStore;
use super::rows::{name_of, skips_in};
use super::transaction::Tx;
use crate::space::skips::without;
use crate::store::values::{millis, now, signed, time, unsigned};
use crate::store::{
    AvailablePage, Claim, ClaimAsk, Claimed, DigestBatch, DigestKey, Digested, Digests, Fill,
    Filled, Floor, Found, KeyId, KeyPlace, KeyUse, LastUse, Mark, NameBatch, NamePurpose, NewName,
    Noted, Pools, Purpose, Release, Retire, SpaceRecord, StoreError, UseLog, UsedKey, UsedPage,
    Uses, first_id, key_id,
};

const AVAILABLE: &str = "SELECT available FROM pools WHERE space = ?1";
pub(super) const AVAILABLE_ADD: &str = "INSERT INTO pools (space, available) VALUES (?1, ?2)
    ON CONFLICT (space) DO UPDATE SET available = available + excluded.available";
const KEY_ADD: &str = "INSERT INTO available_keys (id, space, key) VALUES (?1, ?2, ?3)";
const EXPIRED: &str = "SELECT id, key FROM available_keys
    WHERE space = ?1 AND reserved_at <= ?2 AND id >= ?3 ORDER BY reserved_at LIMIT ?4";
const FRESH: &str = "SELECT id, key FROM available_keys
    WHERE space = ?1 AND id >= ?2 AND reserved_by IS NULL ORDER BY id LIMIT ?3";
const RESERVE: &str = "UPDATE available_keys SET reserved_by = ?3, reserved_at = ?4
    WHERE space = ?1 AND id = ?2";
pub(super) const REMOVE: &str = "DELETE FROM available_keys WHERE space = ?1 AND id = ?2";
const REMOVE_FRESH: &str =
    "DELETE FROM available_keys WHERE space = ?1 AND id = ?2 AND reserved_by IS NULL";
const REMOVE_RESERVED: &str =
    "DELETE FROM available_keys WHERE space = ?1 AND id = ?2 AND reserved_by = ?3";
const UNRESERVE: &str = "UPDATE available_keys SET reserved_by = NULL, reserved_at = NULL
    WHERE space = ?1 AND id = ?2 AND reserved_by = ?3";
const USED_ADD: &str =
    "INSERT INTO used_keys (id, space, key, used_at, caller, instance, expires_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (space, id) DO NOTHING";
const USED_TAKE_BACK: &str =
    "DELETE FROM used_keys WHERE space = ?1 AND id = ?2 AND instance = ?3 AND retired_at IS NULL";
const USED_RETIRE: &str = "INSERT INTO used_keys
    (id, space, key, used_at, caller, instance, retired_at) VALUES (?1, ?2, ?3, ?4, '', ?5, ?6)
    ON CONFLICT (space, id) DO UPDATE SET retired_at = coalesce(retired_at, excluded.retired_at)";
const USED: &str = "SELECT id, key, used_at, caller, instance, expires_at, retired_at
    FROM used_keys WHERE space = ?1 AND id = ?2";
const USED_PAGE: &str = "SELECT id, key, used_at, caller, instance, expires_at, retired_at
    FROM used_keys WHERE space = ?1 AND (used_at, id) > (?2, ?3) AND used_at < ?4
    ORDER BY used_at, id LIMIT ?5";
const USED_PAGE_OF: &str = "SELECT id, key, used_at, caller, instance, expires_at, retired_at
    FROM used_keys WHERE space = ?1 AND (used_at, id) > (?2, ?3) AND used_at < ?4
    AND caller = ?6 AND caller <> '' ORDER BY used_at, id LIMIT ?5";
const KEY: &str = "SELECT reserved_by, reserved_at FROM available_keys
    WHERE space = ?1 AND id = ?2";
const NAME_ADD: &str = "INSERT INTO pool_names (space, key, id) VALUES (?1, ?2, ?3)
    ON CONFLICT (space, key) DO UPDATE SET id = excluded.id";
const NAME_ID: &str = "SELECT id FROM pool_names WHERE space = ?1 AND key = ?2";
const DIGEST: &str = "SELECT key FROM digests WHERE space = ?1 AND input = ?2";
const DIGEST_ADD: &str = "INSERT INTO digests (space, input, key, created_at)
    VALUES (?1, ?2, ?3, ?4)";

#[async_trait]
impl Pools for SqliteStore {
    async fn fill(&self, fill: &Fill) -> Result<Filled, StoreError> {
        let fill = fill.clone();
        self.change(move |tx| tx.fill(&fill)).await
    }

    async fn claim(&self, ask: &ClaimAsk) -> Result<Claim, StoreError> {
        let ask = ask.clone();
        self.change(move |tx| tx.claim(&ask)).await
    }

    async fn release(&self, back: &Release) -> Result<Mark, StoreError> {
        let back = back.clone();
        self.change(move |tx| tx.release(&back)).await
    }

    async fn available(&self, space: &str) -> Result<u64, StoreError> {
        let space = space.to_owned();
        let read = move |connection: &Connection| {
            connection.prepare_cached(AVAILABLE)?.query_row([space], |row| row.get(0)).optional()
        };
        Ok(self.read(read).await?.map_or(0, unsigned))
    }

    async fn find(&self, at: &KeyPlace) -> Result<Option<Found>, StoreError> {
        let at = at.clone();
        self.look(move |tx| tx.query(|connection| found_at(connection, &at))).await
    }

    async fn imported(&self, space: &str, key: &str) -> Result<Option<KeyPlace>, StoreError> {
        let (space, key) = (space.to_owned(), key.to_owned());
        self.read(move |connection| {
            let mut id = connection.prepare_cached(NAME_ID)?;
            let id = id.query_row([&space, &key], |row| row.get(0)).optional()?;
            Ok(id.map(|id| KeyPlace { space, id, key }))
        })
        .await
    }

    async fn available_page(&self, page: &AvailablePage) -> Result<Vec<Claimed>, StoreError> {
        let record = super::Spaces::space(self, &page.space).await?;
        let page = page.clone();
        let first = first_id(record.mark.revision);
        let from = page.after.map_or(first, |after| first.max(after.id + 1));
        self.read(move |connection| {
            connection
                .prepare_cached(FRESH)?
                .query_map(params![page.space, from, page.limit], claimed_from)?
                .collect()
        })
        .await
    }
}

#[async_trait]
impl UseLog for SqliteStore {
    async fn note(&self, uses: &Uses) -> Result<Noted, StoreError> {
        let uses = uses.clone();
        self.change(move |tx| tx.note(&uses)).await
    }

    async fn retire(&self, retire: &Retire) -> Result<UsedKey, StoreError> {
        let retire = retire.clone();
        self.change(move |tx| {
            let KeyPlace { space, id, key } = &retire.at;
            let record = tx.space_above(space, &retire.floor)?;
            let used_at = retire.used_at.as_millisecond();
            tx.execute(USED_RETIRE, params![id, space, key, used_at, retire.instance, now()])?;
            // One that came back to the pool meanwhile does not stay there.
            let unreserved = tx.execute(REMOVE_FRESH, params![space, id])?;
            tx.execute(REMOVE, params![space, id])?;
            if unreserved > 0 && *id >= first_id(record.mark.revision) {
                tx.execute(AVAILABLE_ADD, params![space, -1])?;
            }
            tx.step(record)?;
            tx.query(|connection| {
                connection.prepare_cached(USED)?.query_row(params![space, id], used_from)
            })
        })
        .await
    }

    async fn used_page(&self, page: &UsedPage) -> Result<Vec<UsedKey>, StoreError> {
        let page = page.clone();
        self.read(move |connection| {
            let (after, id) = page.after_or_from();
            let to = page.to.map_or(i64::MAX, jiff::Timestamp::as_millisecond);
            match &page.caller {
                None => connection
                    .prepare_cached(USED_PAGE)?
                    .query_map(params![page.space, after, id, to, page.limit], used_from)?
                    .collect(),
                Some(caller) => connection
                    .prepare_cached(USED_PAGE_OF)?
                    .query_map(params![page.space, after, id, to, page.limit, caller], used_from)?
                    .collect(),
            }
        })
        .await
    }
}

#[async_trait]
impl Digests for SqliteStore {
    async fn digest(&self, batch: &DigestBatch) -> Result<Digested, StoreError> {
        let batch = batch.clone();
        self.change(move |tx| tx.digest(&batch)).await
    }
}

impl Tx<'_> {
    fn fill(&self, fill: &Fill) -> Result<Filled, StoreError> {
        let mut space = self.space_above(&fill.space, &fill.floor)?;
        if space.sealed {
            return Err(StoreError::Sealed(fill.space.clone()));
        }
        let before = self.pool_size(&fill.space)?;
        if fill.enough.is_some_and(|enough| before >= enough) {
            return Ok(Filled { mark: space.mark, added: 0, available: before });
        }
        let grant = fill.grant(&mut space)?;
        self.know(&fill.instance)?;
        self.record_lease(&space, grant.ordinals.clone(), Purpose::Fill, &fill.instance.id)?;
        self.close(&fill.space, grant.lease, &fill.instance.id)?;
        self.move_to(&space)?;
        let skips = self.query(|connection| skips_in(connection, &fill.space, &grant.ordinals))?;
        let (mut added, mut failed) = (0, None);
        self.query(|connection| {
            let mut add = connection.prepare_cached(KEY_ADD)?;
            without(&skips, grant.ordinals.clone(), |run| {
                (fill.write)(run, &mut |ordinal, key| {
                    let id = key_id(grant.lease, ordinal - grant.ordinals.start);
                    match add.execute(params![id, fill.space, key]) {
                        Ok(_) => added += 1,
                        Err(error) => failed = Some(error),
                    }
                });
            });
            failed.take().map_or(Ok(()), Err)
        })?;
        self.execute(AVAILABLE_ADD, params![fill.space, signed(added)])?;
        Ok(Filled { mark: space.mark, added, available: before + added })
    }

    fn claim(&self, ask: &ClaimAsk) -> Result<Claim, StoreError> {
        let space = self.space_above(&ask.space, &ask.floor)?;
        if space.sealed {
            return Err(StoreError::Sealed(ask.space.clone()));
        }
        self.check_last(&space, ask.last.as_ref(), &ask.instance.id, &ask.floor)?;
        let available = self.pool_size(&ask.space)?;
        let (size, first) = (ask.size_of(available), first_id(space.mark.revision));
        let outlived = now() - millis(ask.reserve_max);
        let mut keys = self.keys(EXPIRED, params![ask.space, outlived, first, signed(size)])?;
        let expired = keys.len() as u64;
        // From where the last claim ended, to pass over what is gone; what came back lies before.
        let from = first.max(ask.after);
        keys.extend(self.keys(FRESH, params![ask.space, from, signed(size - expired)])?);
        if keys.is_empty() {
            keys = self.keys(FRESH, params![ask.space, first, signed(size)])?;
        }
        if keys.is_empty() {
            return Ok(Claim { mark: space.mark, keys, available });
        }
        let (at, instance) = (now(), &ask.instance.id);
        let expires_at = ask.ttl.map(|ttl| at.saturating_add(millis(ttl)));
        for Claimed { id, key } in &keys {
            if ask.reserve {
                self.execute(RESERVE, params![ask.space, id, instance, at])?;
            } else {
                self.execute(REMOVE, params![ask.space, id])?;
                let used = params![id, ask.space, key, at, "", instance, expires_at];
                self.execute(USED_ADD, used)?;
            }
        }
        let fresh = keys.len() as u64 - expired;
        self.execute(AVAILABLE_ADD, params![ask.space, -signed(fresh)])?;
        let mark = self.step(space)?;
        Ok(Claim { mark, keys, available: available - fresh })
    }

    fn release(&self, back: &Release) -> Result<Mark, StoreError> {
        let space = self.space_above(&back.space, &back.floor)?;
        let first = first_id(space.mark.revision);
        let mut released = 0;
        for Claimed { id, key } in back.keys.iter().filter(|claimed| claimed.id >= first) {
            let ours = params![back.space, id, back.instance];
            if back.reserved {
                released += self.execute(UNRESERVE, ours)?;
            } else if self.execute(USED_TAKE_BACK, ours)? > 0 {
                released += self.execute(KEY_ADD, params![id, back.space, key])?;
            }
        }
        self.execute(AVAILABLE_ADD, params![back.space, signed(released as u64)])?;
        self.step(space)
    }

    fn note(&self, uses: &Uses) -> Result<Noted, StoreError> {
        let space = self.space_above(&uses.space, &uses.floor)?;
        if space.sealed {
            return Err(StoreError::Sealed(uses.space.clone()));
        }
        self.check_last(&space, uses.last.as_ref(), &uses.instance, &uses.floor)?;
        let at = now();
        let first = if uses.pooled { first_id(space.mark.revision) } else { KeyId::MIN };
        let expires_at = uses.ttl.map(|ttl| at.saturating_add(millis(ttl)));
        let mut may_go = Vec::with_capacity(uses.keys.len());
        for used in &uses.keys {
            let KeyUse { id, key, caller } = used;
            let ours = params![uses.space, id, uses.instance];
            if uses.pooled && (*id < first || self.execute(REMOVE_RESERVED, ours)? == 0) {
                may_go.push(false);
                continue;
            }
            // One that was retired before it was handed out is not handed out.
            let params = params![id, uses.space, key, at, caller, uses.instance, expires_at];
            may_go.push(self.execute(USED_ADD, params)? > 0);
        }
        Ok(Noted { mark: self.step(space)?, may_go })
    }

    fn digest(&self, batch: &DigestBatch) -> Result<Digested, StoreError> {
        let space = self.space_above(&batch.space, &batch.floor)?;
        batch.check_generations(&space)?;
        let (at, mut keys, mut made) = (now(), Vec::new(), false);
        for input in &batch.inputs {
            let known =
                self.query(|connection| digest_of(connection, &batch.space, &input.hash))?;
            if let Some(key) = known {
                keys.push(Some(DigestKey { key, made: None }));
                continue;
            }
            if space.sealed {
                return Err(StoreError::Sealed(batch.space.clone()));
            }
            let mut found = None;
            for (number, key) in input.candidates.iter().enumerate() {
                let name = NewName { key: key.clone(), ordinal: None };
                if self.query(|connection| name_of(connection, &batch.space, &name))?.is_none() {
                    self.put_name(&batch.space, key, None, NamePurpose::Digest, "")?;
                    self.execute(DIGEST_ADD, params![batch.space, input.hash, key, at])?;
                    found = Some(DigestKey { key: key.clone(), made: Some(number) });
                    made = true;
                    break;
                }
            }
            keys.push(found);
        }
        let mark = if made { self.step(space)? } else { space.mark };
        Ok(Digested { mark, keys })
    }

    /// Writes imported keys into the pool, under the revision that the space has moved to.
    pub(super) fn pool_names(
        &self,
        batch: &NameBatch,
        space: &SpaceRecord,
        made: &[&NewName],
    ) -> Result<(), StoreError> {
        for (place, new) in made.iter().enumerate() {
            let id = key_id(space.mark.revision, place as u64);
            self.execute(KEY_ADD, params![id, batch.space, new.key])?;
            self.execute(NAME_ADD, params![batch.space, new.key, id])?;
        }
        self.execute(AVAILABLE_ADD, params![batch.space, signed(made.len() as u64)]).map(drop)
    }

    /// Refuses where the last use is not on record any more.
    fn check_last(
        &self,
        space: &SpaceRecord,
        last: Option<&LastUse>,
        instance: &str,
        floor: &Floor,
    ) -> Result<(), StoreError> {
        let Some(last) = last.filter(|last| last.is_expected(space.mark.revision)) else {
            return Ok(());
        };
        let used = self.query(|connection| {
            let mut used = connection.prepare_cached(USED)?;
            used.query_row(params![space.name, last.key.id], used_from).optional()
        })?;
        match used {
            Some(used) if used.instance == instance && used.key == last.key.key => Ok(()),
            _ => Err(last.lost(&space.name, floor)),
        }
    }

    /// Drops what was available before an advance.
    pub(super) fn drop_pool(&self, space: &str) -> Result<(), StoreError> {
        self.execute("UPDATE pools SET available = 0 WHERE space = ?1", [space]).map(drop)
    }

    fn pool_size(&self, space: &str) -> Result<u64, StoreError> {
        let size = self.query(|connection| {
            connection.prepare_cached(AVAILABLE)?.query_row([space], |row| row.get(0)).optional()
        })?;
        Ok(size.map_or(0, unsigned))
    }

    fn keys(&self, sql: &str, params: impl rusqlite::Params) -> Result<Vec<Claimed>, StoreError> {
        self.query(|connection| {
            connection.prepare_cached(sql)?.query_map(params, claimed_from)?.collect()
        })
    }

    /// Adds a change to the revision of a space.
    fn step(&self, mut space: SpaceRecord) -> Result<Mark, StoreError> {
        space.mark.revision += 1;
        self.move_to(&space)?;
        Ok(space.mark)
    }
}

/// Where a key is. Both tables have to be of one state: a key moves from one to the other.
pub(super) fn found_at(connection: &Connection, at: &KeyPlace) -> rusqlite::Result<Option<Found>> {
    let mut used = connection.prepare_cached(USED)?;
    let used = used.query_row(params![at.space, at.id], used_from).optional()?;
    if let Some(used) = used.filter(|used| used.key == at.key) {
        return Ok(Some(Found::Used(used)));
    }
    let found_from = |row: &Row<'_>| {
        Ok(match row.get(0)? {
            None => Found::Available,
            Some(by) => Found::Reserved { by, at: time(row.get(1)?) },
        })
    };
    connection.prepare_cached(KEY)?.query_row(params![at.space, at.id], found_from).optional()
}

/// The key of an input that was digested.
pub(super) fn digest_of(
    connection: &Connection,
    space: &str,
    hash: &[u8; 32],
) -> rusqlite::Result<Option<String>> {
    let mut digest = connection.prepare_cached(DIGEST)?;
    digest.query_row(params![space, hash], |row| row.get(0)).optional()
}

fn claimed_from(row: &Row<'_>) -> rusqlite::Result<Claimed> {
    Ok(Claimed { id: row.get(0)?, key: row.get(1)? })
}

pub(super) fn used_from(row: &Row<'_>) -> rusqlite::Result<UsedKey> {
    Ok(UsedKey {
        id: row.get::<_, KeyId>(0)?,
        key: row.get(1)?,
        used_at: time(row.get(2)?),
        caller: row.get(3)?,
        instance: row.get(4)?,
        expires_at: row.get::<_, Option<i64>>(5)?.map(time),
        retired_at: row.get::<_, Option<i64>>(6)?.map(time),
    })
}
