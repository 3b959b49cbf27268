//! The Redis protocol on a true server, in this process, on a port of its own.

mod batches;
mod cases;
mod client;
mod connections;
mod foreign;
mod frames;
mod kinds;
mod large;
mod limits;
mod rights;
mod settings;
mod stop;
mod tokens;

use std::net::SocketAddr;

use keymill::server::{Endpoint, Listeners, ServerLimits};
use tokio::net::TcpStream;

use self::client::{Client, Value};
use crate::http::Instance;

/// An instance that speaks the Redis protocol, too.
struct Server {
    instance: Instance,
    address: SocketAddr,
}

impl Server {
    async fn start() -> Server {
        Server::start_with(ServerLimits::default()).await
    }

    async fn start_with(limits: ServerLimits) -> Server {
        Server::start_on(None, limits).await
    }

    /// On a store of the test's choice.
    async fn start_on(store: Option<String>, limits: ServerLimits) -> Server {
        let local = [Endpoint::Tcp(([127, 0, 0, 1], 0).into())];
        let listeners = Listeners::bind(&local, None).await.unwrap();
        Server::start_at(listeners.with_redis(&local).await.unwrap(), store, limits).await
    }

    /// On listeners of the test's choice; its address is that of the first for Redis that has one.
    async fn start_at(listeners: Listeners, store: Option<String>, limits: ServerLimits) -> Server {
        let first = listeners.redis().unwrap().into_iter().find_map(|endpoint| match endpoint {
            Endpoint::Tcp(address) => Some(address),
            Endpoint::Unix(_) => None,
        });
        let address = first.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
        Server { instance: Instance::start_at(listeners, store, limits).await, address }
    }

    async fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.address).await.unwrap())
    }

    /// A client that speaks version 3.
    async fn connect3(&self) -> Client {
        let mut client = self.connect().await;
        assert!(matches!(client.ask(&["HELLO", "3"]).await, Value::Map(_)));
        client
    }

    /// A client that has shown a token.
    async fn connect_as(&self, token: &str) -> Client {
        let mut client = self.connect().await;
        assert_eq!(client.ask(&["AUTH", token]).await, Value::word("OK"));
        client
    }

    /// Has keys of a keyspace in memory.
    async fn warm(&self, space: &str) {
        self.connect().await.settled(&["SPOP", space]).await;
    }
}
