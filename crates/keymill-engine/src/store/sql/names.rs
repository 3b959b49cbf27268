//! Names in a transaction.

use std::collections::{HashMap, HashSet};

use super::driver::{Result, Transaction};
use super::pools::add_imported;
use super::rows::name_from;
use super::spaces::space_above;
use super::statements::{
    IMPORTED, IMPORTED_ADD, IMPORTED_AMONG, NAME, NAME_COUNTS, NAME_COUNTS_OF, NAME_REMOVE, NAMES,
    NAMES_KEPT, NAMES_LISTED, NAMES_MADE, NAMES_PUT,
};
use super::steps::moved;
use super::value::{Value, values};
use crate::store::{
    Floor, Mark, NameBatch, NamePage, NamePurpose, NameRecord, Named, Naming, NewName, SpaceRecord,
    StoreError,
};

pub(super) async fn add_names<T: Transaction>(
    tx: &mut T,
    batch: &NameBatch,
    floor: &Floor,
) -> Result<Named> {
    let mut space = space_above(tx, &batch.space, floor).await?;
    if space.sealed {
        return Err(StoreError::Sealed(batch.space.clone()));
    }
    batch.check_generations(&space)?;
    let mut known = known_names(tx, batch, &space).await?;
    let (mut outcomes, mut made) = (Vec::with_capacity(batch.names.len()), Vec::new());
    let (mut names, mut mere_ordinals) = (Vec::new(), Vec::new());
    for new in &batch.names {
        let outcome = batch.judge(&space, new, known.get(&new.key));
        outcomes.push(outcome);
        if outcome != Naming::Made {
            continue;
        }
        if !known.contains_key(&new.key) && batch.is_mere_ordinal(&space, new) {
            mere_ordinals.push(new.ordinal.into());
        } else {
            names.extend(values![&new.key, new.ordinal]);
        }
        made.push(new.key.as_str());
        // A name that comes twice in one batch is the same owner's the second time.
        known.insert(new.key.clone(), batch.record(new, space.created_at));
    }
    if !made.is_empty() {
        let shared = values![&batch.space, batch.purpose.name(), &batch.owner];
        tx.execute(&NAMES_PUT, &shared, &names).await?;
        tx.execute(&IMPORTED_ADD, &values![&batch.space], &mere_ordinals).await?;
        space.mark.revision += 1;
        tx.run_all(&[moved(&space)]).await?;
        if batch.purpose == NamePurpose::Pool {
            add_imported(tx, &space, &made).await?;
        }
    }
    Ok(Named { mark: space.mark, outcomes })
}

pub(super) async fn remove_name<T: Transaction>(
    tx: &mut T,
    name: &str,
    key: &str,
    owner: &str,
    floor: &Floor,
) -> Result<(Mark, Option<NameRecord>)> {
    let mut space = space_above(tx, name, floor).await?;
    let known = on_record(tx, name, key).await?.filter(|known| known.removed_at.is_none());
    if known.as_ref().is_none_or(|known| !known.is_alias_of(owner)) {
        return Ok((space.mark, known));
    }
    tx.execute(&NAME_REMOVE, &values![name, key], &[]).await?;
    space.mark.revision += 1;
    tx.run_all(&[moved(&space)]).await?;
    Ok((space.mark, on_record(tx, name, key).await?))
}

/// A name on record, also one that is a mere ordinal or was removed.
pub(super) async fn named<T: Transaction>(
    tx: &mut T,
    space: &str,
    name: &NewName,
) -> Result<Option<NameRecord>> {
    tx.identity().await?;
    let known = on_record(tx, space, &name.key).await?;
    let (None, Some(ordinal)) = (&known, name.ordinal) else { return Ok(known) };
    let rows = tx.query(&IMPORTED, &values![space, ordinal], &[]).await?;
    Ok(rows.first().map(|row| name.imported(space, row.get(0))))
}

pub(super) async fn names<T: Transaction>(tx: &mut T, page: &NamePage) -> Result<Vec<NameRecord>> {
    let sql = match (page.purpose, page.removed) {
        (NamePurpose::Pool | NamePurpose::Digest, _) => &NAMES_MADE,
        (_, true) => &NAMES_LISTED,
        (_, false) => &NAMES_KEPT,
    };
    // No key is empty.
    let after = page.after.as_deref().unwrap_or_default();
    let values = values![&page.space, page.purpose.name(), after, page.limit];
    Ok(tx.query(sql, &values, &[]).await?.iter().map(name_from).collect())
}

/// How many names there are that were not removed, by space, of one or of all. The keys in use that are
/// mere ordinals count too.
pub(super) async fn count_names<T: Transaction>(
    tx: &mut T,
    space: Option<&str>,
) -> Result<HashMap<String, u64>> {
    tx.identity().await?;
    if let Some(space) = space {
        let rows = tx.query(&NAME_COUNTS_OF, &values![space], &[]).await?;
        let count = rows.iter().map(|row| row.get::<u64>(0)).sum();
        return Ok(HashMap::from([(space.to_owned(), count)]));
    }
    let mut counts: HashMap<String, u64> = HashMap::new();
    for row in tx.query(&NAME_COUNTS, &[], &[]).await? {
        *counts.entry(row.get(0)).or_default() += row.get::<u64>(1);
    }
    Ok(counts)
}

/// What is on record of the names of a batch, by key.
async fn known_names<T: Transaction>(
    tx: &mut T,
    batch: &NameBatch,
    space: &SpaceRecord,
) -> Result<HashMap<String, NameRecord>> {
    let keys: Vec<Value<'_>> = batch.names.iter().map(|new| Value::from(&new.key)).collect();
    let rows = tx.query(&NAMES, &values![&batch.space], &keys).await?;
    let known = rows.iter().map(name_from).map(|known| (known.key.clone(), known));
    let mut known: HashMap<String, NameRecord> = known.collect();
    let ordinals = batch.names.iter().filter_map(|new| new.ordinal);
    let ordinals: Vec<Value<'_>> = ordinals.map(Value::from).collect();
    let rows = tx.query(&IMPORTED_AMONG, &values![&batch.space], &ordinals).await?;
    let imported: HashSet<u64> = rows.iter().map(|row| row.get(0)).collect();
    for new in &batch.names {
        if new.ordinal.is_some_and(|ordinal| imported.contains(&ordinal)) {
            let record = || new.imported(&batch.space, space.created_at);
            known.entry(new.key.clone()).or_insert_with(record);
        }
    }
    Ok(known)
}

async fn on_record<T: Transaction>(
    tx: &mut T,
    space: &str,
    key: &str,
) -> Result<Option<NameRecord>> {
    Ok(tx.query(&NAME, &values![space, key], &[]).await?.first().map(name_from))
}
