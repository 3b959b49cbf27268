//! Keyspaces in a transaction: how they are made, found, locked, compared with a floor and moved on; and
//! the sightings that an advance goes beyond.
//!
//! Every algorithm that changes a keyspace begins here, with [`space_above`] or [`look_above`].

use super::driver::{Result, Step, Transaction};
use super::rows::space_from;
use super::statements::{
    POOL_DROP, SIGHTING, SIGHTING_PUT, SIGHTINGS, SIGHTINGS_DROP, SPACE, SPACE_LOCK, SPACE_MAKE,
    SPACE_SEAL, SPACE_STEP, SPACE_TUNE, SPACES,
};
use super::steps::{defined, know, moved, recorded};
use super::value::{Row, values};
use crate::instance::Instance;
use crate::space::{Definition, Tuning};
use crate::store::values::{from_json, json};
use crate::store::{
    Created, Floor, Mark, NewSpace, Purpose, SpaceRecord, StoreError, is_later_era,
};

pub(super) async fn create<T: Transaction>(
    tx: &mut T,
    new: &NewSpace,
    floor: &Floor,
) -> Result<Created> {
    match space_above(tx, &new.name, floor).await {
        Err(StoreError::UnknownSpace(_)) => {
            let identity = tx.identity().await?;
            floor.check_new(&new.name, &identity, tx.history())?;
        }
        found => return found.map(Created::Exists),
    }
    let (definition, tuning) = (json(&new.definition), json(&new.tuning));
    let fingerprint = new.fingerprint.as_deref();
    let row = values![&new.name, definition, tuning, fingerprint, new.capacity, new.start];
    let made = tx.execute(&SPACE_MAKE, &[], &row).await?;
    let space = locked(tx, &new.name).await?;
    // Another may have made it in between.
    Ok(if made > 0 { Created::Made(space) } else { Created::Exists(space) })
}

pub(super) async fn tune<T: Transaction>(
    tx: &mut T,
    name: &str,
    tuning: &Tuning,
    floor: &Floor,
) -> Result<SpaceRecord> {
    let tuning = space_above(tx, name, floor).await?.tuned(tuning);
    tx.execute(&SPACE_TUNE, &values![name, json(&tuning)], &[]).await?;
    locked(tx, name).await
}

pub(super) async fn grow<T: Transaction>(
    tx: &mut T,
    name: &str,
    definition: &Definition,
    capacity: u64,
    floor: &Floor,
) -> Result<SpaceRecord> {
    let mut space = space_above(tx, name, floor).await?;
    if space.grow(definition, capacity)? {
        tx.run_all(&[defined(&space), moved(&space)]).await?;
    }
    Ok(space)
}

pub(super) async fn seal<T: Transaction>(
    tx: &mut T,
    name: &str,
    floor: &Floor,
) -> Result<SpaceRecord> {
    space_above(tx, name, floor).await?;
    tx.execute(&SPACE_SEAL, &values![name], &[]).await?;
    locked(tx, name).await
}

pub(super) async fn space<T: Transaction>(tx: &mut T, name: &str) -> Result<SpaceRecord> {
    let found = look(tx, name).await?;
    tx.identity().await?;
    found.ok_or_else(|| StoreError::UnknownSpace(name.to_owned()))
}

pub(super) async fn spaces<T: Transaction>(tx: &mut T) -> Result<Vec<SpaceRecord>> {
    let rows = tx.query(&SPACES, &[], &[]).await?;
    tx.identity().await?;
    rows.iter().map(|row| space_from(row, tx.history())).collect()
}

pub(super) async fn advance<T: Transaction>(
    tx: &mut T,
    name: &str,
    to: Mark,
    by: &Instance,
) -> Result<SpaceRecord> {
    let mut space = locked(tx, name).await?;
    let to = highest_sighting(tx, name).await?.map_or(to, |sighted| to.max(sighted));
    let passed = space.advance(to)?;
    let mut steps = vec![know(by)];
    if !passed.is_empty() {
        steps.push(recorded(&space, passed, Purpose::Advance, &by.id));
    }
    steps.extend([
        defined(&space),
        moved(&space),
        // What was available before it may be in use.
        Step::new(&POOL_DROP, values![name]),
        Step::new(&SIGHTINGS_DROP, values![name]),
    ]);
    tx.run_all(&steps).await?;
    Ok(space)
}

