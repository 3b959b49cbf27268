//! A rollback: how it shows that a store is older than what was seen of it, and what to do about that.
//!
//! Stores find it, sources and health pass it on, and programs read it. Plain text: nothing here does I/O.

/// How a store that was rolled back to an earlier state was noticed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the store was rolled back to an earlier state: {evidence}. {}{remedy}",
    consequence(space.as_deref())
)]
pub struct RolledBack {
    /// The keyspace concerned; `None` where it is the list of tokens.
    pub space: Option<String>,
    /// How it shows.
    pub evidence: String,
    /// What to do about it.
    pub remedy: String,
}

fn consequence(space: Option<&str>) -> &'static str {
    space.map_or("", |_| "Keys beyond that point may be in use, so none are leased. ")
}
