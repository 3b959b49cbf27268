//! Named keys through the fence.

use super::{Fence, burned};
use crate::store::{Confirm, Evidence, NameBatch, NameRecord, Named, Naming, NewName, StoreError};

impl Fence {
    /// Has keys taken by name, and makes sure of them. What cannot be made sure of stays taken.
    pub(crate) async fn add_names(&self, batch: &NameBatch) -> Result<Named, StoreError> {
        let floor = self.floor(&batch.space).await?;
        let named = self.store.names.add_names(batch, &floor).await?;
        let made = batch.names.iter().zip(&named.outcomes);
        let made = made.rev().find(|(_, outcome)| **outcome == Naming::Made);
        let evidence = match made {
            Some((name, _)) => Evidence::Name { name: name.clone(), owner: batch.owner.clone() },
            None => Evidence::Mark,
        };
        self.make_sure_or_burn(&batch.space, named.mark, evidence).await?;
        Ok(named)
    }

    /// Removes a name, if it is the owner's, and makes sure that it is gone; the name as it then is.
    pub(crate) async fn remove_name(
        &self,
        space: &str,
        key: &str,
        owner: &str,
    ) -> Result<Option<NameRecord>, StoreError> {
        let floor = self.floor(space).await?;
        let (mark, name) = self.store.names.remove_name(space, key, owner, &floor).await?;
        let was_removed = name.as_ref().is_some_and(|name| name.removed_at.is_some());
        let removed = NewName { key: key.to_owned(), ordinal: None };
        let evidence = if was_removed {
            Evidence::Name { name: removed, owner: owner.to_owned() }
        } else {
            Evidence::Mark
        };
        let (space, skips_in) = (space.to_owned(), 0..0);
        let change = Confirm { space, reached: mark, evidence, skips_in };
        let found = self.look_again(&change).await.map_err(burned)?;
        if was_removed && found.on_record {
            // Which of both it is, the record does not tell.
            return Err(StoreError::InDoubt(format!(
                "`{key}` was removed and is on record again: it was added again at the same time, \
                 or the store was rolled back"
            )));
        }
        Ok(name)
    }
}
