//! Changes of a store as a whole: its schema, and the secret that it keeps. No key leaves because of them, and
//! no floor knows of them, so they need no [`Fence`](super::Fence), which a store without a schema cannot have.

use crate::store::{Store, StoreError};

/// Updates the schema; the names of the migrations that were applied.
pub(crate) async fn migrate(store: &Store) -> Result<Vec<String>, StoreError> {
    store.admin.migrate().await
}

/// Removes the secret from the store, once it is kept elsewhere.
pub(crate) async fn forget_secret(store: &Store) -> Result<(), StoreError> {
    store.admin.forget_secret().await
}
