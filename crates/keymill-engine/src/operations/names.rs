//! Named keys: aliases, and keys that are in use already.
//!
//! A name that could also be generated occupies its ordinal, in the same transaction in which
//! leases are granted: whichever comes first has the key, and the other is refused.

use keymill_core::{Generations, Located};

use super::input::{check_after, check_key, check_owner, shown};
use super::source::Source;
use super::{Service, ServiceError, Space};
use crate::store::{NameBatch, NamePage, NamePurpose, NameRecord, Naming, NewName, StoreError};

/// How often names are located, where the space grows again and again.
const LOCATE_MAX: usize = 3;

/// Words that a shortener's own pages need.
const RESERVED: [&str; 23] = [
    ".well-known",
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
    "index.html",
    "login",
    "logout",
    "metrics",
    "readyz",
    "robots.txt",
    "settings",
    "sitemap.xml",
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
    /// Which keys could not be, by their index among those given, and why.
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
        check_owner(owner)?;
        let space = self.space(name).await?;
        self.check_alias(&space, alias)?;
        let outcomes = self.add_names(&space, NamePurpose::Alias, owner, &[alias]).await?;
        match outcomes.into_iter().next() {
            Some(Ok(Naming::Made)) => Ok(true),
            Some(Ok(Naming::Mine)) => Ok(false),
            Some(Err(problem)) => Err(bad(alias, problem)),
            _ => Err(taken(name, alias, false)),
        }
    }

    /// Removes an alias of an owner. Its key stays reserved and is never handed out.
    pub async fn remove_alias(
        &self,
        name: &str,
        alias: &str,
        owner: &str,
    ) -> Result<(), ServiceError> {
        check_owner(owner)?;
        let space = self.space(name).await?;
        let unknown = || unknown_alias(name, alias);
        check_key(alias).map_err(|_| unknown())?;
        self.check_not_exported(name).await?;
        let (key, _) = self.on_record(&space, alias).await?;
        match self.inner.fence.remove_name(name, &key, owner).await? {
            None => Err(unknown()),
            Some(known) if known.purpose != NamePurpose::Alias => Err(unknown()),
            Some(NameRecord { removed_at: None, .. }) => Err(taken(name, alias, true)),
            Some(_) => Ok(()),
        }
    }

    /// An alias on record. It can be looked up without the secret of the space.
    pub async fn alias(&self, name: &str, alias: &str) -> Result<NameRecord, ServiceError> {
        let space = match self.space(name).await {
            Ok(space) => Some(space),
            Err(ServiceError::SecretMissing { .. } | ServiceError::WrongSecret { .. }) => None,
            Err(error) => return Err(error),
        };
        check_key(alias).map_err(|_| unknown_alias(name, alias))?;
        let found = match space {
            Some(space) => self.name_of(&space, alias).await?,
            None => self.name_by_spelling(name, alias).await?,
        };
        let is_alias =
            |it: &NameRecord| it.purpose == NamePurpose::Alias && it.removed_at.is_none();
        found.filter(is_alias).ok_or_else(|| unknown_alias(name, alias))
    }

    /// Aliases by name, as bytes, after a given one.
    pub async fn aliases(
        &self,
        name: &str,
        after: Option<String>,
        limit: u32,
    ) -> Result<Vec<NameRecord>, ServiceError> {
        check_after(after.as_deref())?;
        self.check_exists(name).await?;
        let purpose = NamePurpose::Alias;
        let page = NamePage { space: name.to_owned(), purpose, removed: false, after, limit };
        Ok(self.store().names.names(&page).await?)
    }

    /// The longest alias, in characters.
    pub fn alias_length_max(&self) -> usize {
        self.inner.alias_rules.load().length_max
    }

    /// Takes keys that are in use elsewhere out of what is handed out.
    pub async fn import_used(&self, name: &str, keys: &[String]) -> Result<Imported, ServiceError> {
        let space = self.space(name).await?;
        let mut imported = Imported::default();
        self.import(&space, NamePurpose::Used, keys, &mut imported).await?;
        Ok(imported)
    }

    /// The name on record for a key, where there is one, with its ordinal also where that became
    /// known later.
    pub(super) async fn name_of(
        &self,
        space: &Space,
        key: &str,
    ) -> Result<Option<NameRecord>, ServiceError> {
        let (key, ordinal) = self.on_record(space, key).await?;
        let known = self.store().names.named(&space.name, &NewName { key, ordinal }).await?;
        Ok(known.map(|known| NameRecord { ordinal: known.ordinal.or(ordinal), ..known }))
    }

    /// The same without the secret: as it was typed, or in the spelling in which it would be handed out.
    async fn name_by_spelling(
        &self,
        space: &str,
        key: &str,
    ) -> Result<Option<NameRecord>, ServiceError> {
        let definition = self.store().spaces.space(space).await?.definition;
        for key in std::iter::once(key.to_owned()).chain(definition.canonical(key)) {
            let name = NewName { key, ordinal: None };
            if let Some(known) = self.store().names.named(space, &name).await? {
                return Ok(Some(known));
            }
        }
        Ok(None)
    }

    /// Has the store take keys by name; what became of each, or why it cannot be a name. Where the
    /// space has grown meanwhile they are located again, because only among all generations is it
    /// certain what cannot be generated.
    pub(super) async fn add_names(
        &self,
        space: &Space,
        purpose: NamePurpose,
        owner: &str,
        keys: &[&str],
    ) -> Result<Vec<Result<Naming, String>>, ServiceError> {
        for _ in 0..LOCATE_MAX {
            let generations = space.generations_now();
            let mut located = Vec::with_capacity(keys.len());
            for key in keys {
                located.push(self.located(space, &generations, purpose, key).await?);
            }
            let batch = NameBatch {
                space: space.name.clone(),
                purpose,
                owner: owner.to_owned(),
                names: located.iter().flatten().cloned().collect(),
                generations: generations.count(),
            };
            let named = match self.inner.fence.add_names(&batch).await {
                Err(StoreError::Outdated(_)) => {
                    let record = self.store().spaces.space(&space.name).await?;
                    space.codec.follow(&record.definition)?;
                    continue;
                }
                named => named?,
            };
            let mut outcomes = named.outcomes.into_iter();
            let outcome =
                |it: Result<NewName, String>| it.map(|_| outcomes.next().unwrap_or(Naming::Taken));
            return Ok(located.into_iter().map(outcome).collect());
        }
        Err(StoreError::Outdated(space.name.clone()).into())
    }

    /// A name as the store is to take it, or why it cannot be one.
    async fn located(
        &self,
        space: &Space,
        generations: &Generations,
        purpose: NamePurpose,
        key: &str,
    ) -> Result<Result<NewName, String>, ServiceError> {
        if !space.record().definition.kind.counts() {
            return Ok(space.located_beside(generations, purpose, key));
        }
        let problem = match generations.ordinal(key.as_bytes()) {
            Ok(Located::Ordinal(ordinal)) => {
                return Ok(Ok(self.spelt(space, generations, ordinal, key).await?));
            }
            Ok(Located::Elsewhere { .. }) => "it is a key of another region".to_owned(),
            // Of a length that the space may grow to.
            Err(_) if matches!(space.located_later(key), Some(Located::Elsewhere { .. })) => {
                "it will be a key of another region once the keyspace grows".to_owned()
            }
            Err(_)
                if purpose == NamePurpose::Used
                    && matches!(space.located_later(key), Some(Located::Ordinal(_))) =>
            {
                return Ok(Ok(NewName { key: key.to_owned(), ordinal: None }));
            }
            _ if purpose == NamePurpose::Pool => return Ok(space.own_key(key)),
            // A name need not be a key; but what cannot be handed out need not be kept from it.
            _ if purpose == NamePurpose::Alias => {
                return Ok(Ok(NewName { key: key.to_owned(), ordinal: None }));
            }
            Ok(Located::Beyond) => "it is beyond the capacity of the keyspace".to_owned(),
            Err(error) => error.to_string(),
        };
        Ok(Err(problem))
    }

    /// The spelling under which a key would be on record as a name, and its ordinal.
    pub(super) async fn on_record(
        &self,
        space: &Space,
        key: &str,
    ) -> Result<(String, Option<u64>), ServiceError> {
        let generations = space.generations_now();
        match generations.ordinal(key.as_bytes()) {
            Ok(Located::Ordinal(ordinal)) => {
                Ok((self.spelt(space, &generations, ordinal, key).await?.key, Some(ordinal)))
            }
            // Perhaps one that was taken before its generation was there.
            _ => Ok((key.to_owned(), None)),
        }
    }

    /// The name that has an ordinal: in the spelling in which it would be handed out, so that there
    /// is one a key; but where it was taken before its generation was there, as it was typed then.
    /// Such a name stays on record as it is, without its ordinal, which makes it an early name to
    /// every instance for good.
    async fn spelt(
        &self,
        space: &Space,
        generations: &Generations,
        ordinal: u64,
        asked: &str,
    ) -> Result<NewName, ServiceError> {
        let reached = space.record().mark;
        self.inner.fence.reach(&space.codec, ordinal + 1, reached).await?;
        Ok(match space.codec.early_name(ordinal, asked) {
            Some(key) => NewName { key, ordinal: Some(ordinal) },
            None => {
                let key = generations.key(ordinal).as_str().to_owned();
                NewName { key, ordinal: Some(ordinal) }
            }
        })
    }

    fn check_alias(&self, space: &Space, alias: &str) -> Result<(), ServiceError> {
        let rules = self.inner.alias_rules.load();
        let is_reserved = |word: &str| word.eq_ignore_ascii_case(alias);
        check_alias_text(alias)?;
        let problem = if alias.len() > rules.length_max {
            format!("it must have 1 to {} characters", rules.length_max)
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

/// Refuses what cannot be an alias under any rules.
pub fn check_alias_text(alias: &str) -> Result<(), ServiceError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    if alias.is_empty() {
        return Err(bad(alias, "it is empty".to_owned()));
    }
    if !alias.bytes().all(fits) || [".", ".."].contains(&alias) {
        let problem = "letters, digits, `-`, `_`, `.` and `~` are allowed";
        return Err(bad(alias, problem.to_owned()));
    }
    Ok(())
}

impl Space {
    /// A name in a space that does not count its keys, so that none can be passed over: it must be
    /// one that is never handed out.
    fn located_beside(
        &self,
        generations: &Generations,
        purpose: NamePurpose,
        key: &str,
    ) -> Result<NewName, String> {
        let could_be_made = match self.source {
            Source::Uuids(_) => uuid::Uuid::try_parse(key).is_ok(),
            _ => generations.ordinal(key.as_bytes()).is_ok(),
        };
        if could_be_made {
            return Err(
                "it could be generated, and keys of this kind cannot be reserved".to_owned()
            );
        }
        if purpose != NamePurpose::Alias {
            return Err("it cannot be a key of this keyspace".to_owned());
        }
        Ok(NewName { key: key.to_owned(), ordinal: None })
    }
}

impl Default for AliasRules {
    fn default() -> AliasRules {
        AliasRules { length_max: 16, reserved: Vec::new() }
    }
}

fn bad(alias: &str, problem: String) -> ServiceError {
    ServiceError::BadAlias { alias: shown(alias), problem }
}

fn unknown_alias(space: &str, alias: &str) -> ServiceError {
    ServiceError::UnknownAlias { space: space.to_owned(), alias: shown(alias) }
}

fn taken(space: &str, key: &str, others_alias: bool) -> ServiceError {
    ServiceError::Taken { space: space.to_owned(), key: key.to_owned(), others_alias }
}
