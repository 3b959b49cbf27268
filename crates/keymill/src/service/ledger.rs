//! The ledger: every key on record, with its time and its caller, before it is handed out.

use std::sync::{Arc, Mutex, MutexGuard};

use super::together::Together;
use super::{Service, ServiceError, Space};
use crate::floor::{Floors, floor_of, raise_to};
use crate::store::keys::{Claimed, Found, KeyPlace, KeyUse, LastUse, Uses};
use crate::store::{Store, StoreError};

/// The most keys of one commit.
const KEYS_MAX: usize = 10_000;

/// Notes keys of one space, many takes to a commit.
#[derive(Debug)]
pub(super) struct Ledger {
    together: Together<Vec<KeyUse>, Vec<bool>>,
}

impl Service {
    /// The ledger of a space whose store can keep one.
    pub(super) fn ledger(&self, space: &str, pooled: bool, ttl: TtlOf) -> Option<Ledger> {
        let inner = &self.inner;
        inner.store.keys().filter(|keys| keys.notes_keys())?;
        let writer = Arc::new(Writer {
            space: space.to_owned(),
            instance: inner.instance.id.clone(),
            store: inner.store.clone(),
            floors: inner.floors.clone(),
            pooled,
            ttl,
            last: Mutex::default(),
        });
        let commit = move |asked| {
            let writer = writer.clone();
            async move { writer.write(asked).await }
        };
        let together = Together::start(&inner.runtime, KEYS_MAX, Vec::len, commit);
        Some(Ledger { together })
    }
}

impl Space {
    /// Puts keys on record; for each whether it may be handed out.
    pub(super) async fn note(&self, uses: &[KeyUse]) -> Result<Vec<bool>, ServiceError> {
        let ledger = self.ledger.as_ref().ok_or_else(|| StoreError::no_keys(&self.name))?;
        let mut may_go = Vec::with_capacity(uses.len());
        for uses in uses.chunks(KEYS_MAX) {
            may_go.extend(ledger.together.ask(uses.to_vec()).await?);
        }
        Ok(may_go)
    }
}

/// How long used keys live, as the settings say at present.
type TtlOf = Box<dyn Fn() -> Option<std::time::Duration> + Send + Sync>;

/// What a commit needs.
struct Writer {
    space: String,
    instance: String,
    store: Arc<dyn Store>,
    floors: Arc<Floors>,
    pooled: bool,
    ttl: TtlOf,
    /// The last key that was noted.
    last: Mutex<Option<LastUse>>,
}

impl Writer {
    fn last(&self) -> MutexGuard<'_, Option<LastUse>> {
        self.last.lock().expect("nothing panics while it is held")
    }

    async fn write(&self, asked: Vec<Vec<KeyUse>>) -> Result<Vec<Vec<bool>>, StoreError> {
        let keys = self.store.keys().ok_or_else(|| StoreError::no_keys(&self.space))?;
        let sizes: Vec<usize> = asked.iter().map(Vec::len).collect();
        let last = self.last().clone();
        let uses = Uses {
            space: self.space.clone(),
            instance: self.instance.clone(),
            keys: asked.into_iter().flatten().collect(),
            pooled: self.pooled,
            ttl: (self.ttl)(),
            last,
            floor: floor_of(&self.floors, &self.space).await?,
        };
        let noted = keys.note(&uses).await?;
        raise_to(&self.floors, &self.space, noted.mark).await?;
        // This process may have been paused between the commit and the floor, while the store was
        // taken back and gave these keys to another.
        let first = uses.keys.iter().zip(&noted.may_go).find(|(_, may_go)| **may_go);
        if let Some((KeyUse { id, key, .. }, _)) = first {
            let at = KeyPlace { space: self.space.clone(), id: *id, key: key.clone() };
            match keys.find(&at).await? {
                Some(Found::Used(used)) if used.instance == self.instance => {
                    let key = Claimed { id: *id, key: key.clone() };
                    *self.last() = Some(LastUse { key, revision: noted.mark.revision });
                }
                _ => {
                    let lost = format!("a used key of `{}` is not on record any more", self.space);
                    return Err(StoreError::went_back(&self.space, noted.mark, lost));
                }
            }
        }
        let mut may_go = noted.may_go.into_iter();
        Ok(sizes.into_iter().map(|size| may_go.by_ref().take(size).collect()).collect())
    }
}
