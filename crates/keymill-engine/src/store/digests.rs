//! Digests: keys that are made of inputs, as a store is asked for them.

use std::collections::{HashMap, HashSet};
use std::fmt;

use async_trait::async_trait;

use super::{Floor, Mark, SpaceRecord, StoreError};

/// Keys of inputs.
#[async_trait]
pub trait Digests: fmt::Debug + Send + Sync {
    /// Finds or makes the keys of inputs, all in one transaction.
    async fn digest(&self, batch: &DigestBatch, floor: &Floor) -> Result<Digested, StoreError>;
}

/// Inputs to digest.
#[derive(Debug, Clone)]
pub struct DigestBatch {
    /// The name of the space.
    pub space: String,
    /// The inputs, in the order of the answer.
    pub inputs: Vec<DigestInput>,
    /// Of how many generations of the space the last one's keys are the candidates.
    pub generations: usize,
}

/// An input to digest.
#[derive(Debug, Clone)]
pub struct DigestInput {
    /// What tells the input from every other.
    pub hash: [u8; 32],
    /// The keys to try, in this order.
    pub candidates: Vec<String>,
}

/// What became of inputs.
#[derive(Debug, Clone)]
pub struct Digested {
    /// How far the space has come.
    pub mark: Mark,
    /// For each, in their order: its key, or none where all candidates are others'.
    pub keys: Vec<Option<DigestKey>>,
}

/// The key of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestKey {
    /// Its text.
    pub key: String,
    /// Which candidate it was, if it was made just now.
    pub made: Option<usize>,
}

// Redis compares and chooses in its script.
#[cfg_attr(not(any(feature = "mysql", feature = "postgres", feature = "sqlite")), allow(dead_code))]
impl DigestBatch {
    /// Refuses candidates of an earlier generation than the space's last: after a rollback, only keys of
    /// a new length cannot have been given before.
    pub(in crate::store) fn check_generations(
        &self,
        space: &SpaceRecord,
    ) -> Result<(), StoreError> {
        if self.generations == space.definition.generation_count() {
            return Ok(());
        }
        Err(StoreError::Outdated(self.space.clone()))
    }

    /// The key of each input: the one it has, or the first of its candidates that nobody has; `None`
    /// where all are taken.
    pub(in crate::store) fn choose(
        &self,
        mut known: HashMap<Vec<u8>, String>,
        mut taken: HashSet<String>,
        sealed: bool,
    ) -> Result<Vec<Option<DigestKey>>, StoreError> {
        let mut keys = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            if let Some(key) = known.get(&input.hash[..]) {
                keys.push(Some(DigestKey { key: key.clone(), made: None }));
                continue;
            }
            if sealed {
                return Err(StoreError::Sealed(self.space.clone()));
            }
            let free = input.candidates.iter().position(|key| !taken.contains(key));
            keys.push(free.map(|number| {
                let key = input.candidates[number].clone();
                taken.insert(key.clone());
                // The same input may come twice in one batch.
                known.insert(input.hash.to_vec(), key.clone());
                DigestKey { key, made: Some(number) }
            }));
        }
        Ok(keys)
    }

    /// The inputs that were given a new key, with it.
    pub(in crate::store) fn made<'a>(
        &'a self,
        keys: &'a [Option<DigestKey>],
    ) -> impl Iterator<Item = (&'a DigestInput, &'a str)> {
        self.inputs.iter().zip(keys).filter_map(|(input, key)| {
            let key = key.as_ref().filter(|key| key.made.is_some())?;
            Some((input, key.key.as_str()))
        })
    }
}
