//! What can go wrong in a store. Each driver folds its own errors into these in one function.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Floor, History, Mark, Opening, TOKENS};
use crate::space::RolledBack;
use crate::space::codec::GrowthError;

/// What can go wrong in a store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Nothing was changed, and trying again later may work.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The change may or may not have been made: what it granted must not be used.
    #[error("the result of the commit is unknown: {0}")]
    InDoubt(String),
    /// The store is older than what was seen of it.
    #[error(transparent)]
    RolledBack(Arc<RolledBack>),
    /// There is no such space.
    #[error("there is no keyspace `{0}`")]
    UnknownSpace(String),
    /// All ordinals are granted.
    #[error(
        "the keyspace `{space}` is used up; {held_elsewhere} of its keys are held by other \
         instances"
    )]
    Exhausted {
        /// The name of the keyspace.
        space: String,
        /// How many ordinals are in open leases of other instances.
        held_elsewhere: u64,
    },
    /// Every worker of a snowflake keyspace is held.
    #[error("{}", no_worker(space, *worker, *workers, *free_at, *advanced))]
    NoWorker {
        /// The name of the keyspace.
        space: String,
        /// The worker that was asked for, where it was a certain one.
        worker: Option<u32>,
        /// Whether it is because of an advance.
        advanced: bool,
        /// How many there are.
        workers: u64,
        /// When one of them is free, unless its holder goes on.
        free_at: Timestamp,
    },
    /// The space was ended.
    #[error("the keyspace `{0}` is sealed")]
    Sealed(String),
    /// What was asked was decided on fewer generations than the space has: nothing was changed, and
    /// it may be decided again.
    #[error("the keyspace `{0}` has just grown; try again")]
    Outdated(String),
    /// The database cannot be used as it is, and waiting will not help.
    #[error("{0}")]
    Broken(String),
}

impl StoreError {
    /// What is asked of a store that keeps no rows of keys.
    pub fn no_keys(space: &str) -> StoreError {
        StoreError::Broken(format!(
            "this store does not support pools, digests or key audit, which `{space}` needs; use \
             SQLite, PostgreSQL, MySQL or Redis"
        ))
    }

    /// The same of a request that was to change nothing: then nothing is in doubt.
    #[must_use]
    pub fn changing_nothing(self) -> StoreError {
        match self {
            StoreError::InDoubt(problem) => StoreError::Unavailable(problem),
            error => error,
        }
    }

    /// What to answer where a store may lose what it has granted, and nobody allowed that.
    pub fn unsafe_store(reasons: &str) -> StoreError {
        StoreError::Broken(format!(
            "this store is not safe to lease from: {reasons}. A failure could repeat keys; change \
             that, or allow it with --allow-unsafe-store, KEYMILL_ALLOW_UNSAFE_STORE=true or, in a \
             Rust program, `allow_unsafe_store()` (`keymill store check` shows every setting)"
        ))
    }

    /// What to answer where a store is empty and may not be created.
    pub fn empty(store: &str, opening: Opening) -> StoreError {
        StoreError::Broken(if opening.existing_only {
            format!(
                "{store} does not exist or is empty, so there is nothing to read or change. Check --store, \
                 --data-dir and the settings; `keymill space create`, `keymill take` and `keymill serve` create a \
                 store, and `keymill store identity --new-store` one to move a keyspace to"
            )
        } else if opening.secret_given {
            format!(
                "{store} does not exist or is empty, and its secret comes from outside it. A new \
                 store would begin with the \
                 first key of that secret again: if the old store was lost, or this is the wrong \
                 one, it would repeat keys that were already handed out. Restore the store, or \
                 pass --new-store if no key of it was ever handed out (in a Rust program, call \
                 `new_store()`)"
            )
        } else {
            format!(
                "{store} does not exist or is empty, and --require-existing forbids creating it"
            )
        })
    }

    /// A [`StoreError::RolledBack`] with what showed it; `space advance` leads out.
    pub fn rolled_back(space: &str, seen: Mark, evidence: String) -> StoreError {
        // Keys of inputs have no ordinals to continue at.
        let to = if seen.next > 0 { format!(" --to {}", seen.next) } else { String::new() };
        let remedy = format!("Run `keymill space advance {space}{to}` to continue beyond them");
        StoreError::noticed(space, evidence, remedy)
    }

    /// A [`StoreError::RolledBack`] of a server whose data are not on the history that was seen.
    pub fn other_history(space: &str, seen: Mark, found: History) -> StoreError {
        let History { server, timeline } = seen.history;
        let evidence = if found.server == server {
            format!(
                "its server is on timeline {}, but `{space}` was seen on timeline {timeline}: this \
                 server was cut off, and another one has taken its place",
                found.timeline
            )
        } else {
            format!("its server is {:x}, but `{space}` was seen on {server:x}", found.server)
        };
        StoreError::rolled_back(space, seen, evidence)
    }

    /// A [`StoreError::RolledBack`] of a space that was seen and is not there any more.
    pub fn gone(space: &str) -> StoreError {
        let evidence = format!("the keyspace `{space}` is missing");
        let remedy = "Restore a backup that contains it, or use another name".to_owned();
        StoreError::noticed(space, evidence, remedy)
    }

    /// A [`StoreError::RolledBack`] of a store that has become another one.
    pub fn other_store(space: &str, floor: &Floor, found: &str) -> StoreError {
        let evidence = format!("it was the store {}, but is now {found}", floor.store);
        let remedy = "Restore the original store, or start with another data directory".to_owned();
        StoreError::noticed(space, evidence, remedy)
    }

    /// A [`StoreError::RolledBack`] of a space, or of the [`TOKENS`].
    pub(super) fn noticed(space: &str, evidence: String, remedy: String) -> StoreError {
        let space = (space != TOKENS).then(|| space.to_owned());
        StoreError::RolledBack(Arc::new(RolledBack { space, evidence, remedy }))
    }
}

impl From<GrowthError> for StoreError {
    fn from(error: GrowthError) -> StoreError {
        StoreError::Broken(error.to_string())
    }
}

fn no_worker(
    space: &str,
    worker: Option<u32>,
    workers: u64,
    free_at: Timestamp,
    advanced: bool,
) -> String {
    match worker {
        _ if advanced => format!(
            "`{space}` was advanced: no worker of it is leased before {free_at}, when every window \
             that may have been held has ended"
        ),
        Some(worker) if u64::from(worker) >= workers => {
            format!("`{space}` has no worker {worker}: its layout has {workers}, numbered from 0")
        }
        Some(worker) => format!("worker {worker} of `{space}` is held until {free_at}"),
        None => format!(
            "all {workers} workers of `{space}` are held, the first of them until {free_at}; a \
             layout with more worker bits allows more instances"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advance_goes_on_at_an_ordinal_only_where_keys_have_some() {
        let said = |next| {
            let seen = Mark { next, ..Mark::default() };
            StoreError::rolled_back("pages", seen, "it is older".to_owned()).to_string()
        };
        assert!(said(7).contains("`keymill space advance pages --to 7`"), "{}", said(7));
        assert!(said(0).contains("`keymill space advance pages`"), "{}", said(0));
    }
}
