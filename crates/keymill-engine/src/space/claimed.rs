//! A claimed key: one of a pool, with the row that it is on record in.
//!
//! Stores give them out, and sources hand them on. Plain values: nothing here does I/O.

/// The number of a row of a key. It rises with the revision that wrote it.
pub type KeyId = i64;

/// A key of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Its row.
    pub id: KeyId,
    /// Its text.
    pub key: String,
}
