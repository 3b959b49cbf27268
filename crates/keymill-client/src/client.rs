//! The client: what its handles share, and the calls that concern no single keyspace.
//!
//! # Invariants
//!
//! - After a fork, the child uses nothing that its parent has connected: see `fork`.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::{HeaderMap, Method, StatusCode};
use serde::de::DeserializeOwned;

use crate::answer::{KeyspaceInfo, Keyspaces, Page};
use crate::budget::Budget;
use crate::builder::Builder;
use crate::calls::{Attempt, Limits, run};
use crate::error::Error;
use crate::fork;
use crate::keyspace::Keyspace;
use crate::request::{HttpCall, encoded};
use crate::servers::Servers;
use crate::transport::{Address, Dialer, Line};

/// A client of one or several servers of the same store. Clones share its connections.
///
/// It must be used within a tokio runtime; [`blocking::Client`](crate::blocking::Client) brings its own. A forked child
/// needs a runtime of its own too; the client then opens connections of its own there.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    addresses: Vec<Address>,
    dialer: Dialer,
    authorization: Option<HeaderValue>,
    limits: Limits,
    #[cfg(feature = "grpc")]
    is_grpc: bool,
    links: ArcSwap<Links>,
}

/// What belongs to one process.
struct Links {
    generation: u64,
    servers: Servers,
    budget: Budget,
}

impl Client {
    /// Settings for a client.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A client of one server, with the token in `KEYMILL_TOKEN` if there is one. Nothing is sent yet.
    pub fn connect(server: &str) -> Result<Client, Error> {
        Client::builder().servers([server]).token_from_env().build()
    }

    /// A client of the servers in `KEYMILL_SERVER`, which are separated by commas, with the token in `KEYMILL_TOKEN`.
    pub fn from_env() -> Result<Client, Error> {
        let servers = std::env::var("KEYMILL_SERVER").unwrap_or_default();
        let servers = servers.split(',').filter(|server| !server.trim().is_empty());
        Client::builder().servers(servers).token_from_env().build()
    }

    pub(crate) fn new(
        addresses: Vec<Address>,
        dialer: Dialer,
        authorization: Option<HeaderValue>,
        limits: Limits,
        #[cfg(feature = "grpc")] is_grpc: bool,
    ) -> Client {
        let links = ArcSwap::from_pointee(Links::new(&addresses, &dialer));
        let shared = Shared {
            addresses,
            dialer,
            authorization,
            limits,
            #[cfg(feature = "grpc")]
            is_grpc,
            links,
        };
        Client { shared: Arc::new(shared) }
    }

    /// A keyspace by its name. Nothing is sent: whether it exists shows with the first call.
    pub fn keyspace(&self, name: impl Into<String>) -> Keyspace {
        Keyspace::new(self.clone(), name.into())
    }

    /// Lists keyspaces, ordered by name: the first page, or the one after the `next` of another. Needs the right `read`
    /// for all keyspaces.
    pub async fn keyspaces(&self, after: Option<&str>) -> Result<Page<KeyspaceInfo>, Error> {
        let target = format!("/v1/spaces{}", page_query(after));
        let list: Keyspaces = self.call(HttpCall::new(Method::GET, target)).await?;
        Ok(list.into())
    }

    /// The same client, with connections of its own.
    #[doc(hidden)]
    pub fn with_own_connections(&self) -> Client {
        let shared = &self.shared;
        Client::new(
            shared.addresses.clone(),
            shared.dialer.clone(),
            shared.authorization.clone(),
            shared.limits,
            #[cfg(feature = "grpc")]
            shared.is_grpc,
        )
    }

    /// The server that was named first.
    pub(crate) fn first_address(&self) -> &Address {
        self.shared.addresses.first().expect("a client has at least one server")
    }

    pub(crate) fn dialer(&self) -> &Dialer {
        &self.shared.dialer
    }

    pub(crate) fn limits(&self) -> Limits {
        self.shared.limits
    }

    /// Whether keys, digests, aliases and explanations are asked for over gRPC.
    #[cfg(feature = "grpc")]
    pub(crate) fn is_grpc(&self) -> bool {
        self.shared.is_grpc
    }

    pub(crate) fn authorization(&self) -> Option<&HeaderValue> {
        self.shared.authorization.as_ref()
    }

    /// Sends a request and reads the answer.
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: HttpCall) -> Result<T, Error> {
        let (_, _, body) = self.send(&call.authorize(self.authorization())).await?;
        read(&body)
    }

    /// Sends a request, authorized already, and returns the answer of success.
    pub(crate) async fn send(
        &self,
        call: &HttpCall,
    ) -> Result<(StatusCode, HeaderMap, Bytes), Error> {
        self.run(call).await
    }

    pub(crate) async fn run<A: Attempt>(&self, call: &A) -> Result<A::Answer, Error> {
        let links = Arc::clone(&self.links());
        run(&links.servers, &links.budget, self.shared.limits, call).await
    }

    /// What belongs to this process. A forked child makes its own.
    fn links(&self) -> Guard<Arc<Links>> {
        let links = self.shared.links.load();
        if links.generation == fork::generation() {
            return links;
        }
        let own = Arc::new(Links::new(&self.shared.addresses, &self.shared.dialer));
        // If another thread was faster, its links are used.
        self.shared.links.compare_and_swap(&links, own);
        self.shared.links.load()
    }
}

impl Links {
    fn new(addresses: &[Address], dialer: &Dialer) -> Links {
        let line = |address: &Address| Line::new(address.clone(), dialer.clone());
        let servers = Servers::new(addresses.iter().map(line));
        Links { generation: fork::generation(), servers, budget: Budget::new() }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            // They are connections of the parent, driven by tasks of a runtime that does not run in this process. To close
            // them would wake those tasks.
            std::mem::forget(std::mem::take(&mut self.servers));
        }
    }
}

/// Reads JSON.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| {
        Error::bad_answer(format!("the answer of the server cannot be read: {error}"))
    })
}

pub(crate) fn page_query(after: Option<&str>) -> String {
    after.map(|after| format!("?after={}", encoded(after))).unwrap_or_default()
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let servers: Vec<&str> =
            self.shared.addresses.iter().map(|address| &*address.name).collect();
        f.debug_struct("Client").field("servers", &servers).finish_non_exhaustive()
    }
}
