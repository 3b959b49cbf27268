//! Pools: keys that are written out in advance, and keys that the user imports.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use keymill_core::Located;

use super::input::check_space;
use super::source::Source;
use super::{Imported, Service, ServiceError, Space};
use crate::space::Kind;
use crate::store::{
    AvailablePage, Claimed, Fill, Found, KeyRows, NamePurpose, Naming, NewName, Retire, StoreError,
    WriteKeys,
};
use crate::supply::claims::{FRUITLESS_FILLS_MAX, PoolSupply};

/// How often a fill finds the keyspace changed, before it gives up.
const OUTDATED_MAX: u32 = 5;
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
        let pools = &self.key_rows(name)?.pools;
        let inner = &self.inner;
        let mut left = match filling {
            Filling::Add(count) => count,
            Filling::UpTo(wanted) => wanted.saturating_sub(pools.available(name).await?),
        };
        let (mut added, mut outdated, mut fruitless) = (0, 0, 0);
        while left > 0 {
            let (capacity, era) = inner.fence.reach_all(&space.codec).await?;
            let fill = Fill {
                space: name.to_owned(),
                instance: self.instance().clone(),
                size: left.min(pools.fill_max()),
                enough: match filling {
                    Filling::Add(_) => None,
                    Filling::UpTo(wanted) => Some(wanted),
                },
                write: space.writer(),
                capacity,
                era,
            };
            let filled = match inner.fence.fill(&fill).await {
                // Grown or advanced just now: looked at again.
                Err(StoreError::Outdated(_)) if outdated < OUTDATED_MAX => {
                    outdated += 1;
                    continue;
                }
                Err(StoreError::Exhausted { .. }) if added > 0 => break,
                filled => filled?,
            };
            added += filled.added;
            fruitless = if filled.added == 0 { fruitless + 1 } else { 0 };
            if fruitless >= FRUITLESS_FILLS_MAX && left > 0 {
                return Err(ServiceError::NoKeysReady {
                    space: name.to_owned(),
                    reason: format!(
                        "{fruitless} fills in a row made no key, because the blocklist matches them \
                         all; run the same command again to go on, or switch the blocklist off"
                    ),
                    cause: None,
                });
            }
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
        self.import(&space, NamePurpose::Pool, keys, &mut imported).await?;
        Ok(imported)
    }

    /// Available keys of a pool, page by page. They are in the store as they are, so nobody needs the secret
    /// to read them.
    pub async fn available_keys(&self, page: &AvailablePage) -> Result<Vec<Claimed>, ServiceError> {
        check_space(&page.space)?;
        let record = self.store().spaces.space(&page.space).await?;
        if record.definition.kind != Kind::Pooled {
            return Err(no_pool(&page.space));
        }
        Ok(self.key_rows(&page.space)?.pools.available_page(page).await?)
    }

    /// The rows of keys, which not every store keeps.
    pub(super) fn key_rows(&self, space: &str) -> Result<&KeyRows, ServiceError> {
        let rows = self.store().rows_of(space);
        rows.map_err(|error| ServiceError::WrongKind(error.to_string()))
    }

    /// What the supply task of a space claims from, if it has a pool.
    pub(super) fn pool_of(&self, space: &Space) -> Option<PoolSupply> {
        let Source::Claimed { claimed, .. } = &space.source else { return None };
        Some(PoolSupply {
            space: space.name.clone(),
            fence: self.inner.fence.clone(),
            claimed: claimed.clone(),
            codec: space.codec.clone(),
            write: space.writer(),
            after: AtomicI64::new(i64::MIN),
            last: Mutex::default(),
            clock: self.inner.clock.clone(),
        })
    }

    /// Refuses a space that has no pool.
    pub async fn check_pool(&self, name: &str) -> Result<(), ServiceError> {
        self.pool_space(name).await.map(drop)
    }

    async fn pool_space(&self, name: &str) -> Result<Arc<Space>, ServiceError> {
        let space = self.space(name).await?;
        match space.source {
            Source::Claimed { .. } => Ok(space),
            _ => Err(no_pool(name)),
        }
    }

    /// Takes names, a batch to a transaction, and counts what became of them.
    pub(super) async fn import(
        &self,
        space: &Space,
        purpose: NamePurpose,
        keys: &[String],
        imported: &mut Imported,
    ) -> Result<(), ServiceError> {
        // In the order in which they are kept, so that neighbours are written together; of equal
        // ones the first counts.
        let generations = space.generations_now();
        let ordinal = |key: &str| match generations.ordinal(key.as_bytes()) {
            Ok(Located::Ordinal(ordinal)) if purpose == NamePurpose::Used => Some(ordinal),
            _ => None,
        };
        let mut order: Vec<(Option<u64>, usize)> =
            keys.iter().enumerate().map(|(index, key)| (ordinal(key), index)).collect();
        order.sort_unstable_by(|(a_ordinal, a), (b_ordinal, b)| {
            (a_ordinal, &keys[*a], a).cmp(&(b_ordinal, &keys[*b], b))
        });
        let mut indexes: Vec<usize> = order.into_iter().map(|(_, index)| index).collect();
        let mut first = None;
        indexes.retain(|&index| match first {
            Some(first) if keys[first] == keys[index] => {
                imported.repeated.push((index, first));
                false
            }
            _ => {
                first = Some(index);
                true
            }
        });
        for batch in indexes.chunks(self.store().names.names_max(purpose)) {
            let new: Vec<&str> = batch.iter().map(|index| keys[*index].as_str()).collect();
            let outcomes = self.add_names(space, purpose, "", &new).await?;
            for (&index, outcome) in batch.iter().zip(outcomes) {
                let may_be_in_pool = matches!(outcome, Ok(Naming::Taken) | Err(_));
                let outcome = match purpose {
                    NamePurpose::Used if may_be_in_pool => {
                        self.take_out(space, &keys[index]).await?.map_or(outcome, Ok)
                    }
                    _ => outcome,
                };
                match outcome {
                    Ok(Naming::Made) => imported.made += 1,
                    Ok(Naming::Mine) => imported.known += 1,
                    Ok(Naming::Taken) => {
                        let reason = "already issued, or owned by someone else";
                        imported.refused.push((index, reason.to_owned()));
                    }
                    Err(problem) => imported.refused.push((index, problem)),
                }
            }
        }
        imported.refused.sort_unstable();
        imported.repeated.sort_unstable();
        Ok(())
    }

    /// Takes a key that is in use elsewhere out of the pool, where it would be handed out; `None` if it is not there.
    async fn take_out(&self, space: &Space, key: &str) -> Result<Option<Naming>, ServiceError> {
        if !matches!(space.source, Source::Claimed { .. }) {
            return Ok(None);
        }
        let (key, _) = self.on_record(space, key).await?;
        let (used_at, instance) = (Timestamp::now(), self.instance().id.clone());
        match self.found(space, &key).await? {
            Some(Found::Used(used)) => Ok(used.ended_at(used_at).map(|_| Naming::Mine)),
            Some(Found::Available | Found::Reserved { .. }) => {
                let Some(at) = self.key_ref(space, &key).await? else { return Ok(None) };
                let retired = self.inner.fence.retire(&Retire { at, used_at, instance }).await?;
                // Otherwise it was claimed meanwhile, and may be handed out.
                let is_ours = retired.instance == self.instance().id
                    && retired.used_at.as_millisecond() == used_at.as_millisecond();
                Ok(is_ours.then_some(Naming::Made))
            }
            None => Ok(None),
        }
    }
}

