//! From a store's URL to the store.

use std::path::{Path, PathBuf};
#[cfg(any(
    feature = "sqlite",
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "etcd"
))]
use std::sync::Arc;

use super::{Finding, Store, StoreDescription, StoreError};

/// How to open a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Make what is not there: the file, the schema.
    pub create: bool,
    /// Where that is forbidden, whether it is because the secret comes from outside the store: keys
    /// of it may have been handed out by a store that was lost.
    pub secret_given: bool,
    /// Where that is forbidden, whether it is because a new store would have nothing of what is asked for.
    pub existing_only: bool,
    /// Use it although a failure may cost a repeated key.
    pub allow_unsafe: bool,
    /// Bring its schema up to date.
    pub migrate: bool,
}

impl Default for Opening {
    fn default() -> Opening {
        Opening {
            create: true,
            secret_given: false,
            existing_only: false,
            allow_unsafe: false,
            migrate: true,
        }
    }
}

/// A scheme of URLs, and so a kind of store.
struct Scheme {
    name: &'static str,
    example: &'static str,
    /// Whether this build has it.
    built: bool,
}

const SCHEMES: [Scheme; 5] = [
    Scheme {
        name: "sqlite",
        example: "sqlite:/var/lib/keymill/keymill.db",
        built: cfg!(feature = "sqlite"),
    },
    Scheme {
        name: "postgres",
        example: "postgres://user:password@host1,host2/database",
        built: cfg!(feature = "postgres"),
    },
    Scheme {
        name: "mysql",
        example: "mysql://user:password@host/database",
        built: cfg!(feature = "mysql"),
    },
    Scheme {
        name: "redis",
        example: "redis://user:password@host/0",
        built: cfg!(feature = "redis"),
    },
    Scheme {
        name: "etcd",
        example: "etcd://host1:2379,host2:2379,host3:2379",
        built: cfg!(feature = "etcd"),
    },
];

/// Opens the store that `url` names.
#[cfg_attr(
    not(any(
        feature = "sqlite",
        feature = "postgres",
        feature = "mysql",
        feature = "redis",
        feature = "etcd"
    )),
    allow(unused_variables, clippy::unused_async)
)]
pub async fn open(url: &str, opening: Opening) -> Result<Store, StoreError> {
    check_url(url)?;
    match scheme(url) {
        #[cfg(feature = "sqlite")]
        "sqlite" => {
            let path = sqlite_path(url).to_owned();
            // Opening may wait for another process that makes the schema.
            let opened = tokio::task::spawn_blocking(move || {
                super::sql::sqlite::open(path.as_ref(), opening)
            });
            let store = Arc::new(opened.await.expect("opening does not panic")?);
            Ok(Store::of(&store).with_rows(&store))
        }
        #[cfg(feature = "postgres")]
        "postgres" => {
            let store = Arc::new(super::sql::postgres::open(url, opening).await?);
            Ok(Store::of(&store).with_rows(&store))
        }
        #[cfg(feature = "mysql")]
        "mysql" => {
            let store = Arc::new(super::sql::mysql::open(url, opening).await?);
            Ok(Store::of(&store).with_rows(&store))
        }
        #[cfg(feature = "redis")]
        "redis" => {
            let store = Arc::new(super::redis::RedisStore::open(url, opening).await?);
            Ok(Store::of(&store).with_rows(&store))
        }
        #[cfg(feature = "etcd")]
        "etcd" => Ok(Store::of(&Arc::new(super::etcd::EtcdStore::open(url, opening).await?))),
        _ => unreachable!("the scheme was just checked"),
    }
}

/// Checks the store that `url` names, setting by setting, and changes nothing: nothing is made,
/// migrated or locked.
pub async fn check(
    url: &str,
    opening: Opening,
) -> Result<(StoreDescription, Vec<Finding>), StoreError> {
    check_url(url)?;
    #[cfg(feature = "sqlite")]
    if scheme(url) == "sqlite" {
        let path = sqlite_path(url).to_owned();
        let look = move || super::sql::sqlite::look_at(path.as_ref(), opening);
        return tokio::task::spawn_blocking(look).await.expect("looking does not panic");
    }
    // A server is there or not: opening makes nothing but the schema, and only where it may migrate.
    let store = open(url, Opening { migrate: false, ..opening }).await?;
    Ok((store.admin.describe(), store.admin.check().await?))
}

