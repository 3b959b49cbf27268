//! Pools in a transaction: how keys come into one, are claimed, and come back.
//!
//! Claims and notes take rows that nobody else has locked, and touch the row of their space with their
//! last statements: instances wait for each other's commits at the most. What they decided before is
//! looked at again there, because an advance or a seal may have come first.
//!
//! # Invariants
//!
//! - Locks are taken in one order: rows of keys, then the row of the space, then that of its pool. What
//!   begins with the row of the space touches no row of a key that another may have locked.
//! - Rows of keys are locked by their ids alone.

use std::ops::Range;

use super::driver::{Result, Step, Transaction};
use super::rows::{claimed_from, found_from};
use super::spaces::{look_above, space, space_above, step};
use super::statements::{
    EXPIRED, FOUND, FRESH, FRESH_PAGE, KEYS_ADD, KEYS_REMOVE, POOL, POOL_ADD, POOL_NAME,
    POOL_NAMES_PUT, RESERVE, UNRESERVE, USED_TAKE_BACK,
};
use super::steps::{closed, know, moved, recorded, skips_in};
use super::use_log::{check_last, use_keys};
use super::value::{Row, Value, values};
use crate::store::values::{millis, signed};
use crate::store::{
    AvailablePage, Claim, ClaimAsk, Claimed, Fill, Filled, Floor, Found, Grant, KeyId, KeyRef,
    Mark, Purpose, Release, SpaceRecord, StoreError, first_id, key_id,
};

/// How many keys are made at a time: making all of a fill at once would keep the thread from others.
const MADE_AT_ONCE: u64 = 10_000;

pub(super) async fn fill<T: Transaction>(tx: &mut T, fill: &Fill, floor: &Floor) -> Result<Filled> {
    let mut space = space_above(tx, &fill.space, floor).await?;
    if space.sealed {
        return Err(StoreError::Sealed(fill.space.clone()));
    }
    let (before, _) = pool(tx, &fill.space).await?;
    if fill.enough.is_some_and(|enough| before >= enough) {
        return Ok(Filled { mark: space.mark, added: 0, available: before });
    }
    let grant = fill.grant(&mut space)?;
    let instance = &fill.instance.id;
    let steps = [
        know(&fill.instance),
        recorded(&space, grant.ordinals.clone(), Purpose::Fill, instance),
        closed(&fill.space, grant.lease, instance, None),
        moved(&space),
        skips_in(&fill.space, &grant.ordinals),
    ];
    let rows = tx.run_all(&steps).await?;
    let skips: Vec<u64> = rows[4].iter().map(|row| row.get(0)).collect();
    let added = write_keys(tx, fill, &grant, &skips).await?;
    tx.execute(&POOL_ADD, &[], &values![&fill.space, added]).await?;
    Ok(Filled { mark: space.mark, added, available: before + added })
}

pub(super) async fn claim<T: Transaction>(
    tx: &mut T,
    ask: &ClaimAsk,
    floor: &Floor,
) -> Result<Claim> {
    let (name, instance) = (&ask.space, &ask.instance.id);
    let read = look_above(tx, name, floor).await?;
    if read.sealed {
        return Err(StoreError::Sealed(name.clone()));
    }
    check_last(tx, &read, ask.last.as_ref(), instance, floor).await?;
    let (available, now) = pool(tx, name).await?;
    let first = first_id(read.mark.revision);
    let (mut keys, fresh) = pick(tx, ask, ask.size_of(available), first, now).await?;
    if keys.is_empty() {
        return Ok(Claim { mark: read.mark, keys, available });
    }
    let ids: Vec<Value<'_>> = keys.iter().map(|claimed| claimed.id.into()).collect();
    if ask.reserve {
        tx.execute(&RESERVE, &values![name, instance, now], &ids).await?;
    } else {
        tx.execute(&KEYS_REMOVE, &values![name], &ids).await?;
        let rows: Vec<Value<'_>> =
            keys.iter().flat_map(|claimed| values![claimed.id, &claimed.key, ""]).collect();
        let moved = use_keys(tx, name, instance, ask.ttl, &rows).await?;
        // One that was retired before only leaves the pool.
        keys.retain(|claimed| moved.contains(&claimed.id));
    }
    let counted =
        vec![Step::new(&POOL_ADD, values![name, -signed(fresh)]), Step::new(&POOL, values![name])];
    let (after, rows) = step(tx, &read, counted).await?;
    if after.sealed {
        return Err(StoreError::Sealed(name.clone()));
    }
    Ok(Claim { mark: after.mark, keys, available: rows[1][0].get(0) })
}

