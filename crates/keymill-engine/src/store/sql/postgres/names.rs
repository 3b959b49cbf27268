//! Names in a PostgreSQL transaction.

use std::collections::{HashMap, HashSet};

use super::rows::name_from;
use super::statements::{IMPORTED, IMPORTED_ADD, NAME_REMOVE, NAMES, NAMES_PUT};
use super::transaction::Tx;
use crate::store::values::{signed, time};
use crate::store::{
    Floor, Mark, NameBatch, NamePurpose, NameRecord, Named, Naming, NewName, StoreError,
};

impl Tx {
    pub(super) async fn add_names(
        &self,
        batch: &NameBatch,
        floor: &Floor,
    ) -> Result<Named, StoreError> {
        let mut space = self.space_above(&batch.space, floor).await?;
        if space.sealed {
            return Err(StoreError::Sealed(batch.space.clone()));
        }
        batch.check_generations(&space)?;
        let keys: Vec<&str> = batch.names.iter().map(|new| new.key.as_str()).collect();
        let rows = self.query(NAMES, &[&batch.space, &keys]).await?;
        let known = rows.iter().map(name_from).map(|known| (known.key.clone(), known));
        let mut known: HashMap<String, NameRecord> = known.collect();
        let ordinals: Vec<i64> =
            batch.names.iter().filter_map(|new| new.ordinal.map(signed)).collect();
        let rows = self.query(IMPORTED, &[&batch.space, &ordinals]).await?;
        let imported: HashSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        for new in &batch.names {
            if new.ordinal.is_some_and(|ordinal| imported.contains(&signed(ordinal))) {
                let record = || new.imported(&batch.space, space.created_at);
                known.entry(new.key.clone()).or_insert_with(record);
            }
        }
        let (mut outcomes, mut made) = (Vec::new(), (Vec::new(), Vec::new()));
        let mut mere_ordinals = Vec::new();
        for new in &batch.names {
            let outcome = batch.judge(&space, new, known.get(&new.key));
            let is_new = !known.contains_key(&new.key);
            if outcome == Naming::Made && is_new && batch.is_mere_ordinal(&space, new) {
                mere_ordinals.extend(new.ordinal.map(signed));
                known.insert(new.key.clone(), batch.record(new, space.created_at));
            } else if outcome == Naming::Made {
                made.0.push(new.key.as_str());
                made.1.push(new.ordinal.map(signed));
                // A name that comes twice in one batch is the same owner's the second time.
                known.insert(new.key.clone(), batch.record(new, space.created_at));
            }
            outcomes.push(outcome);
        }
        if !made.0.is_empty() || !mere_ordinals.is_empty() {
            let (purpose, owner) = (batch.purpose.name(), &batch.owner);
            self.execute(NAMES_PUT, &[&batch.space, &made.0, &made.1, &purpose, owner]).await?;
            self.execute(IMPORTED_ADD, &[&batch.space, &mere_ordinals]).await?;
            space.mark.revision += 1;
            self.move_to(&space).await?;
            if batch.purpose == NamePurpose::Pool {
                self.pool_names(&space, &made.0).await?;
            }
        }
        Ok(Named { mark: space.mark, outcomes })
    }

    pub(super) async fn remove_name(
        &self,
        name: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<(Mark, Option<NameRecord>), StoreError> {
        let mut space = self.space_above(name, floor).await?;
        let rows = self.query(NAMES, &[&name, &vec![key]]).await?;
        let known = rows.first().map(name_from).filter(|known| known.removed_at.is_none());
        if known.as_ref().is_none_or(|known| !known.is_alias_of(owner)) {
            return Ok((space.mark, known));
        }
        self.execute(NAME_REMOVE, &[&name, &key]).await?;
        space.mark.revision += 1;
        self.move_to(&space).await?;
        let rows = self.query(NAMES, &[&name, &vec![key]]).await?;
        Ok((space.mark, rows.first().map(name_from)))
    }

    /// A name on record; one that is a mere ordinal too.
    pub(super) async fn named(
        &self,
        space: &str,
        name: &NewName,
    ) -> Result<Option<NameRecord>, StoreError> {
        let rows = self.query(NAMES, &[&space, &vec![name.key.as_str()]]).await?;
        if let (None, Some(ordinal)) = (rows.first(), name.ordinal) {
            let rows = self.query(IMPORTED, &[&space, &vec![signed(ordinal)]]).await?;
            return Ok(rows.first().map(|row| name.imported(space, time(row.get(1)))));
        }
        Ok(rows.first().map(name_from))
    }
}
