//! Looking once more, in a transaction that changes nothing and locks nothing: at what a change has left
//! on record, and at what else is read with the mark of its space.
//!
//! The space is read first. What is read behind it is of the same state (PostgreSQL, SQLite), or at least
//! as new (MySQL).

use super::driver::{Result, Step, Transaction};
use super::rows::{found_from, name_from};
use super::spaces::first_space;
use super::statements::{
    DIGEST, FOUND, IMPORTED, LEASE_REACHES, NAME, NAMES_WITHOUT_ORDINAL, SPACE,
};
use super::steps::skips_in;
use super::value::{Row, values};
use crate::store::{Confirm, Confirmed, Evidence, Found, KeyRef, SpaceRecord, StoreError};

pub(super) async fn confirm<T: Transaction>(tx: &mut T, what: &Confirm) -> Result<Confirmed> {
    let mut steps = vec![Step::new(&SPACE, values![&what.space])];
    steps.extend(look_for(what));
    if !what.skips_in.is_empty() {
        steps.push(skips_in(&what.space, &what.skips_in));
    }
    let mut rows = tx.run_all(&steps).await?;
    let skips = if what.skips_in.is_empty() { Vec::new() } else { rows.pop().unwrap_or_default() };
    let space = reached(tx, what, &rows[0]).await?;
    let on_record = is_on_record(what, &rows[1..]);
    Ok(Confirmed { space, on_record, skips: skips.iter().map(|row| row.get(0)).collect() })
}

/// Names without an ordinal, where the space has come as far as it should.
pub(super) async fn names_without_ordinal<T: Transaction>(
    tx: &mut T,
    what: &Confirm,
    after: &str,
    limit: u32,
) -> Result<Vec<String>> {
    let rows = tx.query(&SPACE, &values![&what.space], &[]).await?;
    reached(tx, what, &rows).await?;
    let rows = tx.query(&NAMES_WITHOUT_ORDINAL, &values![&what.space, after, limit], &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// The space, where it has come as far as it should.
async fn reached<T: Transaction>(tx: &mut T, what: &Confirm, rows: &[Row]) -> Result<SpaceRecord> {
    // Before anything is concluded: a server that follows another may lag behind it.
    tx.identity().await?;
    let found = first_space(tx, rows)?;
    let space = found.ok_or_else(|| StoreError::gone(&what.space))?;
    what.check(&space)?;
    Ok(space)
}

fn look_for(what: &Confirm) -> Vec<Step<'_>> {
    let space = &what.space;
    match &what.evidence {
        Evidence::Mark => Vec::new(),
        Evidence::Lease { lease, holder, end } => {
            vec![Step::new(&LEASE_REACHES, values![space, *lease, holder, *end])]
        }
        Evidence::Name { name, .. } => {
            let mut steps = vec![Step::new(&NAME, values![space, &name.key])];
            steps.extend(name.ordinal.map(|it| Step::new(&IMPORTED, values![space, it])));
            steps
        }
        Evidence::Used { at: KeyRef { space, id, key }, .. } => {
            vec![Step::new(&FOUND, values![space, *id, key])]
        }
        Evidence::Digest { hash, key } => {
            vec![Step::new(&DIGEST, values![space, &hash[..], key])]
        }
    }
}

/// Whether what was found shows the evidence.
fn is_on_record(what: &Confirm, rows: &[Vec<Row>]) -> bool {
    match &what.evidence {
        Evidence::Mark => true,
        Evidence::Lease { .. } | Evidence::Digest { .. } => !rows[0].is_empty(),
        Evidence::Name { name, .. } => {
            let imported = rows.get(1).and_then(|rows| rows.first());
            let imported = imported.map(|row| name.imported(&what.space, row.get(0)));
            let found = rows[0].first().map(name_from).or(imported);
            what.evidence.is_name(found.as_ref())
        }
        Evidence::Used { instance, .. } => {
            matches!(found_from(&rows[0]), Some(Found::Used(used)) if used.instance == *instance)
        }
    }
}
