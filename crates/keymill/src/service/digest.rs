//! Digests: the same input has the same key, from any instance at any time.

use std::sync::Arc;

use arc_swap::ArcSwap;
use keymill_core::Located;
use zeroize::Zeroizing;

use super::{Service, ServiceError, Space};
use crate::digest::Digester;
use crate::fence::make_sure_or_burn;
use crate::floor::{Floors, floor_of};
use crate::group_commit::GroupCommit;
use crate::space::{Definition, DefinitionError, Kind};
use crate::store::keys::{DigestBatch, DigestInput, DigestKey};
use crate::store::{Confirm, Evidence, SpaceRecord, Store, StoreError};

/// How many keys are tried for an input, before the space counts as full.
const TRIES_MAX: u8 = 128;
/// How many of them the store is offered at once. Rarely is more than one needed.
const TRIES_AT_ONCE: usize = 8;
/// How often keys are chosen anew, where the space grows again and again.
const OUTDATED_MAX: usize = 3;
/// The most inputs of one commit.
const INPUTS_MAX: usize = 1_000;

/// The key of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestAnswer {
    /// The key.
    pub key: String,
    /// Whether the input is new.
    pub made: bool,
    /// How many keys were tried for it, where it is new.
    pub tries: u8,
}

/// What makes the digests of one space.
pub(super) struct Digests {
    key: Zeroizing<[u8; 32]>,
    /// Of the last generation that this instance has met: new inputs get keys of its length.
    last: ArcSwap<LastDigester>,
    group: GroupCommit<Asked, Option<DigestKey>>,
}

/// How inputs become keys of a generation, and how many generations there were.
#[derive(Debug)]
struct LastDigester {
    digester: Digester,
    generations: usize,
}

/// An input to commit, with the number of generations that its candidates were chosen by.
type Asked = (DigestInput, usize);

impl Service {
    /// The key of an input, within a scope. Where the space has grown meanwhile, keys are chosen again:
    /// what is new gets the length of the last generation.
    pub async fn digest(
        &self,
        name: &str,
        scope: &str,
        input: &str,
    ) -> Result<DigestAnswer, ServiceError> {
        let space = self.space(name).await?;
        let digests = space.digests.as_ref().ok_or_else(|| {
            ServiceError::WrongKind(format!("`{name}` makes no digests: its kind is not `digest`"))
        })?;
        for _ in 0..OUTDATED_MAX {
            let last = digests.last_of(&space)?;
            // Names that are older than their generation may be spelt otherwise than a candidate is.
            let (capacity, reached) = (space.keys.capacity(), space.record().mark);
            space.keys.reach(&*self.inner.store, capacity, reached).await?;
            match digests.find(&space, &last, scope, input).await? {
                Some(found) => return Ok(found),
                None => space.keys.follow(&self.inner.store.space(name).await?)?,
            }
        }
        Err(StoreError::Outdated(name.to_owned()).into())
    }

    /// What makes digests, for a space of that kind.
    pub(super) fn digests_of(&self, record: &SpaceRecord) -> Result<Option<Digests>, ServiceError> {
        let inner = &self.inner;
        if record.definition.kind != Kind::Digest {
            return Ok(None);
        }
        let key = inner.master.digest_key(&record.name);
        let writer = Arc::new(Writer {
            space: record.name.clone(),
            store: inner.store.clone(),
            floors: inner.floors.clone(),
        });
        let commit = move |inputs| {
            let writer = writer.clone();
            async move { writer.write(inputs).await }
        };
        let group = GroupCommit::start(&inner.runtime, INPUTS_MAX, |_| 1, commit);
        let last = ArcSwap::from_pointee(last_digester(&key, &record.definition)?);
        Ok(Some(Digests { key, last, group }))
    }
}

fn last_digester(
    key: &Zeroizing<[u8; 32]>,
    definition: &Definition,
) -> Result<LastDigester, DefinitionError> {
    let shape = definition.shape_last()?;
    let digester = Digester::new(**key, shape, definition.normalize);
    Ok(LastDigester { digester, generations: definition.generations() })
}

