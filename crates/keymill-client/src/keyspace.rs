//! One keyspace: every call that concerns it, one request each.

use hyper::{Method, StatusCode};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::answer::{
    Alias, Aliases, Digest, Digests, Explanation, KeyspaceInfo, Page, Taken, UsedKey, answered_at,
};
use crate::cache::{CacheBuilder, CachedKeyspace};
use crate::client::{Client, page_query, read};
use crate::definition::Definition;
use crate::error::{Error, ErrorKind};
use crate::key::Key;
use crate::request::{HttpCall, encoded};

/// A keyspace, by its name.
///
/// Every call asks a server, and another one if that does not answer, until the deadline of the client. All calls here are
/// safe to repeat. Aliases, digests and definitions are the same whether they are asked for once or twice; the keys of a
/// take whose answer was lost stay unused.
#[derive(Debug, Clone)]
pub struct Keyspace {
    client: Client,
    name: String,
    /// `/v1/spaces/NAME`, encoded.
    path: String,
    caller: Option<String>,
}

impl Keyspace {
    pub(crate) fn new(client: Client, name: String) -> Keyspace {
        let path = format!("/v1/spaces/{}", encoded(&name));
        Keyspace { client, name, path, caller: None }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same keyspace with a name for who its keys are for, which is recorded with them where `audit = "key"`.
    pub fn for_caller(mut self, caller: impl Into<String>) -> Keyspace {
        self.caller = Some(caller.into());
        self
    }

    /// Keys that are fetched ahead and handed out from memory. See [`CachedKeyspace`].
    pub fn cached(&self) -> CachedKeyspace {
        self.cache().build()
    }

    /// The same with other settings.
    pub fn cache(&self) -> CacheBuilder {
        CacheBuilder::new(self.clone())
    }

    /// Takes a key. Needs the right `take`.
    pub async fn take(&self) -> Result<Key, Error> {
        let keys: Taken<Vec<Key>> = self.take_as(1).await?;
        let mut keys = keys.keys.into_iter();
        match (keys.next(), keys.next()) {
            (Some(key), None) => Ok(key),
            _ => Err(Error::bad_answer(
                "the server was asked for one key and sent another number".to_owned(),
            )),
        }
    }

    /// Takes several keys at once: fewer than `count` only if the keyspace has no more. Servers allow 100,000 at once,
    /// unless they are set otherwise.
    pub async fn take_many(&self, count: u32) -> Result<Vec<Key>, Error> {
        Ok(self.take_expiring(count).await?.0)
    }

    /// The same, with the time from which on the keys are no longer valid: `None` unless the keyspace has `ttl_seconds`.
    pub async fn take_expiring(&self, count: u32) -> Result<(Vec<Key>, Option<Timestamp>), Error> {
        let Taken { keys, expires_at, .. } = self.take_as::<Vec<Key>>(count).await?;
        check_count(keys.len(), count)?;
        Ok((keys, expires_at))
    }

    /// Takes keys in the form that they are wanted in.
    pub(crate) async fn take_as<K>(&self, count: u32) -> Result<Taken<K>, Error>
    where
        K: DeserializeOwned + FromIterator<Key> + Send,
    {
        #[cfg(feature = "grpc")]
        if self.client.is_grpc() {
            return self.take_by_grpc(count).await;
        }
        let mut target = format!("{}/keys", self.path);
        // The shortest form is what servers answer fastest.
        if count != 1 {
            target += &format!("?count={count}");
        }
        if let Some(caller) = &self.caller {
            target += if count == 1 { "?" } else { "&" };
            target += &format!("caller={}", encoded(caller));
        }
        let call = HttpCall::new(Method::POST, target).authorize(self.client.authorization());
        let (_, headers, body) = self.client.send(&call).await?;
        Ok(Taken { answered_at: answered_at(&headers), ..read(&body)? })
    }

    /// The key of an input, in a keyspace of kind `digest`: always the same. Needs the right `name`.
    pub async fn digest(&self, input: &str) -> Result<Digest, Error> {
        self.digest_in("", input).await
    }

    /// The key of an input within a scope: the same input has another key in another scope.
    pub async fn digest_in(&self, scope: &str, input: &str) -> Result<Digest, Error> {
        #[cfg(feature = "grpc")]
        if self.client.is_grpc() {
            return self.digest_by_grpc(scope, input).await;
        }
        let call = HttpCall::new(Method::POST, format!("{}/digests", self.path));
        self.client.call(call.json(&json!({"scope": scope, "input": input}))).await
    }

    /// The keys of several inputs, in their order.
    pub async fn digest_many(&self, scope: &str, inputs: &[&str]) -> Result<Vec<Key>, Error> {
        #[cfg(feature = "grpc")]
        if self.client.is_grpc() {
            return self.digests_by_grpc(scope, inputs).await;
        }
        let call = HttpCall::new(Method::POST, format!("{}/digests", self.path));
        let digests: Digests =
            self.client.call(call.json(&json!({"scope": scope, "inputs": inputs}))).await?;
        if digests.keys.len() != inputs.len() {
            return Err(Error::bad_answer(
                "the server sent another number of keys than inputs".to_owned(),
            ));
        }
        Ok(digests.keys)
    }

    /// Reserves a key of your choice for an owner, which may be empty. Returns whether it is new: if not, it already
    /// belongs to this owner, or was reserved by an attempt whose answer was lost. Needs the right `name`.
    pub async fn add_alias(&self, alias: &str, owner: &str) -> Result<bool, Error> {
        #[cfg(feature = "grpc")]
        if self.client.is_grpc() {
            return self.add_alias_by_grpc(alias, owner).await;
        }
        let call =
            HttpCall::new(Method::PUT, self.alias_path(alias)).json(&json!({"owner": owner}));
        let call = call.authorize(self.client.authorization());
        let (status, ..) = self.client.send(&call).await?;
        Ok(status == StatusCode::CREATED)
    }

    /// Removes an alias. Its key stays reserved and is never handed out. Needs the right `name`.
    pub async fn remove_alias(&self, alias: &str, owner: &str) -> Result<(), Error> {
        #[cfg(feature = "grpc")]
        if self.client.is_grpc() {
            return self.remove_alias_by_grpc(alias, owner).await;
        }
        let mut target = self.alias_path(alias);
        if !owner.is_empty() {
            target += &format!("?owner={}", encoded(owner));
        }
        let call = HttpCall::new(Method::DELETE, target).authorize(self.client.authorization());
        match self.client.send(&call).await {
            Ok(_) => Ok(()),
            // An attempt whose answer was lost has removed it.
            Err(error) if error.kind() == ErrorKind::UnknownAlias && call.was_doubted() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// An alias with its owner and when it was added. Needs the right `read`.
    pub async fn alias(&self, alias: &str) -> Result<Alias, Error> {
        #[cfg(feature = "grpc")]
        if self.client.is_grpc() {
            return self.alias_by_grpc(alias).await;
        }
        self.client.call(HttpCall::new(Method::GET, self.alias_path(alias))).await
    }

    /// Lists aliases, ordered by name: the first page, or the one after the `next` of another. Needs the right `read`.
    pub async fn aliases(&self, after: Option<&str>) -> Result<Page<Alias>, Error> {
        #[cfg(feature = "grpc")]
        if self.client.is_grpc() {
            return self.aliases_by_grpc(after).await;
        }
        let target = format!("{}/aliases{}", self.path, page_query(after));
        let list: Aliases = self.client.call(HttpCall::new(Method::GET, target)).await?;
        Ok(list.into())
    }

    /// Explains where a key came from. Needs the right `read`.
    pub async fn explain(&self, key: &str) -> Result<Explanation, Error> {
        #[cfg(feature = "grpc")]
        if self.client.is_grpc() {
            return self.explain_by_grpc(key).await;
        }
        self.client.call(HttpCall::new(Method::GET, self.key_path(key))).await
    }

    /// Retires a key that was handed out. Needs the right `name`.
    pub async fn retire(&self, key: &str) -> Result<UsedKey, Error> {
        #[cfg(feature = "grpc")]
        if self.client.is_grpc() {
            return self.retire_by_grpc(key).await;
        }
        self.client.call(HttpCall::new(Method::DELETE, self.key_path(key))).await
    }

    /// Creates the keyspace, unless it exists already; then its changeable settings are set to these. Needs the right
    /// `admin`.
    pub async fn ensure(&self, definition: &Definition) -> Result<KeyspaceInfo, Error> {
        self.client.call(HttpCall::new(Method::PUT, self.path.clone()).json(definition)).await
    }

    /// Its settings and usage. Needs the right `read`.
    pub async fn show(&self) -> Result<KeyspaceInfo, Error> {
        self.client.call(HttpCall::new(Method::GET, self.path.clone())).await
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Who its keys are for; empty if nobody is named.
    #[cfg(feature = "grpc")]
    pub(crate) fn caller(&self) -> &str {
        self.caller.as_deref().unwrap_or_default()
    }

    fn alias_path(&self, alias: &str) -> String {
        format!("{}/aliases/{}", self.path, encoded(alias))
    }

    fn key_path(&self, key: &str) -> String {
        format!("{}/keys/{}", self.path, encoded(key))
    }
}

/// Refuses an answer without keys, or with more than were asked for.
pub(crate) fn check_count(found: usize, asked: u32) -> Result<(), Error> {
    match found >= 1 && found <= usize::try_from(asked).unwrap_or(usize::MAX) {
        true => Ok(()),
        false => Err(Error::bad_answer(format!(
            "the server was asked for {asked} keys and sent {found}"
        ))),
    }
}
