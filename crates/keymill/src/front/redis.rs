//! The Redis protocol: a keyspace is a set from which keys are popped, so that every language with a Redis client has a
//! client for keymill.
//!
//! `server` makes a [`Redis`] for each connection and a [`Session`] on it, gives the session what it has read, and sends
//! what it writes. It calls the same operations as the other protocols, and admits callers by the same rules. docs/redis.md
//! describes what differs from Redis.

mod admission;
mod commands;
mod connection;
mod failure;
mod frame;
mod job;
mod large;
mod questions;
mod queue;
mod reply;
mod session;
mod take;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use keymill_engine::operations::Service;

pub(crate) use self::frame::COMMAND_LEN_MAX;
pub(crate) use self::session::{Next, Session};

use crate::access::secret_text::TokenHash;
use crate::access::{Access, Caller, Denied};
use crate::front::addresses::counted_as;
use crate::front::http::ClientCertificate;
use crate::front::http::budget::{Budget, Line};
use crate::metrics::Metrics;
use crate::metrics::tls::TlsFigures;

/// Written to a connection beyond `connections_max`, which is then closed. Clients know this sentence of Redis'.
pub(crate) const FULL: &[u8] = b"-ERR max number of clients reached\r\n";
/// Written to a connection of an address that has too many.
pub(crate) const TOO_MANY: &[u8] =
    b"-ERR too_many_connections: your address has too many connections open; close some, or use fewer at once\r\n";

/// The Redis protocol of one instance, as one connection sees it.
#[derive(Debug, Clone)]
pub(crate) struct Redis {
    service: Service,
    access: Arc<Access>,
    metrics: Arc<Metrics>,
    /// How much memory keys may take that have to be there as a whole.
    budget: Arc<Budget>,
    /// How to cut the connection off.
    line: Option<Arc<Line>>,
    /// Its other end; for a proxy that named one, the client.
    client: IpAddr,
    /// What its requests are counted by.
    counted_as: IpAddr,
    /// The certificate of the client, once it has shown one that is valid.
    certificate: Arc<OnceLock<ClientCertificate>>,
    /// The number of the connection.
    id: u64,
    connections: Arc<AtomicU64>,
}

impl Redis {
    /// The protocol on a service, without a connection yet.
    pub(in crate::front) fn new(
        service: Service,
        access: Arc<Access>,
        metrics: Arc<Metrics>,
        budget: Arc<Budget>,
    ) -> Redis {
        let nobody = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Redis {
            service,
            access,
            metrics,
            budget,
            line: None,
            client: nobody,
            counted_as: nobody,
            certificate: Arc::default(),
            id: 0,
            connections: Arc::default(),
        }
    }

    /// The protocol for one connection of a client, and its [`Line`], which still has to be told how to cut the
    /// connection off.
    pub(crate) fn for_connection(&self, client: IpAddr) -> (Redis, Arc<Line>) {
        let line = Arc::<Line>::default();
        let redis = Redis {
            line: Some(line.clone()),
            client,
            counted_as: counted_as(client),
            certificate: Arc::default(),
            id: self.connections.fetch_add(1, Ordering::Relaxed) + 1,
            ..self.clone()
        };
        (redis, line)
    }

    /// Notes the certificate of the client, which was verified. By itself it grants nothing.
    pub(crate) fn set_certificate(&self, certificate: ClientCertificate) {
        // A connection has one handshake.
        let _ = self.certificate.set(certificate);
    }

    /// Who is at the other end of the connection.
    pub(crate) fn client(&self) -> IpAddr {
        self.client
    }

    /// What readiness and metrics tell of TLS.
    pub(crate) fn tls_figures(&self) -> &TlsFigures {
        &self.metrics.tls
    }

    /// Who the client is, by the token that it has shown or by its certificate.
    fn recognize(&self, token: Option<&TokenHash>) -> Result<Caller, Denied> {
        let names = match self.certificate.get() {
            // A connection may last longer than the certificate that it began with.
            Some(certificate) if Timestamp::now() <= certificate.not_after => &*certificate.names,
            _ => &[],
        };
        self.access.recognize(token, names)
    }
}
