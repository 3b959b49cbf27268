//! From a store's URL to the store.

use std::path::Path;
use std::sync::Arc;

use super::{Store, StoreError};

/// Opens the store that `url` names: `sqlite:PATH`.
pub async fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    match scheme {
        #[cfg(feature = "sqlite")]
        "sqlite" => open_sqlite(rest).await,
        _ => Err(StoreError::Broken(format!(
            "`{scheme}` is not a kind of store that this build knows; stores are named by URL, \
             such as sqlite:/var/lib/keymill/keymill.db"
        ))),
    }
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(rest: &str) -> Result<Arc<dyn Store>, StoreError> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() {
        return Err(StoreError::Broken("a SQLite store needs a path: sqlite:PATH".to_owned()));
    }
    let path = Path::new(path).to_owned();
    // Opening may wait for another process that makes the schema.
    let opened = tokio::task::spawn_blocking(move || super::sqlite::SqliteStore::open(&path));
    Ok(Arc::new(opened.await.expect("opening does not panic")?))
}
