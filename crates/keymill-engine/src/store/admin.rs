//! The store itself: what it is, its secret, its schema, its safety.

use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use serde::Serialize;

use super::{Finding, StoreError};

/// The store itself: what it is, its secret, its schema, its safety.
#[async_trait]
pub trait Admin: fmt::Debug + Send + Sync {
    /// What tells this store from every other: made once, when its schema is, and copied with
    /// its data.
    async fn identity(&self) -> Result<String, StoreError>;

    /// The secret kept in the store; where there is none, `candidate` becomes it.
    async fn secret(&self, candidate: Option<&str>) -> Result<Option<String>, StoreError>;

    /// Removes the secret from the store, once it is kept elsewhere.
    async fn forget_secret(&self) -> Result<(), StoreError>;

    /// Is this store safe to lease from, setting by setting.
    async fn check(&self) -> Result<Vec<Finding>, StoreError>;

    /// Brings the schema up to date, and tells what was applied. Nothing, in a store that has none.
    async fn migrate(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// The store as people name it: its kind, and where it is, without passwords.
    fn describe(&self) -> StoreDescription;

    /// A file that every process on this store sees, for stores that are files themselves:
    /// floors kept there are known to instances that share nothing else.
    fn floor_file(&self) -> Option<PathBuf> {
        None
    }
}

/// A store in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreDescription {
    /// `sqlite`, …
    pub kind: &'static str,
    /// A path or a URL without its password.
    pub location: String,
    /// Whether it was created when it was opened.
    pub created: bool,
}
