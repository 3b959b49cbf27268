//! Used keys in a transaction: how they are put on record, and retired. In which order rows are locked
//! is told in `pools`.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;

use super::driver::{Result, Step, Transaction};
use super::rows::used_from;
use super::spaces::{look_above, step};
use super::statements::{
    KEY_REMOVE, KEY_REMOVE_FRESH, POOL_ADD, RESERVED_REMOVE, USED, USED_ADD, USED_PAGE,
    USED_PAGE_OF, USED_RETIRE,
};
use super::value::{Value, values};
use crate::store::values::millis;
use crate::store::{
    Floor, KeyId, KeyRef, KeyUse, LastUse, Mark, Noted, Retire, SpaceRecord, StoreError, UsedKey,
    UsedPage, Uses, first_id,
};

/// The longest life of a key, in milliseconds: added to any time, it is a number still.
const TTL_MAX: i64 = i64::MAX / 2;

pub(super) async fn note<T: Transaction>(tx: &mut T, uses: &Uses, floor: &Floor) -> Result<Noted> {
    let (name, instance) = (&uses.space, &uses.instance);
    let read = look_above(tx, name, floor).await?;
    check_last(tx, &read, uses.last.as_ref(), instance, floor).await?;
    // In the order of their ids, which is that of locks; and one that comes twice goes once.
    let mut keys: BTreeMap<KeyId, &KeyUse> = BTreeMap::new();
    for used in &uses.keys {
        keys.entry(used.id).or_insert(used);
    }
    if uses.pooled {
        let first = first_id(read.mark.revision);
        let ids: Vec<Value<'_>> = keys.range(first..).map(|(id, _)| Value::from(*id)).collect();
        let removed = tx.remove(&RESERVED_REMOVE, &values![name, instance], &ids).await?;
        let ours: HashSet<KeyId> = removed.iter().map(|row| row.get(0)).collect();
        keys.retain(|id, _| ours.contains(id));
    }
    let rows: Vec<Value<'_>> =
        keys.values().flat_map(|used| values![used.id, &used.key, &used.caller]).collect();
    // One that was retired before it was handed out is not handed out.
    let mut free = use_keys(tx, name, instance, uses.ttl, &rows).await?;
    let (after, _) = step(tx, &read, Vec::new()).await?;
    if after.sealed {
        return Err(StoreError::Sealed(name.clone()));
    }
    let may_go = uses.keys.iter().map(|used| free.remove(&used.id)).collect();
    Ok(Noted { mark: after.mark, may_go })
}

pub(super) async fn retire<T: Transaction>(
    tx: &mut T,
    retire: &Retire,
    floor: &Floor,
) -> Result<(Mark, UsedKey)> {
    let KeyRef { space, id, key } = &retire.at;
    let read = look_above(tx, space, floor).await?;
    // One that came back to the pool meanwhile does not stay there.
    let fresh = tx.execute(&KEY_REMOVE_FRESH, &values![space, *id, key], &[]).await?;
    tx.execute(&KEY_REMOVE, &values![space, *id, key], &[]).await?;
    let used = values![space, *id, key, retire.used_at, &retire.instance];
    tx.execute(&USED_RETIRE, &[], &used).await?;
    let mut steps = vec![Step::new(&USED, values![space, *id])];
    if fresh > 0 && *id >= first_id(read.mark.revision) {
        steps.push(Step::new(&POOL_ADD, values![space, -1_i64]));
    }
    let (space, rows) = step(tx, &read, steps).await?;
    Ok((space.mark, used_from(&rows[0][0])))
}

pub(super) async fn used_page<T: Transaction>(tx: &mut T, page: &UsedPage) -> Result<Vec<UsedKey>> {
    let (after, id) = page.after_or_from();
    let to = page.to.map_or(i64::MAX, Timestamp::as_millisecond);
    let mut values = values![&page.space, after, id, to, page.limit].to_vec();
    let sql = match &page.caller {
        None => &USED_PAGE,
        Some(caller) => {
            values.push(caller.into());
            &USED_PAGE_OF
        }
    };
    Ok(tx.query(sql, &values, &[]).await?.iter().map(used_from).collect())
}

/// Puts keys on record as used; those that were not.
pub(super) async fn use_keys<T: Transaction>(
    tx: &mut T,
    space: &str,
    instance: &str,
    ttl: Option<Duration>,
    rows: &[Value<'_>],
) -> Result<HashSet<KeyId>> {
    let ttl = ttl.map(|ttl| millis(ttl).min(TTL_MAX));
    let new = tx.insert_new(&USED_ADD, &values![space, instance, ttl], rows).await?;
    Ok(new.into_iter().collect())
}

/// Refuses where the last use is not on record any more.
pub(super) async fn check_last<T: Transaction>(
    tx: &mut T,
    space: &SpaceRecord,
    last: Option<&LastUse>,
    instance: &str,
    floor: &Floor,
) -> Result<()> {
    let Some(last) = last.filter(|last| last.is_expected(space.mark.revision)) else {
        return Ok(());
    };
    let rows = tx.query(&USED, &values![&space.name, last.key.id], &[]).await?;
    match rows.first().map(used_from) {
        Some(used) if used.instance == instance && used.key == last.key.key => Ok(()),
        _ => Err(last.lost(&space.name, floor)),
    }
}