pub(super) async fn release<T: Transaction>(
    tx: &mut T,
    back: &Release,
    floor: &Floor,
) -> Result<Mark> {
    let read = look_above(tx, &back.space, floor).await?;
    let first = first_id(read.mark.revision);
    let ids = back.keys.iter().map(|claimed| claimed.id).filter(|id| *id >= first);
    let mut ids: Vec<KeyId> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    let ids: Vec<Value<'_>> = ids.into_iter().map(Value::from).collect();
    let ours = values![&back.space, &back.instance];
    let released = if back.reserved {
        tx.execute(&UNRESERVE, &ours, &ids).await?
    } else {
        let taken = tx.remove(&USED_TAKE_BACK, &ours, &ids).await?;
        add_keys(tx, &back.space, taken.iter().map(claimed_from).collect()).await?
    };
    let counted = vec![Step::new(&POOL_ADD, values![&back.space, released])];
    Ok(step(tx, &read, counted).await?.0.mark)
}

pub(super) async fn available<T: Transaction>(tx: &mut T, space: &str) -> Result<u64> {
    Ok(pool(tx, space).await?.0)
}

pub(super) async fn find<T: Transaction>(tx: &mut T, at: &KeyRef) -> Result<Option<Found>> {
    tx.identity().await?;
    Ok(found_from(&tx.query(&FOUND, &values![&at.space, at.id, &at.key], &[]).await?))
}

pub(super) async fn imported<T: Transaction>(
    tx: &mut T,
    space: &str,
    key: &str,
) -> Result<Option<KeyRef>> {
    let rows = tx.query(&POOL_NAME, &values![space, key], &[]).await?;
    let (space, key) = (space.to_owned(), key.to_owned());
    Ok(rows.first().map(|row| KeyRef { space, id: row.get(0), key }))
}

pub(super) async fn available_page<T: Transaction>(
    tx: &mut T,
    page: &AvailablePage,
) -> Result<Vec<Claimed>> {
    let first = first_id(space(tx, &page.space).await?.mark.revision);
    let from = page.after.as_ref().map_or(first, |after| first.max(after.id + 1));
    let rows = tx.query(&FRESH_PAGE, &values![&page.space, from, page.limit], &[]).await?;
    Ok(rows.iter().map(claimed_from).collect())
}

/// Writes imported keys into the pool, under the revision that the space has moved to.
pub(super) async fn add_imported<T: Transaction>(
    tx: &mut T,
    space: &SpaceRecord,
    made: &[&str],
) -> Result<()> {
    let rows: Vec<Value<'_>> = (0..)
        .zip(made)
        .flat_map(|(position, key)| values![key_id(space.mark.revision, position), *key])
        .collect();
    tx.execute(&KEYS_ADD, &values![&space.name], &rows).await?;
    tx.execute(&POOL_NAMES_PUT, &values![&space.name], &rows).await?;
    tx.execute(&POOL_ADD, &[], &values![&space.name, made.len() as u64]).await.map(drop)
}

/// How many keys are available, and the time.
async fn pool<T: Transaction>(tx: &mut T, space: &str) -> Result<(u64, i64)> {
    let rows = tx.query(&POOL, &values![space], &[]).await?;
    Ok((rows[0].get(0), rows[0].get(1)))
}

/// Writes the keys of a grant into the pool, but for those that names occupy; how many.
async fn write_keys<T: Transaction>(
    tx: &mut T,
    fill: &Fill,
    grant: &Grant,
    skips: &[u64],
) -> Result<u64> {
    let (Range { start, end }, mut added) = (grant.ordinals.clone(), 0);
    let mut from = start;
    while from < end {
        let to = end.min(from + MADE_AT_ONCE);
        let keys = fill.keys(from..to, skips).into_iter();
        let keys =
            keys.map(|(ordinal, key)| Claimed { id: key_id(grant.lease, ordinal - start), key });
        added += add_keys(tx, &fill.space, keys.collect()).await?;
        from = to;
    }
    Ok(added)
}

/// Writes keys into the pool; how many.
async fn add_keys<T: Transaction>(tx: &mut T, space: &str, keys: Vec<Claimed>) -> Result<u64> {
    let added = keys.len() as u64;
    let rows: Vec<Value<'_>> =
        keys.into_iter().flat_map(|claimed| values![claimed.id, claimed.key]).collect();
    tx.execute(&KEYS_ADD, &values![space], &rows).await?;
    Ok(added)
}

/// Locks keys that nobody else has locked: first those that outlived their reservation, then fresh ones.
/// The number tells how many were not reserved.
async fn pick<T: Transaction>(
    tx: &mut T,
    ask: &ClaimAsk,
    size: u64,
    first: KeyId,
    now: i64,
) -> Result<(Vec<Claimed>, u64)> {
    let (space, outlived) = (&ask.space, now.saturating_sub(millis(ask.reserve_max)));
    let rows = tx.query(&EXPIRED, &values![space, outlived, first, size], &[]).await?;
    let mut keys: Vec<Claimed> = rows.iter().map(claimed_from).collect();
    let more = size - keys.len() as u64;
    // From where the last claim ended, to pass over what is gone; what came back lies before.
    let mut rows: Vec<Row> =
        tx.query(&FRESH, &values![space, first.max(ask.after), more], &[]).await?;
    if keys.is_empty() && rows.is_empty() {
        rows = tx.query(&FRESH, &values![space, first, size], &[]).await?;
    }
    keys.extend(rows.iter().map(claimed_from));
    Ok((keys, rows.len() as u64))
}