impl Space {
    /// Writes the keys of ordinals into the pool, without skipped and blocked ones.
    pub(super) fn writer(&self) -> WriteKeys {
        let (codec, blocklist) = (self.codec.clone(), self.blocklist.clone());
        Arc::new(move |ordinals, each| {
            codec.with_rules(&blocklist, |rules| {
                rules.keys(ordinals, |ordinal, key| each(ordinal, text(key)));
            });
        })
    }

    /// A key of the user's own that cannot be generated, if it can be one of this pool.
    pub(super) fn own_key(&self, key: &str) -> Result<NewName, String> {
        if key.len() > KEY_LEN_MAX {
            return Err(format!("it has more than {KEY_LEN_MAX} characters"));
        }
        let generations = self.generations();
        let shape = generations.shape();
        let own = key.strip_prefix(&shape.spec().prefix).unwrap_or(key);
        let is_other =
            |(_, character): &(usize, char)| !shape.alphabet().symbols().contains(*character);
        match own.char_indices().find(is_other) {
            Some((at, other)) => {
                let (at, other) = (key.len() - own.len() + at + 1, other.escape_debug());
                Err(format!("`{other}` at position {at} is not in the alphabet of the keyspace"))
            }
            None => Ok(NewName { key: key.to_owned(), ordinal: None }),
        }
    }
}

/// The refusal of a space that has no pool.
pub(super) fn no_pool(space: &str) -> ServiceError {
    ServiceError::WrongKind(format!("`{space}` has no pool: its kind is not `pooled`"))
}

/// A key as text.
pub(super) fn text(key: &[u8]) -> &str {
    std::str::from_utf8(key).expect("keys are ASCII")
}
