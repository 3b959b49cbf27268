//! Digests in a MySQL transaction.

use std::collections::{HashMap, HashSet};

use super::bulk::hex;
use super::rows::column;
use super::statements::NOW;
use super::transaction::Tx;
use crate::store::{DigestBatch, DigestInput, Digested, NamePurpose, StoreError};

const NAMES_ADD: &str = "INSERT INTO names (space, `key`, purpose, owner, created_at) VALUES ";
const DIGESTS_ADD: &str = "INSERT INTO digests (space, input, `key`, created_at) VALUES ";

impl Tx {
    pub(super) async fn digest(&mut self, batch: &DigestBatch) -> Result<Digested, StoreError> {
        let mut space = self.space_above(&batch.space, &batch.floor).await?;
        batch.check_generations(&space)?;
        let name = hex(batch.space.as_bytes());
        let known = self.digests(&name, &batch.inputs).await?;
        let taken = self.names_among(&name, &batch.inputs, &known).await?;
        let keys = batch.choose(known, taken, space.sealed)?;
        let (mut names, mut digests) = (Vec::new(), Vec::new());
        for (input, key) in batch.made(&keys) {
            let (hash, text) = (hex(&input.hash), hex(key.as_bytes()));
            let purpose = NamePurpose::Digest.name();
            names.push(format!("({name},{text},'{purpose}','',{NOW})"));
            digests.push(format!("({name},{hash},{text},{NOW})"));
        }
        if !digests.is_empty() {
            self.insert(NAMES_ADD, &names, "").await?;
            self.insert(DIGESTS_ADD, &digests, "").await?;
            space.mark.revision += 1;
            self.move_to(&space).await?;
        }
        Ok(Digested { mark: space.mark, keys })
    }

    /// The keys of inputs that were digested before.
    async fn digests(
        &mut self,
        space: &str,
        inputs: &[DigestInput],
    ) -> Result<HashMap<Vec<u8>, String>, StoreError> {
        let select = format!("SELECT input, `key` FROM digests WHERE space = {space} AND input");
        let hashes: Vec<String> = inputs.iter().map(|input| hex(&input.hash)).collect();
        let rows = self.among(&select, &hashes, "").await?;
        Ok(rows.iter().map(|row| (column(row, 0), column(row, 1))).collect())
    }

    /// Those of the candidates of unknown inputs that are names.
    async fn names_among(
        &mut self,
        space: &str,
        inputs: &[DigestInput],
        known: &HashMap<Vec<u8>, String>,
    ) -> Result<HashSet<String>, StoreError> {
        let select = format!("SELECT `key` FROM names WHERE space = {space} AND `key`");
        let mut candidates = Vec::new();
        for input in inputs {
            if !known.contains_key(&input.hash[..]) {
                candidates.extend(input.candidates.iter().map(|key| hex(key.as_bytes())));
            }
        }
        let rows = self.among(&select, &candidates, "").await?;
        Ok(rows.iter().map(|row| column(row, 0)).collect())
    }
}
