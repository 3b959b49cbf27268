//! Keys made of inputs, in a transaction.

use std::collections::{HashMap, HashSet};

use super::driver::{Result, Transaction};
use super::spaces::space_above;
use super::statements::{DIGESTS, DIGESTS_ADD, NAMES, NAMES_ADD};
use super::steps::moved;
use super::value::{Value, values};
use crate::store::{DigestBatch, Digested, Floor, NamePurpose};

pub(super) async fn digest<T: Transaction>(
    tx: &mut T,
    batch: &DigestBatch,
    floor: &Floor,
) -> Result<Digested> {
    let mut space = space_above(tx, &batch.space, floor).await?;
    batch.check_generations(&space)?;
    let hashes: Vec<Value<'_>> =
        batch.inputs.iter().map(|input| Value::from(&input.hash[..])).collect();
    let rows = tx.query(&DIGESTS, &values![&batch.space], &hashes).await?;
    let known: HashMap<Vec<u8>, String> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let new = batch.inputs.iter().filter(|input| !known.contains_key(&input.hash[..]));
    let candidates: Vec<Value<'_>> =
        new.flat_map(|input| &input.candidates).map(Value::from).collect();
    // Removed ones too: a key is never given again.
    let rows = tx.query(&NAMES, &values![&batch.space], &candidates).await?;
    let taken: HashSet<String> = rows.iter().map(|row| row.get(1)).collect();
    let keys = batch.choose(known, taken, space.sealed)?;
    let (mut names, mut digests) = (Vec::new(), Vec::new());
    for (input, key) in batch.made(&keys) {
        names.push(Value::from(key));
        digests.extend(values![&input.hash[..], key]);
    }
    if !digests.is_empty() {
        let shared = values![&batch.space, NamePurpose::Digest.name(), ""];
        tx.execute(&NAMES_ADD, &shared, &names).await?;
        tx.execute(&DIGESTS_ADD, &values![&batch.space], &digests).await?;
        space.mark.revision += 1;
        tx.run_all(&[moved(&space)]).await?;
    }
    Ok(Digested { mark: space.mark, keys })
}
