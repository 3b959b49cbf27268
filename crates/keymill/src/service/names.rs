//! Named keys: aliases, and keys that are in use already.
//!
//! A name that could also be generated occupies its ordinal, in the same transaction in which
//! leases are granted: whichever comes first has the key, and the other is refused.

use keymill_core::Located;

use super::{Service, ServiceError, Space};
use crate::floor::{floor_of, raise_to};
use crate::store::{NameBatch, NamePurpose, NameRecord, Naming, NewName};

/// Words that a shortener's own pages need.
const RESERVED: [&str; 20] = [
    "about",
    "admin",
    "api",
    "app",
    "assets",
    "auth",
    "docs",
    "favicon.ico",
    "health",
    "healthz",
    "help",
    "index",
    "login",
    "logout",
    "metrics",
    "readyz",
    "robots.txt",
    "settings",
    "static",
    "www",
];

/// What an alias may look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasRules {
    /// The longest, in characters.
    pub length_max: usize,
    /// Words that nobody may have, besides those that are always reserved.
    pub reserved: Vec<String>,
}

/// What became of keys that are in use already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// Taken out of what is handed out.
    pub made: u64,
    /// Imported before.
    pub known: u64,
    /// Which keys could not be, by their place among those given, and why.
    pub refused: Vec<(usize, String)>,
    /// Which keys are the same as an earlier one, and as which.
    pub repeated: Vec<(usize, usize)>,
}

impl Service {
    /// Takes a key by name for an owner; whether it is new to them.
    pub async fn add_alias(
        &self,
        name: &str,
        alias: &str,
        owner: &str,
    ) -> Result<bool, ServiceError> {
        let space = self.space(name).await?;
        self.check_alias(&space, alias)?;
        let new = located(&space, alias).map_err(|problem| bad(alias, problem))?;
        let outcomes = self.add_names(name, NamePurpose::Alias, owner, vec![new]).await?;
        match outcomes.first() {
            Some(Naming::Made) => Ok(true),
            Some(Naming::Mine) => Ok(false),
            _ => Err(taken(name, alias)),
        }
    }

    /// Removes an alias of an owner. Its key is not handed out all the same.
    pub async fn remove_alias(
        &self,
        name: &str,
        alias: &str,
        owner: &str,
    ) -> Result<(), ServiceError> {
        let space = self.space(name).await?;
        let unknown =
            || ServiceError::UnknownAlias { space: name.to_owned(), alias: alias.to_owned() };
        let key = located(&space, alias).map_err(|_| unknown())?.key;
        let floor = floor_of(&self.inner.floors, name).await?;
        let removed = self.inner.store.remove_name(name, &key, owner, &floor).await?;
        match removed {
            None => Err(unknown()),
            Some(known) if known.purpose != NamePurpose::Alias => Err(unknown()),
            Some(NameRecord { removed_at: None, .. }) => Err(taken(name, alias)),
            Some(_) => Ok(()),
        }
    }

    /// Takes keys that are in use elsewhere out of what is handed out.
    pub async fn import_used(&self, name: &str, keys: &[String]) -> Result<Imported, ServiceError> {
        let space = self.space(name).await?;
        let mut imported = Imported::default();
        let mut names = Vec::new();
        for (place, key) in keys.iter().enumerate() {
            let problem = match space.codec.ordinal(key.as_bytes()) {
                Ok(Located::Ordinal(ordinal)) => {
                    let key = space.codec.key(ordinal).as_str().to_owned();
                    names.push((place, NewName { key, ordinal: Some(ordinal) }));
                    continue;
                }
                // What can never be handed out need not be kept from it.
                Ok(Located::Elsewhere { .. }) => "it is a key of another region".to_owned(),
                Ok(Located::Beyond) => "it is beyond the capacity of the keyspace".to_owned(),
                Err(error) => error.to_string(),
            };
            imported.refused.push((place, problem));
        }
        self.import(&space, NamePurpose::Used, names, &mut imported).await?;
        Ok(imported)
    }

    /// The name on record for a key, where there is one.
    pub(super) async fn name_of(
        &self,
        space: &Space,
        key: &str,
    ) -> Result<Option<NameRecord>, ServiceError> {
        let Ok(new) = located(space, key) else { return Ok(None) };
        Ok(self.inner.store.named(&space.name, &new.key).await?)
    }

    pub(super) async fn add_names(
        &self,
        space: &str,
        purpose: NamePurpose,
        owner: &str,
        names: Vec<NewName>,
    ) -> Result<Vec<Naming>, ServiceError> {
        let floor = floor_of(&self.inner.floors, space).await?;
        let (space, owner) = (space.to_owned(), owner.to_owned());
        let batch = NameBatch { space, purpose, owner, names, floor };
        let named = self.inner.store.add_names(&batch).await?;
        raise_to(&self.inner.floors, &batch.space, named.mark).await?;
        Ok(named.outcomes)
    }

    fn check_alias(&self, space: &Space, alias: &str) -> Result<(), ServiceError> {
        let rules = &self.inner.alias_rules;
        let fits =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
        let is_reserved = |word: &str| word.eq_ignore_ascii_case(alias);
        let problem = if alias.is_empty() || alias.len() > rules.length_max {
            format!("it must have 1 to {} characters", rules.length_max)
        } else if !alias.bytes().all(fits) || [".", ".."].contains(&alias) {
            "letters, digits, `-`, `_`, `.` and `~` are allowed".to_owned()
        } else if RESERVED.into_iter().any(is_reserved)
            || rules.reserved.iter().any(|word| is_reserved(word))
        {
            "it is reserved".to_owned()
        } else if space.blocks(alias.as_bytes()) {
            "the blocklist matches it".to_owned()
        } else {
            return Ok(());
        };
        Err(bad(alias, problem))
    }
}

impl Default for AliasRules {
    fn default() -> AliasRules {
        AliasRules { length_max: 16, reserved: Vec::new() }
    }
}

/// A name as the store keeps it: where it could be generated too, in the form in which it would be.
fn located(space: &Space, key: &str) -> Result<NewName, String> {
    match space.codec.ordinal(key.as_bytes()) {
        Ok(Located::Ordinal(ordinal)) => {
            let key = space.codec.key(ordinal).as_str().to_owned();
            Ok(NewName { key, ordinal: Some(ordinal) })
        }
        Ok(Located::Elsewhere { .. }) => Err("it is a key of another region".to_owned()),
        Ok(Located::Beyond) | Err(_) => Ok(NewName { key: key.to_owned(), ordinal: None }),
    }
}

fn bad(alias: &str, problem: String) -> ServiceError {
    ServiceError::BadAlias { alias: alias.to_owned(), problem }
}

fn taken(space: &str, key: &str) -> ServiceError {
    ServiceError::Taken { space: space.to_owned(), key: key.to_owned() }
}
