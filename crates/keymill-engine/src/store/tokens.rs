//! Tokens and acts of administration: what a store is asked about them, what it answers, and the one rule
//! that all stores apply.
//!
//! Tokens are few and small, so a store keeps one document, the token list. It is text to the store;
//! `operations` knows what it says. A list that was rolled back may have tokens in it that were revoked
//! since, so it has a revision under a floor, like a keyspace.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
#[cfg(any(feature = "etcd", feature = "redis"))]
use serde::{Deserialize, Serialize};

use super::{Floor, History, Mark, StoreError, is_later_era};

/// The name under which the floor of the token list is kept, among those of keyspaces. No keyspace can have it.
pub const TOKENS: &str = "!tokens";

/// How many acts stay on record; older ones are removed as new ones come.
pub const ACTS_KEPT: u64 = 10_000;

/// The token list, and the record of what administrators did.
#[async_trait]
pub trait Tokens: fmt::Debug + Send + Sync {
    /// The token list. Where it lies below the floor, that is [`StoreError::RolledBack`], and the word of a
    /// connection that is new. One who has seen nothing gets the list as it is.
    async fn tokens(&self, floor: &Floor) -> Result<TokenList, StoreError>;

    /// Replaces the list, if it is still at the revision that is expected, and returns how far it has come;
    /// `None` where it is not. Below the floor it is refused, unless the change begins an era beyond
    /// the floor's: that is how somebody goes on with a list that was rolled back.
    async fn replace_tokens(
        &self,
        change: &TokenChange,
        floor: &Floor,
    ) -> Result<Option<Mark>, StoreError>;

    /// Puts an act on record, under an id of the store's.
    async fn record_act(&self, act: &Act) -> Result<(), StoreError>;

    /// Acts by id, which rise: the newest come last. At least the last [`ACTS_KEPT`] are there.
    async fn acts(&self, page: &ActPage) -> Result<Vec<Act>, StoreError>;
}

/// The token list, as a store has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenList {
    /// How many changes it has seen; 0 where there never was one.
    pub revision: u64,
    /// What it says; empty where there never was a list.
    pub text: String,
    /// The server's history that it was read on.
    pub history: History,
}

/// A list that takes the place of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenChange {
    /// The revision that the other must be at.
    pub expected: u64,
    /// The revision that this one gets: the next one, or the first of an era.
    pub revision: u64,
    /// What it says.
    pub text: String,
}

/// Something that an administrator did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// Its number in the record, which the store assigns.
    pub id: u64,
    /// When it was done.
    pub at: Timestamp,
    /// The name of the token that did it, or `command line`.
    pub by: String,
    /// The address or the host that it was done from.
    pub from: String,
    /// What was done, in words.
    pub what: String,
}

/// An act as stores of documents write it, under its id.
#[cfg(any(feature = "etcd", feature = "redis"))]
#[derive(Serialize, Deserialize)]
pub(super) struct ActDoc {
    at: Timestamp,
    by: String,
    from: String,
    what: String,
}

/// Which acts to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActPage {
    /// Those after this one.
    pub after: Option<u64>,
    /// At most so many.
    pub limit: u32,
}

#[cfg(any(feature = "etcd", feature = "redis"))]
impl ActDoc {
    pub(super) fn of(act: &Act) -> ActDoc {
        let Act { at, by, from, what, .. } = act.clone();
        ActDoc { at, by, from, what }
    }

    pub(super) fn act(self, id: u64) -> Act {
        let ActDoc { at, by, from, what } = self;
        Act { id, at, by, from, what }
    }
}

impl TokenList {
    /// How far it has come.
    pub fn mark(&self) -> Mark {
        Mark { revision: self.revision, history: self.history, ..Mark::default() }
    }
}

impl TokenChange {
    /// How far the list comes by this change of one that is at `found`; `None` where that is not the one
    /// which is expected.
    pub fn judge(
        &self,
        store: &str,
        found: Mark,
        floor: &Floor,
    ) -> Result<Option<Mark>, StoreError> {
        assert!(self.revision > self.expected, "a revision rises: {self:?}");
        if self.begins_era(floor) {
            check_store(floor, store)?;
        } else {
            check_tokens(floor, store, found)?;
        }
        Ok((found.revision == self.expected).then(|| self.mark(found.history)))
    }

    /// How far the list comes by it, on a server that is on this history.
    pub fn mark(&self, history: History) -> Mark {
        Mark { revision: self.revision, history, ..Mark::default() }
    }

    /// Whether it goes beyond everything that was seen.
    fn begins_era(&self, floor: &Floor) -> bool {
        is_later_era(self.revision, floor.mark.revision)
    }
}

/// Refuses a token list that lies below what was seen of it.
pub(super) fn check_tokens(floor: &Floor, store: &str, found: Mark) -> Result<(), StoreError> {
    check_store(floor, store)?;
    let seen = floor.mark;
    if found.has_reached(seen) {
        return Ok(());
    }
    let evidence = if found.continues(seen) {
        format!(
            "the token list is at revision {}, but was seen at revision {}",
            found.revision, seen.revision
        )
    } else {
        "the token list was seen on another server, or on a later timeline of this one".to_owned()
    };
    Err(rolled_back(evidence))
}

/// A token list that was rolled back, and how it shows.
pub(crate) fn rolled_back(evidence: String) -> StoreError {
    let remedy = "Tokens that were revoked since may be valid again: revoke them again with \
                  `keymill token revoke NAME`";
    StoreError::noticed(TOKENS, evidence, remedy.to_owned())
}

fn check_store(floor: &Floor, store: &str) -> Result<(), StoreError> {
    if floor.store == store { Ok(()) } else { Err(StoreError::other_store(TOKENS, floor, store)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::check_name;
    use crate::store::ERA;

    #[test]
    fn no_keyspace_can_have_the_name_of_the_token_list() {
        assert!(check_name(TOKENS).is_err());
    }

    #[test]
    fn a_change_is_made_at_the_expected_revision_and_above_the_floor() {
        for (found, floor, expected, revision, made) in [
            (3, 0, 3, 4, Some(true)),
            (3, 3, 3, 4, Some(true)),
            (3, 3, 2, 3, Some(false)),
            // What it would lead to is above the floor, but something was lost in between.
            (3, 4, 3, 4, None),
            (3, 9, 3, 4, None),
            (3, 9, 3, ERA, Some(true)),
            (3, 9, 2, ERA, Some(false)),
            (3, ERA + 9, 3, ERA, None),
            (3, ERA + 9, 3, 2 * ERA, Some(true)),
        ] {
            let change = TokenChange { expected, revision, text: String::new() };
            let answer = change.judge("s1", mark(found), &floor_at(floor));
            let answer = answer.ok().map(|found| found.map(|mark| mark.revision));
            assert_eq!(answer, made.map(|made| made.then_some(revision)), "{change:?}, {floor}");
        }
    }

    #[test]
    fn another_store_is_refused_even_by_a_change_that_begins_an_era() {
        for revision in [4, ERA] {
            let change = TokenChange { expected: 3, revision, text: String::new() };
            let refusal = change.judge("s2", mark(3), &floor_at(3)).unwrap_err().to_string();
            assert!(refusal.contains("s1") && refusal.contains("s2"), "{refusal}");
            assert!(!refusal.contains("Keys"), "it is not about keys: {refusal}");
        }
    }

    fn mark(revision: u64) -> Mark {
        Mark { revision, ..Mark::default() }
    }

    fn floor_at(revision: u64) -> Floor {
        Floor { store: "s1".to_owned(), mark: mark(revision) }
    }
}
