//! Moving a keyspace to another store: everything that is on record of it, row by row.
//!
//! `operations` reads the rows of a sealed keyspace and writes them into another store, where the keyspace
//! is sealed, too, until the last of them is there. Ids, revisions and leases stay what they were, so
//! that a key tells in the new store what it told in the old one.

mod moved_row;
mod moved_space;

use std::fmt;

use async_trait::async_trait;

#[cfg_attr(
    not(any(feature = "mysql", feature = "postgres", feature = "redis", feature = "sqlite")),
    allow(unused_imports)
)]
pub(super) use moved_row::holders;
pub use moved_row::{MovedLease, MovedRow};
pub use moved_space::MovedSpace;

use super::{Created, Floor, Mark, SpaceRecord, StoreError};

/// Keyspaces that move to another store.
#[async_trait]
pub trait Moves: fmt::Debug + Send + Sync {
    /// Rows of a space, to be moved to another store.
    async fn moved_rows(&self, page: &RowsPage) -> Result<Rows, StoreError>;

    /// Makes a space that comes from another store: sealed, and `importing` what `tuning.importing`
    /// says, so that nothing can be taken from it. One that is importing the same already is brought up
    /// to what is given, and its mark never falls; any other is [`Created::Exists`] and left alone.
    async fn begin_import(&self, space: &MovedSpace) -> Result<Created, StoreError>;

    /// Writes rows into a space that is importing this; those that are there already are left as
    /// they are. A key that was retired while it was read may come as available and as used: then it is
    /// used, in whatever order both come. Refused with [`StoreError::Outdated`] where the space is not
    /// importing this. Adds to the revision, so that rows which a store has lost are noticed before the
    /// space is opened without them.
    async fn import_rows(
        &self,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
        floor: &Floor,
    ) -> Result<Mark, StoreError>;

    /// Opens a space that was importing this: from now on its keys can be taken, beyond everything
    /// that was granted in the other store. Adds one to the revision that came with it, or to a later
    /// one that it has reached since.
    async fn finish_import(
        &self,
        space: &MovedSpace,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError>;
}

/// A part of what is on record of a keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Leases, fills, advances and tenancies, with their holders.
    Leases,
    /// The workers of a snowflake keyspace.
    Workers,
    /// Names: aliases, removed ones too, keys in use, keys imported into a pool, digests.
    Names,
    /// Ordinals whose keys are in use elsewhere.
    InUse,
    /// The ids of keys that were imported into a pool.
    PoolNames,
    /// Keys that wait in the pool, reserved ones too: in a sealed keyspace nobody can use them.
    Available,
    /// Used keys.
    Used,
    /// The keys of inputs.
    Digests,
}

/// Which rows to read.
#[derive(Debug, Clone)]
pub struct RowsPage {
    /// The name of the space.
    pub space: String,
    /// Which of its rows.
    pub part: Part,
    /// `next` of the page before.
    pub after: Option<String>,
    /// About so many.
    pub limit: u32,
}

/// A page of rows.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// The rows that were read.
    pub rows: Vec<MovedRow>,
    /// Where the next page begins, in the store's own words; none on the last.
    pub next: Option<String>,
}

impl Part {
    /// All of them, in the order in which they are written: a name is there before the rows that
    /// rely on it.
    pub const ALL: [Part; 8] = [
        Part::Leases,
        Part::Workers,
        Part::Names,
        Part::InUse,
        Part::PoolNames,
        Part::Available,
        Part::Used,
        Part::Digests,
    ];
}

impl Rows {
    /// A page of rows that were read in the order of [`MovedRow::cursor`], at most `limit`: where it is
    /// full, there may be more.
    pub fn page(rows: Vec<MovedRow>, limit: u32) -> Rows {
        let is_full = rows.len() >= limit as usize;
        let next = rows.last().filter(|_| is_full).map(MovedRow::cursor);
        Rows { rows, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::KeyId;

    #[test]
    fn a_page_that_is_not_full_is_the_last() {
        let row = |id: KeyId| MovedRow::Available { id, key: format!("k{id}") };
        assert_eq!(Rows::page(vec![row(-1), row(5)], 2).next.as_deref(), Some("5"));
        assert_eq!(Rows::page(vec![row(-1), row(5)], 3).next, None);
        assert_eq!(Rows::page(Vec::new(), 0).next, None);
    }
}
