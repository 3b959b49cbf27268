//! Accepting: from bound sockets to connections that have a place, and to those that are refused.
//!
//! `server` asks for the next connection and gives it to a thread; it has one acceptor for all public sockets,
//! one for the admin socket, and one for those of the Redis protocol. Nothing here waits for a client before the
//! next one is accepted: a trusted proxy's header is read beside the loop, and TLS is none of its business.

use std::future::poll_fn;
use std::io::{self, Write};
use std::net::{IpAddr, TcpStream as StdTcpStream};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::listeners::{Bound, Socket};
use super::places::{AddressPlace, Addresses, Place, Reserve};
use super::proxy_protocol;
use super::tls::Tls;
use super::warning::Warning;
use crate::front::http::{Http, Listener};
use crate::front::redis;
use crate::metrics::Refusal;

/// How long a server that stops waits for proxies to say whom they connect.
const ARRIVAL_TIME_MAX: Duration = Duration::from_millis(200);

/// After how long without a byte a client of the Redis protocol is asked whether it is still there, how often it is
/// asked again, and how many times before it is taken for gone.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(20);
const KEEPALIVE_TRIES: u32 = 3;

/// Written to a connection of an address that has too many, in one piece and without reading: it costs
/// no more than closing it, and tells people behind a shared address what is wrong.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\n\
    retry-after: 10\r\n\
    connection: close\r\n\
    content-length: 163\r\n\r\n\
    {\"code\":\"too_many_connections\",\"status\":503,\"title\":\"Service Unavailable\",\
    \"detail\":\"your address has too many connections open; close some, or use fewer at once\"}\n";

/// A connection that was accepted.
pub(super) struct Connection {
    pub(super) stream: Stream,
    /// What it speaks.
    pub(super) protocol: Protocol,
    /// Who is at its other end: for a trusted proxy that says so, the client.
    pub(super) client: IpAddr,
    pub(super) place: Place,
    /// Held until its end, like its place.
    pub(super) address: AddressPlace,
}

/// What is spoken on a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP, on a public listener or on the admin listener.
    Http(Listener),
    /// The Redis protocol.
    Redis,
}

/// What a connection is made over, on its way to the thread that serves it.
pub(super) enum Stream {
    Tcp(StdTcpStream),
    Tls(StdTcpStream, Arc<Tls>),
    Unix(StdUnixStream),
}

/// What accepts connections from some sockets, which share their places. Dropping it closes the sockets, and
/// the connections whose header is being read.
pub(super) struct Acceptor {
    sockets: Vec<Bound>,
    /// Which socket was accepted from last.
    turn: usize,
    protocol: Protocol,
    tls: Option<Arc<Tls>>,
    http: Http,
    places: Arc<Semaphore>,
    reserve: Reserve,
    addresses: Arc<Addresses>,
    /// How long a trusted proxy may take for its first bytes.
    first_byte_time_max: Duration,
    /// Connections of trusted proxies, until it is known for whom.
    arriving: JoinSet<Option<Connection>>,
    beyond_limit: Warning,
    beyond_address: Arc<Mutex<Warning>>,
}

impl Acceptor {
    /// Accepts from these sockets, as many at once as there are places in all and for each address.
    pub(super) fn new(
        sockets: Vec<Bound>,
        protocol: Protocol,
        tls: Option<Arc<Tls>>,
        http: Http,
        places: Arc<Semaphore>,
        addresses: Arc<Addresses>,
        first_byte_time_max: Duration,
    ) -> Acceptor {
        Acceptor {
            sockets,
            turn: 0,
            protocol,
            tls,
            http,
            places,
            reserve: Reserve::default(),
            addresses,
            first_byte_time_max,
            arriving: JoinSet::new(),
            beyond_limit: Warning::default(),
            beyond_address: Arc::default(),
        }
    }

    /// The next connection that has a place. Nothing is lost where this is dropped.
    pub(super) async fn next(&mut self) -> io::Result<Connection> {
        loop {
            let (sockets, turn) = (&self.sockets, &mut self.turn);
            let (socket, peer) = tokio::select! {
                accepted = poll_fn(|context| poll_accept(sockets, turn, context)) => accepted?,
                Some(arrived) = self.arriving.join_next() => {
                    if let Ok(Some(connection)) = arrived {
                        return Ok(connection);
                    }
                    continue;
                }
            };
            if let Some(connection) = self.admit(socket, peer) {
                return Ok(connection);
            }
        }
    }

    /// Closes the sockets, and gives the connections that the system had accepted before.
    pub(super) async fn close(mut self) -> Vec<Connection> {
        let mut accepted = Vec::new();
        for mut bound in std::mem::take(&mut self.sockets) {
            bound.hide();
            while let Ok((socket, peer)) = bound.accept_now() {
                accepted.extend(self.admit(socket, peer));
            }
        }
        let deadline = Instant::now() + ARRIVAL_TIME_MAX;
        while let Ok(Some(arrived)) = timeout_at(deadline, self.arriving.join_next()).await {
            accepted.extend(arrived.ok().flatten());
        }
        accepted
    }

