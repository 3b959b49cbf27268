//! Names in a SQLite transaction.

use rusqlite::params;

use super::rows::name_of;
use super::statements::{IMPORTED_ADD, NAME_PUT, NAME_REMOVE};
use super::transaction::Tx;
use crate::store::values::{now, signed};
use crate::store::{
    Floor, Mark, NameBatch, NamePurpose, NameRecord, Named, Naming, NewName, StoreError,
};

impl Tx<'_> {
    pub(super) fn add_names(&self, batch: &NameBatch, floor: &Floor) -> Result<Named, StoreError> {
        let mut space = self.space_above(&batch.space, floor)?;
        if space.sealed {
            return Err(StoreError::Sealed(batch.space.clone()));
        }
        batch.check_generations(&space)?;
        let (mut outcomes, mut made) = (Vec::with_capacity(batch.names.len()), Vec::new());
        for new in &batch.names {
            let known = self.name(&batch.space, new)?;
            let outcome = batch.judge(&space, new, known.as_ref());
            let is_new = known.is_none();
            if outcome == Naming::Made && is_new && batch.is_mere_ordinal(&space, new) {
                let imported = params![batch.space, new.ordinal.map(signed), now()];
                self.execute(IMPORTED_ADD, imported)?;
                made.push(new);
            } else if outcome == Naming::Made {
                self.put_name(&batch.space, &new.key, new.ordinal, batch.purpose, &batch.owner)?;
                made.push(new);
            }
            outcomes.push(outcome);
        }
        if !made.is_empty() {
            space.mark.revision += 1;
            self.move_to(&space)?;
            if batch.purpose == NamePurpose::Pool {
                self.pool_names(batch, &space, &made)?;
            }
        }
        Ok(Named { mark: space.mark, outcomes })
    }

    pub(super) fn put_name(
        &self,
        space: &str,
        key: &str,
        ordinal: Option<u64>,
        purpose: NamePurpose,
        owner: &str,
    ) -> Result<(), StoreError> {
        let ordinal = ordinal.map(signed);
        let params = params![space, key, ordinal, purpose.name(), owner, now()];
        self.execute(NAME_PUT, params).map(drop)
    }

    pub(super) fn remove_name(
        &self,
        name: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<(Mark, Option<NameRecord>), StoreError> {
        let mut space = self.space_above(name, floor)?;
        let named = NewName { key: key.to_owned(), ordinal: None };
        let known = self.name(name, &named)?.filter(|known| known.removed_at.is_none());
        if known.as_ref().is_none_or(|known| !known.is_alias_of(owner)) {
            return Ok((space.mark, known));
        }
        self.execute(NAME_REMOVE, params![name, key, now()])?;
        space.mark.revision += 1;
        self.move_to(&space)?;
        Ok((space.mark, self.name(name, &named)?))
    }

    fn name(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError> {
        self.query(|connection| name_of(connection, space, name))
    }
}
