//! The record of single keys through the fence.

use super::Fence;
use super::pools::used;
use crate::store::{Claimed, Evidence, LastUse, Noted, Retire, StoreError, UsedKey, Uses};

impl Fence {
    /// Notes that keys are handed out, and makes sure of it; with the first of them that may go. What goes wrong
    /// behind the commit leaves keys on record that nobody was given.
    pub(crate) async fn note(&self, uses: &Uses) -> Result<(Noted, Option<LastUse>), StoreError> {
        let use_log = &self.store.rows_of(&uses.space)?.use_log;
        let floor = self.floor(&uses.space).await?;
        let noted = use_log.note(uses, &floor).await?;
        let first = uses.keys.iter().zip(&noted.may_go).find(|(_, may_go)| **may_go);
        let first = first.map(|(it, _)| Claimed { id: it.id, key: it.key.clone() });
        let evidence = match &first {
            Some(key) => used(&uses.space, key, &uses.instance),
            None => Evidence::Mark,
        };
        self.make_sure_or_burn(&uses.space, noted.mark, evidence).await?;
        let last = first.map(|key| LastUse { key, revision: noted.mark.revision });
        Ok((noted, last))
    }

    /// Retires a key, and makes sure that it is on record as used.
    pub(crate) async fn retire(&self, retire: &Retire) -> Result<UsedKey, StoreError> {
        let space = &retire.at.space;
        let use_log = &self.store.rows_of(space)?.use_log;
        let floor = self.floor(space).await?;
        let (mark, retired) = use_log.retire(retire, &floor).await?;
        // As it is on record, with the instance that used it first.
        let key = Claimed { id: retire.at.id, key: retired.key.clone() };
        let evidence = used(space, &key, &retired.instance);
        self.make_sure_or_burn(space, mark, evidence).await?;
        Ok(retired)
    }
}
