//! Keys made of inputs, in a PostgreSQL transaction.

use std::collections::{HashMap, HashSet};

use super::rows::name_from;
use super::statements::{NAMES, NAMES_PUT};
use super::transaction::Tx;
use crate::store::{DigestBatch, Digested, NamePurpose, StoreError};

pub(super) const DIGESTS: &str = "SELECT found.* FROM unnest($2::bytea[]) AS wanted (input)
    CROSS JOIN LATERAL (SELECT digests.input, key
    FROM digests WHERE space = $1 AND digests.input = wanted.input LIMIT 1) AS found";
const DIGESTS_ADD: &str = "INSERT INTO digests (space, input, key, created_at)
    SELECT $1, input, key, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM unnest($2::bytea[], $3::text[]) AS new (input, key)";

impl Tx {
    pub(super) async fn digest(&self, batch: &DigestBatch) -> Result<Digested, StoreError> {
        let space = self.space_above(&batch.space, &batch.floor).await?;
        batch.check_generations(&space)?;
        let hashes: Vec<&[u8]> = batch.inputs.iter().map(|input| &input.hash[..]).collect();
        let rows = self.query(DIGESTS, &[&batch.space, &hashes]).await?;
        let known: HashMap<Vec<u8>, String> =
            rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let new = batch.inputs.iter().filter(|input| !known.contains_key(&input.hash[..]));
        let candidates: Vec<&str> =
            new.flat_map(|input| &input.candidates).map(String::as_str).collect();
        let rows = self.query(NAMES, &[&batch.space, &candidates]).await?;
        let taken: HashSet<String> = rows.iter().map(|row| name_from(row).key).collect();
        let keys = batch.choose(known, taken, space.sealed)?;
        let (inputs, made): (Vec<&[u8]>, Vec<&str>) =
            batch.made(&keys).map(|(input, key)| (&input.hash[..], key)).unzip();
        if made.is_empty() {
            return Ok(Digested { mark: space.mark, keys });
        }
        let none: Vec<Option<i64>> = vec![None; made.len()];
        let purpose = NamePurpose::Digest.name();
        self.execute(NAMES_PUT, &[&batch.space, &made, &none, &purpose, &""]).await?;
        self.execute(DIGESTS_ADD, &[&batch.space, &inputs, &made]).await?;
        Ok(Digested { mark: self.step(&space).await?, keys })
    }
}
