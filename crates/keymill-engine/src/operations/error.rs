//! What can go wrong in the service, and what of it comes from a store or a mill.

use std::sync::Arc;

use super::input::shown;
use crate::fence::{FenceError, OtherStore};
use crate::source::outlook::NotReady;
use crate::space::codec::GrowthError;
use crate::space::digest::DigestError;
use crate::space::{DefinitionError, Difference, RolledBack};
use crate::store::StoreError;

/// What can go wrong in the service, as far as a caller can act on it.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// No space has this name.
    #[error("there is no keyspace `{0}`")]
    UnknownSpace(String),
    /// The count is not one that can be asked for.
    #[error("count must be a whole number from 1 to {max}")]
    BadCount {
        /// The most that can be asked for.
        max: u32,
    },
    /// The name of a caller cannot be one.
    #[error("caller must have at most {max} bytes, and no control characters")]
    BadCaller {
        /// The longest, in bytes.
        max: usize,
    },
    /// The owner of a name cannot be one.
    #[error("owner must have at most {max} bytes, and no control characters")]
    BadOwner {
        /// The longest, in bytes.
        max: usize,
    },
    /// What a page should begin after is not something that a page can end with.
    #[error("`after` must be the `next` value of a page")]
    BadAfter,
    /// The input cannot be digested.
    #[error(transparent)]
    BadInput(#[from] DigestError),
    /// One of several inputs cannot be digested.
    #[error("inputs[{index}]: {problem}")]
    BadInputs {
        /// Its index among them, from 0.
        index: usize,
        /// What is wrong with it.
        problem: DigestError,
    },
    /// The definition contradicts itself.
    #[error(transparent)]
    BadDefinition(#[from] DefinitionError),
    /// The store has the space with another definition.
    #[error(
        "the keyspace `{space}` already exists with different settings: {}. These settings cannot change \
         later; create a keyspace with another name",
        list(differences)
    )]
    DifferentDefinition {
        /// The name of the keyspace.
        space: String,
        /// Where they differ.
        differences: Vec<Difference>,
    },
    /// The secret is not the one that the space was made with.
    #[error(
        "the secret is not the one that the keyspace `{space}` was made with (its fingerprint is \
         {found}, the keyspace's is {wanted}); set KEYMILL_SECRET, `secret_file` \
         or, in a Rust program, `secret()` to the right one"
    )]
    WrongSecret {
        /// The name of the keyspace.
        space: String,
        /// The fingerprint of the secret that was given.
        found: String,
        /// The fingerprint on record.
        wanted: String,
    },
    /// The store keeps no secret, and its spaces were made with one.
    #[error(
        "the keyspace `{space}` was made with a secret that is not in the store: set \
         KEYMILL_SECRET, `secret_file` or, in a Rust program, `secret()` to it"
    )]
    SecretMissing {
        /// The name of the keyspace.
        space: String,
    },
    /// Something would have to be created, and the instance was told not to.
    #[error("{0} does not exist, and --require-existing forbids creating it")]
    NotExisting(String),
    /// The data directory belongs to another store.
    #[error(transparent)]
    OtherStore(#[from] OtherStore),
    /// The alias is not one that can be had.
    #[error("`{alias}` cannot be an alias: {problem}")]
    BadAlias {
        /// The alias, as it was given.
        alias: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The key is another's, or may have been handed out.
    #[error("`{key}` of the keyspace `{space}` {}", taken_because(*others_alias))]
    Taken {
        /// The name of the keyspace.
        space: String,
        /// The key, as it was given.
        key: String,
        /// Whether it is known to be an alias of another owner, as where it was to be removed.
        others_alias: bool,
    },
    /// There is no such alias.
    #[error("there is no alias `{alias}` in the keyspace `{space}`")]
    UnknownAlias {
        /// The name of the keyspace.
        space: String,
        /// The alias, as it was given.
        alias: String,
    },
    /// There is no such token.
    #[error("there is no token `{name}`; `keymill token list` shows those that exist")]
    UnknownToken {
        /// The name of the token.
        name: String,
    },
    /// Another token has the name.
    #[error("the token `{name}` already exists; choose another name, or revoke it first")]
    TokenExists {
        /// The name of the token.
        name: String,
    },
    /// The token cannot be made as it is.
    #[error("{0}")]
    BadToken(String),
    /// The space has no more keys.
    #[error(
        "the keyspace `{space}` is used up; {held_elsewhere} of its keys are held by other instances"
    )]
    Exhausted {
        /// The name of the keyspace.
        space: String,
        /// How many ordinals are in open leases of other instances.
        held_elsewhere: u64,
    },
    /// The pool has no keys, and nobody fills it.
    #[error(
        "the pool of `{space}` is empty: fill it with `keymill pool fill {space} --count N`, or \
         set `low_water` to have it filled automatically"
    )]
    PoolEmpty {
        /// The name of the keyspace.
        space: String,
    },
    /// The pool has no keys, and is being filled.
    #[error("the pool of `{space}` is empty and being filled; try again soon")]
    PoolFilling {
        /// The name of the keyspace.
        space: String,
    },
    /// Every worker of a snowflake space is held by others.
    #[error("{0}")]
    NoWorker(String),
    /// The space is of a kind that cannot do this.
    #[error("{0}")]
    WrongKind(String),
    /// The key cannot be retired.
    #[error("`{key}` of the keyspace `{space}` cannot be retired: {problem}")]
    NotRetirable {
        /// The name of the keyspace.
        space: String,
        /// The key, as it was given.
        key: String,
        /// Why.
        problem: String,
    },
    /// The space was ended, or is still being imported.
    #[error("the keyspace `{0}` is sealed: it hands out no more keys")]
    Sealed(String),
    /// The space was exported, so that a change of it would be missing from the file.
    #[error(
        "the keyspace `{space}` was exported for the store {for_store}, and changes here would be missing there; make \
         them in that store"
    )]
    Exported {
        /// The space.
        space: String,
        /// The identity of the store that it was exported for.
        for_store: String,
    },
    /// The file cannot be imported here.
    #[error("{0}")]
    BadImport(String),
    /// The store is older than what was seen of it.
    #[error(transparent)]
    RolledBack(Arc<RolledBack>),
    /// No keys right now; there may be soon.
    #[error("the keyspace `{space}` has no keys left in memory: {reason}{}", because(cause.as_deref()))]
    NoKeysReady {
        /// The name of the keyspace.
        space: String,
        /// Why, in words.
        reason: String,
        /// What the store said, which strangers are not told.
        cause: Option<String>,
    },
    /// The store could not answer.
    #[error("{0}")]
    StoreUnavailable(String),
    /// Nothing will help but a person.
    #[error("{0}")]
    Broken(String),
}

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> ServiceError {
        match error {
            StoreError::Unavailable(_) | StoreError::InDoubt(_) | StoreError::Outdated(_) => {
                ServiceError::StoreUnavailable(error.to_string())
            }
            StoreError::RolledBack(how) => ServiceError::RolledBack(how),
            StoreError::UnknownSpace(space) => ServiceError::UnknownSpace(shown(&space)),
            StoreError::Exhausted { space, held_elsewhere } => {
                ServiceError::Exhausted { space, held_elsewhere }
            }
            StoreError::Sealed(space) => ServiceError::Sealed(space),
            StoreError::NoWorker { .. } => ServiceError::NoWorker(error.to_string()),
            StoreError::Broken(problem) => ServiceError::Broken(problem),
        }
    }
}