impl Digests {
    /// How inputs become keys of the last generation.
    fn last_of(&self, space: &Space) -> Result<Arc<LastDigester>, DefinitionError> {
        let known = self.last.load_full();
        let grown = space.keys.grown();
        if known.generations == 1 + grown.len() {
            return Ok(known);
        }
        let definition = Definition { grown, ..space.record().definition.clone() };
        self.last.store(Arc::new(last_digester(&self.key, &definition)?));
        Ok(self.last.load_full())
    }

    /// The key of an input; `None` where the space has grown meanwhile.
    async fn find(
        &self,
        space: &Space,
        last: &LastDigester,
        scope: &str,
        input: &str,
    ) -> Result<Option<DigestAnswer>, ServiceError> {
        let prepared = last.digester.prepare(scope, input)?;
        let hash = *prepared.input_hash().as_bytes();
        let mut attempts = 0..TRIES_MAX;
        while !attempts.is_empty() {
            let (mut candidates, mut tries) = (Vec::new(), Vec::new());
            for attempt in attempts.by_ref() {
                let key = prepared.candidate(attempt);
                if !space.blocks(&key) && !space.has_early_name(&key) {
                    candidates.push(key.as_str().to_owned());
                    tries.push(attempt + 1);
                }
                if candidates.len() == TRIES_AT_ONCE {
                    break;
                }
            }
            let asked = (DigestInput { hash, candidates }, last.generations);
            let found = match self.group.ask(asked).await {
                Err(StoreError::Outdated(_)) => return Ok(None),
                found => found?,
            };
            if let Some(found) = found {
                let tries = found.made.map_or(0, |number| tries[number]);
                let made = found.made.is_some();
                return Ok(Some(DigestAnswer { key: found.key, made, tries }));
            }
        }
        Err(ServiceError::Exhausted { space: space.name.clone(), held_elsewhere: 0 })
    }
}

impl std::fmt::Debug for Digests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Digests({:?})", self.last.load())
    }
}

impl Space {
    /// Whether its keys are made of inputs.
    pub(super) fn is_digest(&self) -> bool {
        self.digests.is_some()
    }

    /// Whether a name that is older than its generation occupies a key.
    fn has_early_name(&self, key: &[u8]) -> bool {
        match self.codec().ordinal(key) {
            Ok(Located::Ordinal(ordinal)) => self.keys.skips().contains(ordinal),
            _ => false,
        }
    }
}

/// What a commit needs.
struct Writer {
    space: String,
    store: Arc<dyn Store>,
    floors: Arc<Floors>,
}

impl Writer {
    async fn write(&self, asked: Vec<Asked>) -> Result<Vec<Option<DigestKey>>, StoreError> {
        // Where some were chosen by fewer generations, all are chosen again.
        let generations = asked.iter().map(|(_, generations)| *generations).min().unwrap_or(1);
        let inputs = asked.into_iter().map(|(input, _)| input).collect();
        let keys = self.store.keys().ok_or_else(|| StoreError::no_keys(&self.space))?;
        let floor = floor_of(&self.floors, &self.space).await?;
        let batch = DigestBatch { space: self.space.clone(), inputs, generations, floor };
        let digested = keys.digest(&batch).await?;
        // An input that has its key already was found in a store that is not below the floor.
        let made = batch.inputs.iter().zip(&digested.keys).find_map(|(input, key)| {
            let key = key.as_ref().filter(|key| key.made.is_some())?;
            Some(Evidence::Digest { hash: input.hash, key: key.key.clone() })
        });
        let change = Confirm {
            space: self.space.clone(),
            reached: digested.mark,
            evidence: made.unwrap_or(Evidence::Mark),
            skips_in: 0..0,
        };
        make_sure_or_burn(&*self.store, &self.floors, &change).await?;
        Ok(digested.keys)
    }
}
