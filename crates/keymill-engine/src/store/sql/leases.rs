//! Leases in a transaction: where ordinals are granted, and taken back hundreds at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::driver::{Result, Transaction};
use super::rows::{lease_from, space_from};
use super::spaces::{missing, space_above};
use super::statements::{
    HELD_ELSEWHERE, LEASE_EXISTS, LEASE_OF, LEASE_PAGE, LEASES_CLOSE, LEASES_OPEN, LEASES_SPENT,
    SPACES_LOCK, SPACES_MOVE,
};
use super::steps::{know, moved, recorded};
use super::value::{Value, values};
use crate::store::values::json;
use crate::store::{
    Floor, GiveBack, Grant, LeaseAsk, LeaseId, LeasePage, LeaseRecord, Mark, Purpose, SpaceRecord,
    StoreError,
};

/// The spaces of a batch by name, each as it was read.
type SpacesByName = BTreeMap<String, Result<SpaceRecord>>;
/// Who holds a lease, and where it ends.
type OpenLeases = HashMap<(String, LeaseId), (String, u64)>;

/// Grants a lease. That there is none is an answer that is committed, too: the leases that were spent are
/// closed.
pub(super) async fn lease<T: Transaction>(
    tx: &mut T,
    ask: &LeaseAsk,
    floor: &Floor,
) -> Result<Result<Grant>> {
    let mut space = space_above(tx, &ask.space, floor).await?;
    let instance = &ask.instance.id;
    if let Some(last) = ask.expected_lease(space.mark.revision)
        && !has_lease(tx, &ask.space, last, instance).await?
    {
        return Err(ask.lost_lease(last, floor));
    }
    let spent: Vec<Value<'_>> = ask.spent.iter().map(|&spent| spent.into()).collect();
    tx.execute(&LEASES_SPENT, &values![&ask.space, instance], &spent).await?;
    if space.sealed {
        return Ok(Err(StoreError::Sealed(ask.space.clone())));
    }
    let Some(grant) = space.grant(ask) else {
        let rows = tx.query(&HELD_ELSEWHERE, &values![&ask.space, instance], &[]).await?;
        let held_elsewhere = rows[0].get(0);
        return Ok(Err(StoreError::Exhausted { space: ask.space.clone(), held_elsewhere }));
    };
    let lease = recorded(&space, grant.ordinals.clone(), Purpose::Lease, instance);
    tx.run_all(&[know(&ask.instance), lease, moved(&space)]).await?;
    Ok(Ok(grant))
}

pub(super) async fn give_back<T: Transaction>(
    tx: &mut T,
    backs: &[(GiveBack, Floor)],
) -> Result<Vec<Result<Mark>>> {
    let mut spaces = lock_spaces(tx, backs).await?;
    let identity = tx.identity().await?;
    let mut open = open_leases(tx, backs).await?;
    let (mut marks, mut closed) = (Vec::with_capacity(backs.len()), Vec::new());
    let mut moved = BTreeSet::new();
    for (back, floor) in backs {
        let floor = tx.floor(&back.space, floor)?;
        let taken = take_back(back, &identity, &floor, &mut spaces, &mut open);
        if matches!(taken, Ok((_, true))) {
            closed.extend(values![&back.space, back.lease, back.closed_at]);
            moved.insert(back.space.as_str());
        }
        marks.push(taken.map(|(mark, _)| mark));
    }
    tx.execute(&LEASES_CLOSE, &[], &closed).await?;
    let moved = moved.into_iter().filter_map(|name| spaces.get(name)?.as_ref().ok());
    let moved: Vec<Value<'_>> = moved
        .flat_map(|space| values![&space.name, space.mark.revision, json(&space.returned)])
        .collect();
    tx.execute(&SPACES_MOVE, &[], &moved).await?;
    Ok(marks)
}

pub(super) async fn lease_of<T: Transaction>(
    tx: &mut T,
    space: &str,
    ordinal: u64,
) -> Result<Option<LeaseRecord>> {
    let rows = tx.query(&LEASE_OF, &values![space, ordinal], &[]).await?;
    Ok(rows.first().map(lease_from))
}

pub(super) async fn leases<T: Transaction>(
    tx: &mut T,
    page: &LeasePage,
) -> Result<Vec<LeaseRecord>> {
    let (after, lease) = page.after.clone().unwrap_or_default();
    let values = values![page.space.as_deref(), after, lease, page.limit];
    Ok(tx.query(&LEASE_PAGE, &values, &[]).await?.iter().map(lease_from).collect())
}

pub(super) async fn has_lease<T: Transaction>(
    tx: &mut T,
    space: &str,
    lease: LeaseId,
    instance: &str,
) -> Result<bool> {
    Ok(!tx.query(&LEASE_EXISTS, &values![space, lease, instance], &[]).await?.is_empty())
}

/// The spaces of a batch, their rows locked in the order of their names.
async fn lock_spaces<T: Transaction>(
    tx: &mut T,
    backs: &[(GiveBack, Floor)],
) -> Result<SpacesByName> {
    let names: BTreeSet<&str> = backs.iter().map(|(back, _)| back.space.as_str()).collect();
    let names: Vec<Value<'_>> = names.into_iter().map(Value::from).collect();
    let rows = tx.query(&SPACES_LOCK, &[], &names).await?;
    Ok(rows.iter().map(|row| (row.get(0), space_from(row, tx.history()))).collect())
}

/// Those leases of a batch that are open.
async fn open_leases<T: Transaction>(
    tx: &mut T,
    backs: &[(GiveBack, Floor)],
) -> Result<OpenLeases> {
    let leases: Vec<Value<'_>> =
        backs.iter().flat_map(|(back, _)| values![&back.space, back.lease]).collect();
    let rows = tx.query(&LEASES_OPEN, &[], &leases).await?;
    Ok(rows.iter().map(|row| ((row.get(0), row.get(1)), (row.get(2), row.get(3)))).collect())
}

/// Takes one lease back, in what was read of spaces and leases: how far its space has come, and
/// whether the lease is to be closed.
fn take_back(
    back: &GiveBack,
    identity: &str,
    floor: &Floor,
    spaces: &mut SpacesByName,
    open: &mut OpenLeases,
) -> Result<(Mark, bool)> {
    let space = match spaces.get_mut(&back.space) {
        Some(Ok(space)) => space,
        Some(Err(error)) => return Err(error.clone()),
        None => return Err(missing(&back.space, floor)),
    };
    space.check_floor(identity, floor)?;
    let lease = (back.space.clone(), back.lease);
    let is_ours = |(holder, end): &(String, u64)| *holder == back.instance && *end == back.end;
    if !open.get(&lease).is_some_and(is_ours) {
        return Ok((space.mark, false));
    }
    // A batch may name it twice.
    open.remove(&lease);
    space.take_back(&back.returned);
    Ok((space.mark, true))
}