    /// Gives a connection its place, or refuses it; `None` also for one that arrives later.
    fn admit(&mut self, socket: Socket, peer: IpAddr) -> Option<Connection> {
        if let Socket::Tcp(stream) = &socket {
            // Keys are small: waiting to fill a packet would only delay them.
            stream.set_nodelay(true).ok()?;
            if self.protocol == Protocol::Redis {
                keep_alive(stream).ok()?;
            }
        }
        let rules = self.http.address_rules();
        let max = rules.connections_per_address_max;
        let is_trusted = rules.is_trusted(peer);
        let counted =
            if is_trusted { Some(AddressPlace::exempt()) } else { self.addresses.enter(peer, max) };
        let Some(address) = counted else {
            self.http.count_refused(Refusal::Address);
            note_address(&self.beyond_address, peer, max);
            refuse(socket, self.tls.is_some(), self.protocol.too_many());
            return None;
        };
        let place = match self.places.clone().try_acquire_owned() {
            Ok(permit) => Place::Usual { _permit: permit },
            Err(_) => {
                self.http.count_refused(Refusal::Full);
                if let Some(count) = self.beyond_limit.note() {
                    self.protocol.warn_full(count);
                }
                if self.protocol == Protocol::Redis {
                    // It has neither health checks nor metrics, for which others are kept open.
                    refuse(socket, self.tls.is_some(), redis::FULL);
                    return None;
                }
                self.reserve.take()
            }
        };
        let arrival = Arrival { protocol: self.protocol, tls: self.tls.clone(), place };
        if !is_trusted {
            return arrival.finish(socket, peer, address);
        }
        let (addresses, http) = (self.addresses.clone(), self.http.clone());
        let beyond_address = self.beyond_address.clone();
        let deadline = Instant::now() + self.first_byte_time_max;
        let deadline = arrival.place.until().map_or(deadline, |until| until.min(deadline));
        self.arriving.spawn(async move {
            let mut socket = socket;
            let named = timeout_at(deadline, proxy_protocol::read(&mut socket)).await.ok()?;
            let named = named.inspect_err(|error| tracing::debug!(%peer, "{error}")).ok()?;
            let Some(client) = named.map(|client| client.to_canonical()) else {
                return arrival.finish(socket, peer, AddressPlace::exempt());
            };
            if http.address_rules().is_trusted(client) {
                return arrival.finish(socket, client, AddressPlace::exempt());
            }
            let Some(address) = addresses.enter(client, max) else {
                http.count_refused(Refusal::Address);
                note_address(&beyond_address, client, max);
                refuse(socket, arrival.tls.is_some(), arrival.protocol.too_many());
                return None;
            };
            arrival.finish(socket, client, address)
        });
        None
    }
}

/// The next connection of any socket. They are asked in turn, so that none keeps the others waiting.
fn poll_accept(
    sockets: &[Bound],
    turn: &mut usize,
    context: &mut Context<'_>,
) -> Poll<io::Result<(Socket, IpAddr)>> {
    for _ in 0..sockets.len() {
        *turn = (*turn + 1) % sockets.len();
        if let Poll::Ready(accepted) = sockets[*turn].poll_accept(context) {
            return Poll::Ready(accepted);
        }
    }
    Poll::Pending
}

/// A connection that has its place, until it is known for whom.
struct Arrival {
    protocol: Protocol,
    tls: Option<Arc<Tls>>,
    place: Place,
}

impl Arrival {
    fn finish(self, socket: Socket, client: IpAddr, address: AddressPlace) -> Option<Connection> {
        let stream = match (socket, self.tls) {
            (Socket::Tcp(stream), None) => Stream::Tcp(stream.into_std().ok()?),
            (Socket::Tcp(stream), Some(tls)) => Stream::Tls(stream.into_std().ok()?, tls),
            (Socket::Unix(stream), _) => Stream::Unix(stream.into_std().ok()?),
        };
        let (protocol, place) = (self.protocol, self.place);
        Some(Connection { stream, protocol, client, place, address })
    }
}

impl Protocol {
    /// What somebody is told whose address has too many connections.
    fn too_many(self) -> &'static [u8] {
        match self {
            Protocol::Http(_) => TOO_MANY,
            Protocol::Redis => redis::TOO_MANY,
        }
    }

    /// Says that all places are taken.
    fn warn_full(self, count: u64) {
        match self {
            Protocol::Http(Listener::Public) => tracing::warn!(
                count,
                "all connections are in use (limits.connections_max); new ones get 503, \
                 except for health checks and metrics"
            ),
            Protocol::Http(Listener::Admin) => tracing::warn!(
                count,
                "all connections of the admin listener are in use; new ones get 503, except for \
                 health checks and metrics"
            ),
            Protocol::Redis => tracing::warn!(
                count,
                "all connections are in use (limits.connections_max); new ones over the Redis protocol are closed"
            ),
        }
    }
}

/// Notes that an address was refused a connection, and says so now and then.
fn note_address(warning: &Mutex<Warning>, address: IpAddr, max: usize) {
    let noted = warning.lock().expect("nothing panics while it is held").note();
    if let Some(count) = noted {
        tracing::warn!(count, %address, "an address has {max} connections open \
                                         (limits.connections_per_address_max); new ones from it \
                                         are refused");
    }
}

/// Says why, as far as that costs no waiting, and closes. Over TLS, nothing can be said before the handshake.
fn refuse(socket: Socket, is_tls: bool, why: &[u8]) {
    // It does not block; a client that has gone already is none of our business.
    let _ = match socket {
        Socket::Tcp(_) if is_tls => return,
        Socket::Tcp(stream) => stream.into_std().and_then(|mut stream| stream.write(why)),
        Socket::Unix(stream) => stream.into_std().and_then(|mut stream| stream.write(why)),
    };
}

/// Has the system ask now and then whether the other end is still there: programs keep connections to Redis open for
/// days, and one whose machine has lost its power would keep its place.
fn keep_alive(stream: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_TRIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_too_many_connections_is_as_long_as_it_says() {
        let text = std::str::from_utf8(TOO_MANY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{}", body.len());
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["code"], "too_many_connections");
    }
}
