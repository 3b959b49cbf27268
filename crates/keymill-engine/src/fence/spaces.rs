//! Keyspaces through the fence: made, changed, advanced, moved here; and what was seen of them.
//!
//! No key leaves because of these, so the floor is raised and nothing more is looked at; but for the end of an
//! import, which is looked for once more. What makes a first
//! thing in a store, a keyspace or its secret, is refused while the data directory knows another store.

use super::{Fence, FenceError};
use crate::space::{Definition, Tuning};
use crate::store::{
    Created, Evidence, Mark, MovedRow, MovedSpace, NewSpace, SpaceRecord, StoreError,
};

impl Fence {
    /// Makes a space, or finds the one that has the name already.
    pub(crate) async fn create(&self, new: &NewSpace) -> Result<Created, FenceError> {
        self.check_store()?;
        let floor = self.floor(&new.name).await?;
        let created = self.store.spaces.create(new, &floor).await?;
        if let Created::Made(record) = &created {
            self.raise(&new.name, record.mark).await?;
        }
        Ok(created)
    }

    /// Replaces the changeable settings of a space.
    pub(crate) async fn tune(
        &self,
        space: &str,
        tuning: &Tuning,
    ) -> Result<SpaceRecord, StoreError> {
        let floor = self.floor(space).await?;
        let record = self.store.spaces.tune(space, tuning, &floor).await?;
        self.risen(record).await
    }

    /// Appends a generation.
    pub(crate) async fn grow(
        &self,
        space: &str,
        definition: &Definition,
        capacity: u64,
    ) -> Result<SpaceRecord, StoreError> {
        let floor = self.floor(space).await?;
        let record = self.store.spaces.grow(space, definition, capacity, &floor).await?;
        self.risen(record).await
    }

    /// Ends a space.
    pub(crate) async fn seal(&self, space: &str) -> Result<SpaceRecord, StoreError> {
        let floor = self.floor(space).await?;
        let record = self.store.spaces.seal(space, &floor).await?;
        self.risen(record).await
    }

    /// Moves a space beyond everything that was seen of it, and beyond `to`.
    pub(crate) async fn advance(&self, space: &str, to: Mark) -> Result<SpaceRecord, StoreError> {
        let record = self.store.spaces.advance(space, to, &self.instance).await?;
        self.risen(record).await
    }

    /// Makes a space that comes from another store.
    pub(crate) async fn begin_import(&self, space: &MovedSpace) -> Result<Created, FenceError> {
        self.check_store()?;
        let created = self.store.moves.begin_import(space).await?;
        if let Created::Made(record) = &created {
            self.raise(&space.name, record.mark).await?;
            self.heed_sightings(record).await?;
        }
        Ok(created)
    }

    /// Writes rows into a space that is importing this. A store that has lost some of those before is refused.
    pub(crate) async fn import_rows(
        &self,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
    ) -> Result<(), StoreError> {
        let floor = self.floor(space).await?;
        let mark = self.store.moves.import_rows(space, importing, rows, &floor).await?;
        self.raise(space, mark).await
    }

    /// Opens a space whose last row is here, and makes sure that it is open: keys leave because of that.
    pub(crate) async fn finish_import(
        &self,
        space: &MovedSpace,
    ) -> Result<SpaceRecord, StoreError> {
        let name = &space.name;
        let floor = self.floor(name).await?;
        let opened = self.store.moves.finish_import(space, &floor).await?;
        let found = self.make_sure_or_burn(name, opened.mark, Evidence::Mark).await?;
        if found.space.tuning.importing.is_some() {
            let lost = format!("the end of the import of `{name}` is no longer on record");
            return Err(StoreError::rolled_back(name, opened.mark, lost));
        }
        Ok(opened)
    }

    /// The store's secret; where it has none, `candidate` becomes it.
    pub(crate) async fn make_secret(&self, candidate: &str) -> Result<Option<String>, FenceError> {
        self.check_store()?;
        Ok(self.store.admin.secret(Some(candidate)).await?)
    }

    /// A space as the store has it. Another instance may know that the store was rolled back, and have left
    /// word there: then the next change is refused.
    pub(crate) async fn meet(&self, space: &str) -> Result<SpaceRecord, StoreError> {
        let record = self.store.spaces.space(space).await?;
        self.heed_sightings(&record).await?;
        Ok(record)
    }

    /// How far a space was seen, by this data directory and by every instance that has left word in the store.
    pub(crate) async fn seen(&self, space: &str) -> Result<Mark, StoreError> {
        let own = self.floor(space).await?.mark;
        Ok(own.max(self.store.spaces.sighted(space).await?.unwrap_or_default()))
    }

    /// Raises the floor to what others have seen of a space, where it has not come as far.
    async fn heed_sightings(&self, record: &SpaceRecord) -> Result<(), StoreError> {
        if let Some(seen) = self.store.spaces.sighted(&record.name).await?
            && !record.mark.has_reached(seen)
        {
            self.raise(&record.name, seen).await?;
        }
        Ok(())
    }

    /// Raises the floor to where a space has come.
    async fn risen(&self, record: SpaceRecord) -> Result<SpaceRecord, StoreError> {
        self.raise(&record.name, record.mark).await?;
        Ok(record)
    }

    /// Refuses to create in a store while the data directory knows another one.
    pub(super) fn check_store(&self) -> Result<(), FenceError> {
        let known = self.floors.check_store();
        let known = known.map_err(|error| StoreError::Broken(format!("the floor file {error}")))?;
        known.map_err(FenceError::OtherStore)
    }
}
