//! Names in a MySQL transaction.

use std::collections::HashMap;

use mysql_async::params;

use super::bulk::hex;
use super::rows::{column, name_from};
use super::statements::{IMPORTED, NAME, NAME_REMOVE, NOW};
use super::transaction::Tx;
use crate::store::values::{signed, time};
use crate::store::{
    Floor, Mark, NameBatch, NamePurpose, NameRecord, Named, Naming, NewName, SpaceRecord,
    StoreError,
};

const NAMES: &str = "SELECT space, `key`, ordinal, purpose, owner, created_at, removed_at
    FROM names WHERE space =";
const NAMES_PUT: &str =
    "INSERT INTO names (space, `key`, ordinal, purpose, owner, created_at) VALUES ";
const NAMES_AGAIN: &str = " ON DUPLICATE KEY UPDATE purpose = VALUES(purpose),
    owner = VALUES(owner), created_at = VALUES(created_at), removed_at = NULL";
const IMPORTED_ADD: &str = "INSERT INTO imported (space, ordinal, imported_at) VALUES ";

impl Tx {
    pub(super) async fn add_names(
        &mut self,
        batch: &NameBatch,
        floor: &Floor,
    ) -> Result<Named, StoreError> {
        let mut space = self.space_above(&batch.space, floor).await?;
        if space.sealed {
            return Err(StoreError::Sealed(batch.space.clone()));
        }
        batch.check_generations(&space)?;
        let mut known = self.known_names(batch, &space).await?;
        let (mut outcomes, mut made) = (Vec::with_capacity(batch.names.len()), Vec::new());
        let (mut names, mut mere_ordinals) = (Vec::new(), Vec::new());
        let (in_space, owner) = (hex(batch.space.as_bytes()), hex(batch.owner.as_bytes()));
        let purpose = batch.purpose.name();
        for new in &batch.names {
            let outcome = batch.judge(&space, new, known.get(&new.key));
            outcomes.push(outcome);
            if outcome != Naming::Made {
                continue;
            }
            let ordinal = new.ordinal.map_or("NULL".to_owned(), |ordinal| ordinal.to_string());
            if !known.contains_key(&new.key) && batch.is_mere_ordinal(&space, new) {
                mere_ordinals.push(format!("({in_space},{ordinal},{NOW})"));
            } else {
                let key = hex(new.key.as_bytes());
                names.push(format!("({in_space},{key},{ordinal},'{purpose}',{owner},{NOW})"));
            }
            made.push(new.key.as_str());
            // A name that comes twice in one batch is the same owner's the second time.
            known.insert(new.key.clone(), batch.record(new, space.created_at));
        }
        if !made.is_empty() {
            self.insert(NAMES_PUT, &names, NAMES_AGAIN).await?;
            self.insert(IMPORTED_ADD, &mere_ordinals, "").await?;
            space.mark.revision += 1;
            self.move_to(&space).await?;
            if batch.purpose == NamePurpose::Pool {
                self.pool_names(&space, &made).await?;
            }
        }
        Ok(Named { mark: space.mark, outcomes })
    }

    pub(super) async fn remove_name(
        &mut self,
        name: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<(Mark, Option<NameRecord>), StoreError> {
        let mut space = self.space_above(name, floor).await?;
        let known =
            self.name_on_record(name, key).await?.filter(|known| known.removed_at.is_none());
        if known.as_ref().is_none_or(|known| !known.is_alias_of(owner)) {
            return Ok((space.mark, known));
        }
        self.execute(NAME_REMOVE, params! { "space" => name, key }).await?;
        space.mark.revision += 1;
        self.move_to(&space).await?;
        Ok((space.mark, self.name_on_record(name, key).await?))
    }

    /// A name on record, also one that is a mere ordinal or was removed.
    pub(super) async fn named(
        &mut self,
        space: &str,
        name: &NewName,
    ) -> Result<Option<NameRecord>, StoreError> {
        let known = self.name_on_record(space, &name.key).await?;
        let (None, Some(ordinal)) = (&known, name.ordinal) else { return Ok(known) };
        let params = params! { space, "ordinal" => signed(ordinal) };
        let rows = self.query(IMPORTED, params).await?;
        Ok(rows.first().map(|row| name.imported(space, time(column(row, 0)))))
    }

    /// What is on record of the names of a batch, by key.
    async fn known_names(
        &mut self,
        batch: &NameBatch,
        space: &SpaceRecord,
    ) -> Result<HashMap<String, NameRecord>, StoreError> {
        let in_space = hex(batch.space.as_bytes());
        let keys: Vec<String> = batch.names.iter().map(|new| hex(new.key.as_bytes())).collect();
        let rows = self.among(&format!("{NAMES} {in_space} AND `key`"), &keys, "").await?;
        let known = rows.iter().map(name_from).map(|known| (known.key.clone(), known));
        let mut known: HashMap<String, NameRecord> = known.collect();
        let placed = || batch.names.iter().filter_map(|new| Some((new.ordinal?, new)));
        let ordinals: Vec<String> = placed().map(|(ordinal, _)| ordinal.to_string()).collect();
        let imported = format!("SELECT ordinal FROM imported WHERE space = {in_space} AND ordinal");
        let rows = self.among(&imported, &ordinals, "").await?;
        let by_ordinal: HashMap<i64, _> =
            placed().map(|(ordinal, new)| (signed(ordinal), new)).collect();
        for new in rows.iter().filter_map(|row| by_ordinal.get(&column(row, 0))) {
            let record = || new.imported(&batch.space, space.created_at);
            known.entry(new.key.clone()).or_insert_with(record);
        }
        Ok(known)
    }

    async fn name_on_record(
        &mut self,
        space: &str,
        key: &str,
    ) -> Result<Option<NameRecord>, StoreError> {
        Ok(self.query(NAME, params! { space, key }).await?.first().map(name_from))
    }
}
