//! From a store's URL to the store.

use std::path::Path;
use std::sync::Arc;

use super::{Store, StoreError};

/// Opens the store that `url` names: `sqlite:PATH`. One that is not there is made if `create`.
pub async fn open(url: &str, create: bool) -> Result<Arc<dyn Store>, StoreError> {
    check_url(url)?;
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    match scheme {
        #[cfg(feature = "sqlite")]
        "sqlite" => open_sqlite(rest, create).await,
        _ => unreachable!("the scheme was just checked"),
    }
}

/// Refuses the name of a store that this build cannot open.
pub fn check_url(url: &str) -> Result<(), StoreError> {
    match url.split_once(':').unwrap_or((url, "")) {
        #[cfg(feature = "sqlite")]
        ("sqlite", "" | "//") => {
            Err(StoreError::Broken("a SQLite store needs a path: sqlite:PATH".to_owned()))
        }
        #[cfg(feature = "sqlite")]
        ("sqlite", _) => Ok(()),
        (scheme, _) => Err(StoreError::Broken(format!(
            "`{scheme}` is not a kind of store that this build knows; stores are named by URL, \
             such as sqlite:/var/lib/keymill/keymill.db"
        ))),
    }
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(rest: &str, create: bool) -> Result<Arc<dyn Store>, StoreError> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let path = Path::new(path).to_owned();
    // Opening may wait for another process that makes the schema.
    let opened =
        tokio::task::spawn_blocking(move || super::sqlite::SqliteStore::open(&path, create));
    Ok(Arc::new(opened.await.expect("opening does not panic")?))
}