/// Under the lock of the space, so that none of two at once is lost, and an advance sees it or comes
/// before it.
pub(super) async fn report_sighting<T: Transaction>(
    tx: &mut T,
    space: &str,
    instance: &str,
    seen: Mark,
) -> Result<()> {
    let found = lock(tx, space).await?;
    tx.identity().await?;
    if found.is_none() {
        return Ok(());
    }
    let known = tx.query(&SIGHTING, &values![space, instance], &[]).await?;
    let seen = match known.first() {
        Some(row) => seen.max(from_json(&row.get::<String>(0))?),
        None => seen,
    };
    tx.execute(&SIGHTING_PUT, &[], &values![space, instance, json(&seen)]).await.map(drop)
}

pub(super) async fn sighted<T: Transaction>(tx: &mut T, space: &str) -> Result<Option<Mark>> {
    tx.identity().await?;
    highest_sighting(tx, space).await
}

/// The highest of the sightings of a space, part by part.
async fn highest_sighting<T: Transaction>(tx: &mut T, space: &str) -> Result<Option<Mark>> {
    let mut highest: Option<Mark> = None;
    for row in tx.query(&SIGHTINGS, &values![space], &[]).await? {
        let mark: Mark = from_json(&row.get::<String>(0))?;
        highest = Some(highest.map_or(mark, |highest| highest.max(mark)));
    }
    Ok(highest)
}

/// The space, its row locked until the transaction ends.
pub(super) async fn locked<T: Transaction>(tx: &mut T, name: &str) -> Result<SpaceRecord> {
    let found = lock(tx, name).await?;
    // Before anything is concluded: a server that follows another may lag behind it.
    tx.identity().await?;
    found.ok_or_else(|| StoreError::UnknownSpace(name.to_owned()))
}

/// The same; `None` where there is none.
async fn lock<T: Transaction>(tx: &mut T, name: &str) -> Result<Option<SpaceRecord>> {
    let rows = tx.query(&SPACE_LOCK, &values![name], &[]).await?;
    first_space(tx, &rows)
}

/// The space, its row not locked; `None` where there is none.
pub(super) async fn look<T: Transaction>(tx: &mut T, name: &str) -> Result<Option<SpaceRecord>> {
    let rows = tx.query(&SPACE, &values![name], &[]).await?;
    first_space(tx, &rows)
}

/// The space, unless it lies below its floor; its row locked until the transaction ends.
pub(super) async fn space_above<T: Transaction>(
    tx: &mut T,
    name: &str,
    floor: &Floor,
) -> Result<SpaceRecord> {
    let found = lock(tx, name).await?;
    above(tx, name, found, floor).await
}

/// The space, unless it lies below its floor. Its row is not locked.
pub(super) async fn look_above<T: Transaction>(
    tx: &mut T,
    name: &str,
    floor: &Floor,
) -> Result<SpaceRecord> {
    let found = look(tx, name).await?;
    above(tx, name, found, floor).await
}

async fn above<T: Transaction>(
    tx: &mut T,
    name: &str,
    found: Option<SpaceRecord>,
    floor: &Floor,
) -> Result<SpaceRecord> {
    // Before anything is concluded: a server that follows another may lag behind it.
    let identity = tx.identity().await?;
    let floor = tx.floor(name, floor)?;
    let space = found.ok_or_else(|| missing(name, &floor))?;
    space.check_floor(&identity, &floor)?;
    Ok(space)
}

/// What to answer where there is no such space.
pub(super) fn missing(name: &str, floor: &Floor) -> StoreError {
    if floor.mark.is_seen() {
        return StoreError::gone(name);
    }
    StoreError::UnknownSpace(name.to_owned())
}

/// Adds a change to the revision of a space that was only looked at, which locks its row: as late in a
/// transaction as can be, and before that of its pool, as where both are locked from the start. What
/// follows it is done behind it; of that, the rows are returned. An advance may have come in between, and
/// what was chosen before it must not be used after it.
pub(super) async fn step<T: Transaction>(
    tx: &mut T,
    read: &SpaceRecord,
    following: Vec<Step<'_>>,
) -> Result<(SpaceRecord, Vec<Vec<Row>>)> {
    let name = &read.name;
    let mut steps =
        vec![Step::new(&SPACE_STEP, values![name]), Step::new(&SPACE_LOCK, values![name])];
    steps.extend(following);
    let mut answers = tx.run_all(&steps).await?.split_off(1);
    let space = first_space(tx, &answers.remove(0))?;
    let space = space.ok_or_else(|| StoreError::UnknownSpace(name.clone()))?;
    if is_later_era(space.mark.revision, read.mark.revision) {
        return Err(StoreError::Unavailable(format!(
            "`{name}` was advanced at the same time; try again"
        )));
    }
    Ok((space, answers))
}

pub(super) fn first_space<T: Transaction>(tx: &T, rows: &[Row]) -> Result<Option<SpaceRecord>> {
    rows.first().map(|row| space_from(row, tx.history())).transpose()
}
