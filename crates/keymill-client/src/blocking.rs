//! The client for programs without an async runtime.
//!
//! It has a runtime of its own on a thread of its own, which is stopped when the last handle is dropped. A take from a cache
//! that has keys does not involve that thread.
//!
//! ```no_run
//! # fn run() -> Result<(), keymill_client::Error> {
//! let client = keymill_client::blocking::Client::connect("http://127.0.0.1:8080")?;
//! let links = client.keyspace("links").cached();
//! println!("{}", links.take()?);
//! # Ok(())
//! # }
//! ```
//!
//! # Panics
//!
//! Calls panic within an async runtime, which they would block: use [`crate::Client`] there.

use std::fmt;
use std::sync::Arc;
use std::thread;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;

use crate::answer::{Alias, Digest, Explanation, KeyspaceInfo, Page, UsedKey};
use crate::cache::{CacheBuilder, CacheStatus, CachedKeyspace as AsyncCachedKeyspace};
use crate::client::Client as AsyncClient;
use crate::definition::Definition;
use crate::error::Error;
use crate::fork;
use crate::key::Key;
use crate::keyspace::Keyspace as AsyncKeyspace;

/// A blocking client. Clones share its connections and its thread.
#[derive(Debug, Clone)]
pub struct Client {
    client: AsyncClient,
    runtime: Arc<Runtime>,
}

/// A keyspace, by its name. Every call is that of [`crate::Keyspace`], and waits for its answer.
#[derive(Debug, Clone)]
pub struct Keyspace {
    keyspace: AsyncKeyspace,
    runtime: Arc<Runtime>,
}

/// A keyspace whose keys are fetched ahead and handed out from memory: see [`crate::CachedKeyspace`].
#[derive(Debug)]
pub struct CachedKeyspace {
    cache: AsyncCachedKeyspace,
    runtime: Arc<Runtime>,
}

impl Client {
    /// A client of one server: see [`crate::Client::connect`].
    pub fn connect(server: &str) -> Result<Client, Error> {
        Client::new(AsyncClient::connect(server)?)
    }

    /// A blocking face on a client: `blocking::Client::new(Client::builder()….build()?)`.
    pub fn new(client: AsyncClient) -> Result<Client, Error> {
        Ok(Client { client, runtime: Arc::new(Runtime::new()?) })
    }

    /// A keyspace by its name.
    pub fn keyspace(&self, name: impl Into<String>) -> Keyspace {
        Keyspace { keyspace: self.client.keyspace(name), runtime: self.runtime.clone() }
    }

    /// A page of keyspaces: see [`crate::Client::keyspaces`].
    pub fn keyspaces(&self, after: Option<&str>) -> Result<Page<KeyspaceInfo>, Error> {
        self.runtime.wait(self.client.keyspaces(after))
    }
}

impl Keyspace {
    /// The same keyspace with a name for who its keys are for.
    pub fn for_caller(self, caller: impl Into<String>) -> Keyspace {
        Keyspace { keyspace: self.keyspace.for_caller(caller), runtime: self.runtime }
    }

    /// Keys that are fetched ahead and handed out from memory.
    pub fn cached(&self) -> CachedKeyspace {
        self.cached_with(|cache| cache)
    }

    /// The same with other settings: `keyspace.cached_with(|cache| cache.keys_max(1_000))`.
    pub fn cached_with(
        &self,
        settings: impl FnOnce(CacheBuilder) -> CacheBuilder,
    ) -> CachedKeyspace {
        let cache = settings(self.keyspace.cache()).build();
        CachedKeyspace { cache, runtime: self.runtime.clone() }
    }

    /// Takes a key.
    pub fn take(&self) -> Result<Key, Error> {
        self.runtime.wait(self.keyspace.take())
    }

    /// Takes several keys at once.
    pub fn take_many(&self, count: u32) -> Result<Vec<Key>, Error> {
        self.runtime.wait(self.keyspace.take_many(count))
    }

    /// The same, with the time from which on the keys are no longer valid: see [`crate::Keyspace::take_expiring`].
    pub fn take_expiring(&self, count: u32) -> Result<(Vec<Key>, Option<Timestamp>), Error> {
        self.runtime.wait(self.keyspace.take_expiring(count))
    }

    /// The key of an input.
    pub fn digest(&self, input: &str) -> Result<Digest, Error> {
        self.runtime.wait(self.keyspace.digest(input))
    }