/// Copies the store that `url` names into a new file, while instances use it. Only a store that is a file itself can be
/// copied like this.
#[cfg_attr(not(feature = "sqlite"), allow(unused_variables, clippy::unused_async))]
pub async fn back_up(url: &str, to: &Path) -> Result<(), StoreError> {
    check_url(url)?;
    #[cfg(feature = "sqlite")]
    if scheme(url) == "sqlite" {
        let (path, to) = (sqlite_path(url).to_owned(), to.to_owned());
        let copy = move || super::sql::sqlite::back_up(path.as_ref(), &to);
        return tokio::task::spawn_blocking(copy).await.expect("copying does not panic");
    }
    let tool = match scheme(url) {
        "postgres" => "pg_dump or a base backup",
        "mysql" => "mariadb-dump or mysqldump, with --single-transaction",
        "redis" => "a copy of its append-only folder",
        _ => "etcdctl snapshot save",
    };
    Err(StoreError::Broken(format!(
        "only SQLite is backed up by keymill; back up this store with {tool}, as docs/stores.md describes"
    )))
}

/// Refuses a store without a keyspace, for a secret that comes from outside it: the store may have been
/// emptied, or its schema created again after it was lost.
pub async fn refuse_forgotten(store: &Store) -> Result<(), StoreError> {
    if !store.spaces.spaces().await?.is_empty() {
        return Ok(());
    }
    let opening = Opening { secret_given: true, ..Opening::default() };
    Err(StoreError::empty(&store.admin.describe().location, opening))
}

/// The folder of a store that is a file; `None` for one on the network.
pub fn folder_of(url: &str) -> Option<PathBuf> {
    if scheme(url) != "sqlite" {
        return None;
    }
    // Absolute, because a program may change its working directory.
    Some(std::path::absolute(sqlite_path(url)).ok()?.parent()?.to_owned())
}

/// Refuses the name of a store that this build cannot open.
pub fn check_url(url: &str) -> Result<(), StoreError> {
    let scheme = scheme(url);
    let refuse = |problem: String| Err(StoreError::Broken(problem));
    match SCHEMES.iter().find(|known| known.name == scheme) {
        Some(Scheme { built: false, .. }) => refuse(format!(
            "this keymill was built without {scheme}; build it with `cargo build --release \
             --features {scheme}`"
        )),
        #[cfg(feature = "sqlite")]
        Some(_) if scheme == "sqlite" && sqlite_path(url).is_empty() => {
            refuse("a SQLite store needs a path: sqlite:PATH".to_owned())
        }
        Some(_) => Ok(()),
        None => {
            let examples: Vec<&str> = SCHEMES.iter().map(|known| known.example).collect();
            // Anything else may be a password, and is not repeated.
            let is_kind = url.contains(':') && scheme.bytes().all(|it| it.is_ascii_lowercase());
            let problem = match is_kind {
                true => format!("`{scheme}` is not a kind of store"),
                false => "the store does not begin with a kind of store".to_owned(),
            };
            refuse(format!("{problem}; stores are named by URL: {}", examples.join(", ")))
        }
    }
}

/// The kind of store that a URL names, under the name that we have for it.
fn scheme(url: &str) -> &str {
    match url.split_once(':').map_or(url, |(scheme, _)| scheme) {
        "postgresql" => "postgres",
        "mariadb" => "mysql",
        "rediss" | "valkey" => "redis",
        scheme => scheme,
    }
}

fn sqlite_path(url: &str) -> &str {
    let path = url.strip_prefix("sqlite:").unwrap_or_default();
    path.strip_prefix("//").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_kind_of_store_is_named_only_if_it_looks_like_one() {
        for (url, says) in [
            ("oracle://host/db", "`oracle` is not a kind of store"),
            ("keymill.db", "does not begin with a kind of store"),
            ("S3cretPass", "does not begin with a kind of store"),
            ("S3cret:Pass", "does not begin with a kind of store"),
        ] {
            let error = check_url(url).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("sqlite:/"), "{error}");
            assert!(!error.contains("S3cret"), "{error}");
        }
    }
}
