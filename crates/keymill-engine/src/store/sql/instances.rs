//! Instances in a transaction: their heartbeats, a few statements however many spaces there are; and the
//! secret, which they share.

use std::collections::HashSet;

use super::driver::{Result, Step, Transaction};
use super::rows::{instance_record_from, mark_from, space_from};
use super::statements::{
    INSTANCE_PAGE, INSTANCE_SEEN, LEASES_OF, MARKS, SECRET, SECRET_FORGET, SECRET_MAKE, SPACES_OF,
};
use super::steps::know;
use super::value::{Value, values};
use crate::store::{Beat, InstancePage, InstanceRecord, LeaseId, Mark, Pulse, SpaceRecord};

pub(super) async fn heartbeat<T: Transaction>(tx: &mut T, pulse: &Pulse) -> Result<Beat> {
    let id = &pulse.instance.id;
    let seen = values![id, pulse.address.as_deref(), pulse.stopping];
    let steps = [know(&pulse.instance), Step::new(&INSTANCE_SEEN, seen), Step::new(&MARKS, [])];
    // Definitions are read of few spaces: reading those of ten thousand would take longer than all
    // the rest.
    let rows = tx.run_all(&steps).await?;
    let marks: Vec<(String, Mark)> =
        rows[2].iter().map(|row| mark_from(row, tx.history())).collect();
    let changed = spaces_of(tx, &pulse.outdated(&marks)).await?;
    let lost = not_on_record(tx, &pulse.expected(&marks), id).await?;
    Ok(Beat { store: tx.identity().await?, marks, changed, lost })
}

pub(super) async fn instances<T: Transaction>(
    tx: &mut T,
    page: &InstancePage,
) -> Result<Vec<InstanceRecord>> {
    let rows = tx.query(&INSTANCE_PAGE, &values![page.after.as_deref(), page.limit], &[]).await?;
    Ok(rows.iter().map(instance_record_from).collect())
}

pub(super) async fn secret<T: Transaction>(
    tx: &mut T,
    candidate: Option<&str>,
) -> Result<Option<String>> {
    tx.identity().await?;
    if let Some(secret) = candidate {
        tx.execute(&SECRET_MAKE, &[], &values![secret]).await?;
    }
    Ok(tx.query(&SECRET, &[], &[]).await?.first().map(|row| row.get(0)))
}

pub(super) async fn forget_secret<T: Transaction>(tx: &mut T) -> Result<()> {
    tx.identity().await?;
    tx.execute(&SECRET_FORGET, &[], &[]).await.map(drop)
}

async fn spaces_of<T: Transaction>(tx: &mut T, names: &[&str]) -> Result<Vec<SpaceRecord>> {
    let names: Vec<Value<'_>> = names.iter().map(|name| Value::from(*name)).collect();
    let rows = tx.query(&SPACES_OF, &[], &names).await?;
    rows.iter().map(|row| space_from(row, tx.history())).collect()
}

/// The spaces of those leases that are not on record as this instance's.
async fn not_on_record<T: Transaction>(
    tx: &mut T,
    expected: &[(&str, LeaseId)],
    instance: &str,
) -> Result<Vec<String>> {
    let leases: Vec<Value<'_>> =
        expected.iter().flat_map(|(space, lease)| values![*space, *lease]).collect();
    let rows = tx.query(&LEASES_OF, &values![instance], &leases).await?;
    let found: HashSet<(String, LeaseId)> =
        rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let is_lost =
        |(space, lease): &&(&str, LeaseId)| !found.contains(&((*space).to_owned(), *lease));
    Ok(expected.iter().filter(is_lost).map(|(space, _)| (*space).to_owned()).collect())
}