    /// The key of an input within a scope.
    pub fn digest_in(&self, scope: &str, input: &str) -> Result<Digest, Error> {
        self.runtime.wait(self.keyspace.digest_in(scope, input))
    }

    /// The keys of several inputs, in their order.
    pub fn digest_many(&self, scope: &str, inputs: &[&str]) -> Result<Vec<Key>, Error> {
        self.runtime.wait(self.keyspace.digest_many(scope, inputs))
    }

    /// Reserves a key of your choice; returns whether it is new.
    pub fn add_alias(&self, alias: &str, owner: &str) -> Result<bool, Error> {
        self.runtime.wait(self.keyspace.add_alias(alias, owner))
    }

    /// Removes an alias.
    pub fn remove_alias(&self, alias: &str, owner: &str) -> Result<(), Error> {
        self.runtime.wait(self.keyspace.remove_alias(alias, owner))
    }

    /// An alias with its owner and when it was added.
    pub fn alias(&self, alias: &str) -> Result<Alias, Error> {
        self.runtime.wait(self.keyspace.alias(alias))
    }

    /// A page of aliases.
    pub fn aliases(&self, after: Option<&str>) -> Result<Page<Alias>, Error> {
        self.runtime.wait(self.keyspace.aliases(after))
    }

    /// Explains where a key came from.
    pub fn explain(&self, key: &str) -> Result<Explanation, Error> {
        self.runtime.wait(self.keyspace.explain(key))
    }

    /// Retires a key that was handed out.
    pub fn retire(&self, key: &str) -> Result<UsedKey, Error> {
        self.runtime.wait(self.keyspace.retire(key))
    }

    /// Creates the keyspace, unless it exists already.
    pub fn ensure(&self, definition: &Definition) -> Result<KeyspaceInfo, Error> {
        self.runtime.wait(self.keyspace.ensure(definition))
    }

    /// Its settings and usage.
    pub fn show(&self) -> Result<KeyspaceInfo, Error> {
        self.runtime.wait(self.keyspace.show())
    }
}

impl CachedKeyspace {
    /// Takes a key: at once if there is one in memory, otherwise when the next ones arrive.
    pub fn take(&self) -> Result<Key, Error> {
        match self.cache.draw() {
            Some(key) => Ok(key),
            None => self.runtime.wait(self.cache.take()),
        }
    }

    /// Takes a key if there is one in memory.
    pub fn try_take(&self) -> Option<Key> {
        self.cache.draw().or_else(|| {
            let handle = self.runtime.handle().ok()?;
            let _within = handle.enter();
            self.cache.try_take()
        })
    }

    /// How many keys are in memory.
    pub fn len(&self) -> u64 {
        self.cache.len()
    }

    /// Whether there are no keys in memory.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// Whether keys are handed out from memory, and if not, why.
    pub fn status(&self) -> CacheStatus {
        self.cache.status()
    }
}

/// The runtime of a client. A forked child makes its own.
struct Runtime {
    thread: ArcSwap<Thread>,
}

/// A thread that drives a runtime until it is dropped.
struct Thread {
    generation: u64,
    handle: Handle,
    /// Dropped to stop it.
    stop: Option<oneshot::Sender<()>>,
}

impl Runtime {
    fn new() -> Result<Runtime, Error> {
        Ok(Runtime { thread: ArcSwap::from_pointee(Thread::start()?) })
    }

    /// Drives a call on the calling thread, which waits for it; connections and timers are the other thread's.
    fn wait<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.handle()?.block_on(call)
    }

    fn handle(&self) -> Result<Handle, Error> {
        let thread = self.thread.load();
        if thread.generation == fork::generation() {
            return Ok(thread.handle.clone());
        }
        // The thread of the parent does not run here. If another one of this process was faster, its runtime is used.
        self.thread.compare_and_swap(&thread, Arc::new(Thread::start()?));
        Ok(self.thread.load().handle.clone())
    }
}

impl Thread {
    fn start() -> Result<Thread, Error> {
        let broken =
            |error| Error::bad_settings(format!("cannot start a thread for the client: {error}"));
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build().map_err(broken)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let drive = move || {
            // An error says that the sender is gone, which is how it is told to stop.
            let _ = runtime.block_on(stopped);
        };
        thread::Builder::new().name("keymill-client".to_owned()).spawn(drive).map_err(broken)?;
        Ok(Thread { generation: fork::generation(), handle, stop: Some(stop) })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            // To stop a thread of the parent would wake it.
            std::mem::forget(self.stop.take());
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").finish_non_exhaustive()
    }
}
