//! A store as fronts and commands know it: where it is, whether it is safe, its schema, its secret.
//!
//! It is opened here and given to [`Setup`](super::Setup). Keyspaces, leases and keys are reached through
//! the service alone, which changes them through the fence.

use std::path::Path;

use super::ServiceError;
use crate::fence::whole_store;
use crate::store::{self, Finding, Opening, Store, StoreDescription};

/// A store that was opened.
#[derive(Debug, Clone)]
pub struct OpenedStore {
    pub(super) store: Store,
}

impl OpenedStore {
    /// Opens the store that a URL names.
    pub async fn open(url: &str, opening: Opening) -> Result<OpenedStore, ServiceError> {
        Ok(store::open(url, opening).await?.into())
    }

    /// Checks the store that a URL names, setting by setting. Nothing is created or changed.
    pub async fn look(
        url: &str,
        opening: Opening,
    ) -> Result<(StoreDescription, Vec<Finding>), ServiceError> {
        Ok(store::check(url, opening).await?)
    }

    /// Copies the store that a URL names into a new file, while instances use it. Nothing else is created or changed.
    pub async fn back_up(url: &str, to: &Path) -> Result<(), ServiceError> {
        Ok(store::back_up(url, to).await?)
    }

    /// Refuses a URL that names no store which this build can open.
    pub fn check_url(url: &str) -> Result<(), ServiceError> {
        Ok(store::check_url(url)?)
    }

    /// Refuses what was found of an unsafe store, unless that is allowed: then it returns what is unsafe
    /// about it. Warnings are written to the log.
    pub fn check_safety(findings: &[Finding], allow: bool) -> Result<Option<String>, ServiceError> {
        Ok(store::check_safety(findings, allow)?)
    }

    /// Its kind and its location, without passwords.
    pub fn describe(&self) -> StoreDescription {
        self.store.admin.describe()
    }

    /// Whether it is safe to lease from, setting by setting.
    pub async fn findings(&self) -> Result<Vec<Finding>, ServiceError> {
        Ok(self.store.admin.check().await?)
    }

    /// What distinguishes it from every other store.
    pub async fn identity(&self) -> Result<String, ServiceError> {
        Ok(self.store.admin.identity().await?)
    }

    /// Updates its schema; the names of the migrations that were applied.
    pub async fn migrate(&self) -> Result<Vec<String>, ServiceError> {
        Ok(whole_store::migrate(&self.store).await?)
    }

    /// The secret that it keeps, if any.
    pub async fn secret(&self) -> Result<Option<String>, ServiceError> {
        Ok(self.store.admin.secret(None).await?)
    }

    /// Removes the secret from it, once it is kept elsewhere.
    pub async fn forget_secret(&self) -> Result<(), ServiceError> {
        Ok(whole_store::forget_secret(&self.store).await?)
    }

    /// Refuses a store without keyspaces where the secret comes from outside it: the store may have been
    /// emptied, or lost and created again.
    pub async fn refuse_forgotten(&self) -> Result<(), ServiceError> {
        Ok(store::refuse_forgotten(&self.store).await?)
    }
}

impl From<Store> for OpenedStore {
    fn from(store: Store) -> OpenedStore {
        OpenedStore { store }
    }
}