impl From<FenceError> for ServiceError {
    fn from(error: FenceError) -> ServiceError {
        match error {
            FenceError::Store(error) => error.into(),
            FenceError::Busy(problem) => ServiceError::StoreUnavailable(problem),
            FenceError::OtherStore(other) => other.into(),
        }
    }
}

impl From<GrowthError> for ServiceError {
    fn from(error: GrowthError) -> ServiceError {
        StoreError::from(error).into()
    }
}

impl ServiceError {
    pub(super) fn not_ready(space: &str, why: NotReady) -> ServiceError {
        let space = space.to_owned();
        match why {
            NotReady::Exhausted { held_elsewhere } => {
                ServiceError::Exhausted { space, held_elsewhere }
            }
            NotReady::Sealed => ServiceError::Sealed(space),
            NotReady::PoolFilling => ServiceError::PoolFilling { space },
            NotReady::NoWorker(reason) => ServiceError::NoWorker(reason),
            NotReady::RolledBack(how) => ServiceError::RolledBack(how),
            NotReady::Unreachable(cause) => {
                let reason = "the store is unreachable; this instance keeps trying".to_owned();
                ServiceError::NoKeysReady { space, reason, cause: Some(cause) }
            }
            NotReady::Late(_) | NotReady::Crowded | NotReady::Stopping => {
                ServiceError::NoKeysReady { space, reason: why.to_string(), cause: None }
            }
        }
    }
}

fn taken_because(others_alias: bool) -> &'static str {
    if others_alias {
        "belongs to another owner; name that owner with --owner, or `owner` over HTTP"
    } else {
        "is already issued, or owned by someone else; choose another one"
    }
}

fn because(cause: Option<&str>) -> String {
    cause.map_or(String::new(), |cause| format!(" ({cause})"))
}

fn list(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
