//! Named keys: keys that are rows rather than generated. What a store is asked about them, what it
//! answers, and the one rule that all stores apply.

use std::collections::HashMap;
use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Floor, Mark, SpaceRecord, StoreError};
use crate::space::Kind;

/// Keys that are rows rather than generated.
#[async_trait]
pub trait Names: fmt::Debug + Send + Sync {
    /// Takes keys by name, in one transaction. One whose ordinal was granted already is taken;
    /// the ordinal of any other is never granted from then on, also when the name is removed, and
    /// stays the one it was made with. A batch that was decided on other generations than the
    /// space has is [`StoreError::Outdated`].
    async fn add_names(&self, batch: &NameBatch, floor: &Floor) -> Result<Named, StoreError>;

    /// Removes a name, if it is the owner's, and returns how far the space has come and the name as it
    /// then is; `None` where there is none or it was removed before.
    async fn remove_name(
        &self,
        space: &str,
        key: &str,
        owner: &str,
        floor: &Floor,
    ) -> Result<(Mark, Option<NameRecord>), StoreError>;

    /// A name on record, also when it was removed.
    async fn named(&self, space: &str, name: &NewName) -> Result<Option<NameRecord>, StoreError>;

    /// Names of one purpose, by key.
    async fn names(&self, page: &NamePage) -> Result<Vec<NameRecord>, StoreError>;

    /// The most names of a batch.
    fn names_max(&self, purpose: NamePurpose) -> usize {
        match purpose {
            NamePurpose::Used => 10_000,
            _ => 1_000,
        }
    }

    /// How many keys of a space are names on record that were not removed (aliases, keys in use, digests), by space; of
    /// all spaces where none is given. Spaces without names may be missing.
    async fn count_names(&self, space: Option<&str>) -> Result<HashMap<String, u64>, StoreError>;
}

/// Names to take, all in one transaction.
#[derive(Debug, Clone)]
pub struct NameBatch {
    /// The name of the space.
    pub space: String,
    /// Why they are taken.
    pub purpose: NamePurpose,
    /// For whom; empty where nobody said.
    pub owner: String,
    /// The keys to take, in the order of the answer.
    pub names: Vec<NewName>,
    /// Among how many generations of the space their ordinals were looked for.
    pub generations: usize,
}

/// A name to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewName {
    /// The key in its canonical form.
    pub key: String,
    /// The ordinal that it could be generated from.
    pub ordinal: Option<u64>,
}

/// Why a key is a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamePurpose {
    /// An alias that was chosen.
    Alias,
    /// It was in use before this space was.
    Used,
    /// Somebody imported it into a pool.
    Pool,
    /// It is the digest of an input.
    Digest,
}

/// What became of a name that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// It is new.
    Made,
    /// It was the same owner's already.
    Mine,
    /// It is another's, or may have been generated.
    Taken,
}

/// What a batch came to.
#[derive(Debug, Clone)]
pub struct Named {
    /// How far the space has come.
    pub mark: Mark,
    /// One for each name, in their order.
    pub outcomes: Vec<Naming>,
}

/// A name on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameRecord {
    /// The name of the space.
    pub space: String,
    /// Its text.
    pub key: String,
    /// The ordinal that it could be generated from.
    pub ordinal: Option<u64>,
    /// Why it was taken.
    pub purpose: NamePurpose,
    /// Whom it belongs to; empty where no owner was given.
    pub owner: String,
    /// When it was taken.
    pub created_at: Timestamp,
    /// When it was removed, if it was. Its ordinal stays occupied.
    pub removed_at: Option<Timestamp>,
}

/// Which names to list.
#[derive(Debug, Clone)]
pub struct NamePage {
    /// The name of the space.
    pub space: String,
    /// Only those of this purpose. Keys in use that are kept as mere ordinals are not listed.
    pub purpose: NamePurpose,
    /// With those that were removed.
    pub removed: bool,
    /// Those after this one, as bytes.
    pub after: Option<String>,
    /// At most so many.
    pub limit: u32,
}

impl NameBatch {
    /// Refuses names whose ordinals were looked for among other generations than the space has: a
    /// name that could not be generated then may be a key now. So from a growth on, no name
    /// without an ordinal can be a key of the new generation.
    pub fn check_generations(&self, space: &SpaceRecord) -> Result<(), StoreError> {
        if self.generations == space.definition.generation_count() {
            return Ok(());
        }
        Err(StoreError::Outdated(self.space.clone()))
    }

    /// What becomes of a name: under the lock of its space, whose record this is.
    pub fn judge(&self, space: &SpaceRecord, new: &NewName, known: Option<&NameRecord>) -> Naming {
        match known {
            Some(known) if known.removed_at.is_some() => Naming::Made,
            Some(known) if known.owner == self.owner && known.purpose == self.purpose => {
                Naming::Mine
            }
            Some(_) => Naming::Taken,
            // Granted, and perhaps handed out.
            None if new.ordinal.is_some_and(|ordinal| ordinal < space.mark.next) => Naming::Taken,
            None => Naming::Made,
        }
    }

    /// Whether a name is kept as a mere ordinal. Keys in use elsewhere are, in stores with tables: there
    /// may be millions, and an ordinal tells its key. Digests are looked up by key alone.
    pub fn is_mere_ordinal(&self, space: &SpaceRecord, new: &NewName) -> bool {
        self.purpose == NamePurpose::Used
            && new.ordinal.is_some()
            && space.definition.kind != Kind::Digest
    }

    /// The record of a name that was made.
    pub fn record(&self, new: &NewName, created_at: Timestamp) -> NameRecord {
        NameRecord {
            space: self.space.clone(),
            key: new.key.clone(),
            ordinal: new.ordinal,
            purpose: self.purpose,
            owner: self.owner.clone(),
            created_at,
            removed_at: None,
        }
    }
}

impl NewName {
    /// The record of a name that is kept as a mere ordinal.
    pub fn imported(&self, space: &str, created_at: Timestamp) -> NameRecord {
        NameRecord {
            space: space.to_owned(),
            key: self.key.clone(),
            ordinal: self.ordinal,
            purpose: NamePurpose::Used,
            owner: String::new(),
            created_at,
            removed_at: None,
        }
    }
}

impl NameRecord {
    /// Whether an owner may remove it.
    pub fn is_alias_of(&self, owner: &str) -> bool {
        self.purpose == NamePurpose::Alias && self.owner == owner
    }
}

impl NamePurpose {
    /// As stores write it.
    pub fn name(self) -> &'static str {
        match self {
            NamePurpose::Alias => "alias",
            NamePurpose::Used => "used",
            NamePurpose::Pool => "pool",
            NamePurpose::Digest => "digest",
        }
    }

    /// From what [`NamePurpose::name`] wrote.
    pub fn from_name(name: &str) -> NamePurpose {
        match name {
            "used" => NamePurpose::Used,
            "pool" => NamePurpose::Pool,
            "digest" => NamePurpose::Digest,
            _ => NamePurpose::Alias,
        }
    }
}
