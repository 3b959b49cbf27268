//! Keys from keymill: generated ones from the client's cache, and aliases that users choose.
//!
//! `web` asks for one for each new link. No key is ever checked against the links here: keymill hands out none
//! twice, and an alias and a generated key are never the same.

use std::time::Duration;

use keymill_client::{CachedKeyspace, Client, Error, Key};

use crate::patience::retry;
use crate::settings::Settings;

/// How long one call may take with all its attempts at all servers.
const CALL_TIME_MAX: Duration = Duration::from_secs(5);

/// The source of keys.
pub(crate) struct Keys {
    /// Fetched ahead, so that links can be made while keymill is unreachable.
    cache: CachedKeyspace,
    patience: Duration,
}

impl Keys {
    pub(crate) fn new(settings: &Settings) -> Result<Keys, Error> {
        let mut client =
            Client::builder().servers(settings.keymill.clone()).deadline(CALL_TIME_MAX);
        if let Some(token) = &settings.token {
            client = client.token(token);
        }
        let cache = client.build()?.keyspace(&settings.keyspace).cached();
        Ok(Keys { cache, patience: settings.patience() })
    }

    /// A key that nobody has had before. If it is not used, it is a gap.
    pub(crate) async fn take(&self) -> Result<Key, Error> {
        retry(self.patience, Error::is_retryable, || self.cache.take()).await
    }

    /// Reserves an alias for a user. The same user may ask again.
    pub(crate) async fn reserve(&self, alias: &str, user: &str) -> Result<(), Error> {
        let keyspace = self.cache.keyspace();
        retry(self.patience, Error::is_retryable, || keyspace.add_alias(alias, user)).await?;
        Ok(())
    }

    /// How many keys are in memory.
    pub(crate) fn ready(&self) -> u64 {
        self.cache.len()
    }
}
