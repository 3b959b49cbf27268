//! Pools: keys that are written out in advance, and keys that the user imports.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use keymill_core::Located;

use super::{Imported, Service, ServiceError, Space};
use crate::floor::{floor_of, raise_to};
use crate::pool::Pool;
use crate::space::Kind;
use crate::store::keys::{AvailablePage, Claimed, Fill, KeyStore, WriteKeys};
use crate::store::{NamePurpose, Naming, NewName, StoreError};

/// The longest key that can be imported.
const KEY_LEN_MAX: usize = 64;

/// How far a pool is to be filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filling {
    /// By so many keys.
    Add(u64),
    /// Until so many are available: after an interruption the same command goes on where it was.
    UpTo(u64),
}

impl Service {
    /// Writes keys into a pool, a transaction at a time; `each` hears how many it added, and how
    /// many are left to add. Returns how many were added in all.
    pub async fn fill_pool(
        &self,
        name: &str,
        filling: Filling,
        mut each: impl FnMut(u64, u64),
    ) -> Result<u64, ServiceError> {
        let space = self.pool_space(name).await?;
        let keys = self.key_store(name)?;
        let inner = &self.inner;
        let mut left = match filling {
            Filling::Add(count) => count,
            Filling::UpTo(wanted) => wanted.saturating_sub(keys.available(name).await?),
        };
        let mut added = 0;
        while left > 0 {
            let fill = Fill {
                space: name.to_owned(),
                instance: inner.instance.clone(),
                size: left.min(keys.fill_max()),
                enough: match filling {
                    Filling::Add(_) => None,
                    Filling::UpTo(wanted) => Some(wanted),
                },
                write: space.writer(),
                floor: floor_of(&inner.floors, name).await?,
            };
            let filled = match keys.fill(&fill).await {
                Err(StoreError::Exhausted { .. }) if added > 0 => break,
                filled => filled?,
            };
            raise_to(&inner.floors, name, filled.mark).await?;
            added += filled.added;
            left = match filling {
                Filling::Add(count) => count - added,
                Filling::UpTo(wanted) => wanted.saturating_sub(filled.available),
            };
            each(filled.added, left);
        }
        Ok(added)
    }

    /// Puts keys of the user's own into a pool.
    pub async fn import_pool(&self, name: &str, keys: &[String]) -> Result<Imported, ServiceError> {
        let space = self.pool_space(name).await?;
        let mut imported = Imported::default();
        let mut names: Vec<(usize, NewName)> = Vec::new();
        for (place, key) in keys.iter().enumerate() {
            match space.own_key(key) {
                Ok(new) => names.push((place, new)),
                Err(problem) => imported.refused.push((place, problem)),
            }
        }
        self.import(&space, NamePurpose::Pool, names, &mut imported).await?;
        Ok(imported)
    }

    /// Available keys of a pool, page by page.
    pub async fn available_keys(&self, page: &AvailablePage) -> Result<Vec<Claimed>, ServiceError> {
        self.pool_space(&page.space).await?;
        Ok(self.key_store(&page.space)?.available_page(page).await?)
    }

    /// The rows of keys, which not every store keeps.
    pub(super) fn key_store(&self, space: &str) -> Result<&dyn KeyStore, ServiceError> {
        let keys = self.inner.store.keys();
        keys.ok_or_else(|| ServiceError::WrongKind(StoreError::no_keys(space).to_string()))
    }

    /// What a refill of a space claims from, if it has a pool.
    pub(super) fn pool_of(&self, space: &Space) -> Option<Pool> {
        let claims = space.claims.clone()?;
        let inner = &self.inner;
        Some(Pool {
            space: space.name.clone(),
            store: inner.store.clone(),
            floors: inner.floors.clone(),
            instance: inner.instance.clone(),
            claims,
            write: space.writer(),
            after: AtomicI64::new(i64::MIN),
        })
    }

    /// Refuses a space that has no pool.
    pub async fn check_pool(&self, name: &str) -> Result<(), ServiceError> {
        self.pool_space(name).await.map(drop)
    }

    async fn pool_space(&self, name: &str) -> Result<Arc<Space>, ServiceError> {
        let space = self.space(name).await?;
        if space.record().definition.kind == Kind::Pooled {
            return Ok(space);
        }
        Err(ServiceError::WrongKind(format!("`{name}` has no pool: its kind is not `pooled`")))
    }

    /// Takes names, a batch to a transaction, and counts what became of them.
    pub(super) async fn import(
        &self,
        space: &Space,
        purpose: NamePurpose,
        mut names: Vec<(usize, NewName)>,
        imported: &mut Imported,
    ) -> Result<(), ServiceError> {
        // In the order of the key, so that neighbours are written together; of equal ones the first
        // line counts.
        names.sort_unstable_by(|(a_place, a), (b_place, b)| {
            (&a.key, a_place).cmp(&(&b.key, b_place))
        });
        let mut before: Option<(usize, String)> = None;
        names.retain(|(place, new)| match &before {
            Some((first, key)) if *key == new.key => {
                imported.repeated.push((*place, *first));
                false
            }
            _ => {
                before = Some((*place, new.key.clone()));
                true
            }
        });
        for batch in names.chunks(self.inner.store.names_max()) {
            let new = batch.iter().map(|(_, new)| new.clone()).collect();
            let outcomes = self.add_names(&space.name, purpose, "", new).await?;
            for ((place, _), outcome) in batch.iter().zip(outcomes) {
                match outcome {
                    Naming::Made => imported.made += 1,
                    Naming::Mine => imported.known += 1,
                    Naming::Taken => {
                        let reason = "it was granted already, or is another's";
                        imported.refused.push((*place, reason.to_owned()));
                    }
                }
            }
        }
        imported.refused.sort_unstable();
        imported.repeated.sort_unstable();
        Ok(())
    }
}

impl Space {
    /// Writes the keys of ordinals, but for blocked ones.
    pub(super) fn writer(&self) -> WriteKeys {
        let (codec, blocklist) = (self.codec.clone(), self.blocklist.clone());
        Arc::new(move |ordinals, each| {
            let (blocklist, shape) = (blocklist.load(), codec.shape());
            codec.keys(ordinals, |ordinal, key| {
                if !blocklist.blocks(shape.after_prefix(key)) {
                    each(ordinal, std::str::from_utf8(key).expect("keys are ASCII"));
                }
            });
        })
    }

    /// A key of the user's own, if it can be one of this pool.
    fn own_key(&self, key: &str) -> Result<NewName, String> {
        match self.codec.ordinal(key.as_bytes()) {
            Ok(Located::Ordinal(ordinal)) => {
                let key = self.codec.key(ordinal).as_str().to_owned();
                return Ok(NewName { key, ordinal: Some(ordinal) });
            }
            Ok(Located::Elsewhere { .. }) => return Err("it is a key of another region".to_owned()),
            Ok(Located::Beyond) | Err(_) => {}
        }
        if key.len() > KEY_LEN_MAX {
            return Err(format!("it has more than {KEY_LEN_MAX} characters"));
        }
        let shape = self.codec.shape();
        let own = key.strip_prefix(&shape.spec().prefix).unwrap_or(key);
        match own.chars().find(|character| !shape.alphabet().symbols().contains(*character)) {
            Some(other) => Err(format!("`{other}` is not in the alphabet of the keyspace")),
            None => Ok(NewName { key: key.to_owned(), ordinal: None }),
        }
    }
}
