//! Digests: the same input has the same key, from any instance at any time.

use std::sync::Arc;

use super::together::Together;
use super::{Service, ServiceError, Space};
use crate::digest::Digester;
use crate::floor::{Floors, floor_of, raise_to};
use crate::space::Kind;
use crate::store::keys::{DigestBatch, DigestInput, DigestKey};
use crate::store::{SpaceRecord, Store, StoreError};

/// How many keys are tried for an input, before the space counts as full.
const TRIES_MAX: u8 = 128;
/// How many of them the store is offered at once. Rarely is more than one needed.
const TRIES_AT_ONCE: usize = 8;
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
#[derive(Debug)]
pub(super) struct Digests {
    digester: Digester,
    together: Together<DigestInput, Option<DigestKey>>,
}

impl Service {
    /// The key of an input, within a scope.
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
        let prepared = digests.digester.prepare(scope, input)?;
        let hash = *prepared.input_hash().as_bytes();
        let mut attempts = 0..TRIES_MAX;
        while !attempts.is_empty() {
            let (mut candidates, mut tries) = (Vec::new(), Vec::new());
            for attempt in attempts.by_ref() {
                let key = prepared.candidate(attempt);
                if !space.blocks(&key) {
                    candidates.push(key.as_str().to_owned());
                    tries.push(attempt + 1);
                }
                if candidates.len() == TRIES_AT_ONCE {
                    break;
                }
            }
            if let Some(found) = digests.together.ask(DigestInput { hash, candidates }).await? {
                let tries = found.made.map_or(0, |number| tries[number]);
                return Ok(DigestAnswer { key: found.key, made: found.made.is_some(), tries });
            }
        }
        Err(ServiceError::Exhausted { space: name.to_owned(), held_elsewhere: 0 })
    }

    /// What makes digests, for a space of that kind.
    pub(super) fn digests_of(&self, record: &SpaceRecord) -> Result<Option<Digests>, ServiceError> {
        let inner = &self.inner;
        if record.definition.kind != Kind::Digest {
            return Ok(None);
        }
        let shape = record.definition.shape().map_err(crate::space::DefinitionError::from)?;
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
        let together = Together::start(&inner.runtime, INPUTS_MAX, |_| 1, commit);
        let digester = Digester::new(*key, shape, record.definition.normalize);
        Ok(Some(Digests { digester, together }))
    }
}

impl Space {
    /// Whether its keys are made of inputs.
    pub(super) fn is_digest(&self) -> bool {
        self.digests.is_some()
    }
}

/// What a commit needs.
struct Writer {
    space: String,
    store: Arc<dyn Store>,
    floors: Arc<Floors>,
}

impl Writer {
    async fn write(&self, inputs: Vec<DigestInput>) -> Result<Vec<Option<DigestKey>>, StoreError> {
        let keys = self.store.keys().ok_or_else(|| StoreError::no_keys(&self.space))?;
        let floor = floor_of(&self.floors, &self.space).await?;
        let batch = DigestBatch { space: self.space.clone(), inputs, floor };
        let digested = keys.digest(&batch).await?;
        raise_to(&self.floors, &self.space, digested.mark).await?;
        Ok(digested.keys)
    }
}
