//! Accepting: from a bound socket to connections that have a place, and to those that are refused.
//!
//! `server` asks for the next connection and gives it to a thread. Nothing here waits for a client
//! before the next one is accepted: a trusted proxy's header is read beside the loop.

use std::io::{self, Write};
use std::net::{IpAddr, TcpListener as StdTcpListener, TcpStream as StdTcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::places::{AddressPlace, Addresses, Place, Reserve};
use super::proxy_protocol;
use crate::front::http::Http;
use crate::metrics::Refusal;

/// How long a server that stops waits for proxies to say whom they connect.
const ARRIVAL_TIME_MAX: Duration = Duration::from_millis(200);

/// How often it is said that connections are refused.
const WARN_EVERY: Duration = Duration::from_secs(10);

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
    pub(super) stream: StdTcpStream,
    /// Who is at its other end: for a trusted proxy that says so, the client.
    pub(super) client: IpAddr,
    pub(super) place: Place,
    /// Held until its end, like its place.
    pub(super) address: AddressPlace,
}

/// What accepts connections. Dropping it closes the socket, and those whose header is being read.
pub(super) struct Acceptor {
    listener: TcpListener,
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
    /// Accepts from a socket, as many at once as there are places.
    pub(super) fn new(
        listener: TcpListener,
        http: Http,
        places: Arc<Semaphore>,
        first_byte_time_max: Duration,
    ) -> Acceptor {
        Acceptor {
            listener,
            http,
            places,
            reserve: Reserve::default(),
            addresses: Arc::default(),
            first_byte_time_max,
            arriving: JoinSet::new(),
            beyond_limit: Warning::default(),
            beyond_address: Arc::default(),
        }
    }

    /// The next connection that has a place. Nothing is lost where this is dropped.
    pub(super) async fn next(&mut self) -> io::Result<Connection> {
        loop {
            let (stream, address) = tokio::select! {
                accepted = self.listener.accept() => accepted?,
                Some(arrived) = self.arriving.join_next() => {
                    if let Ok(Some(connection)) = arrived {
                        return Ok(connection);
                    }
                    continue;
                }
            };
            // Keys are small: waiting to fill a packet would only delay them.
            if stream.set_nodelay(true).is_ok()
                && let Some(connection) = self.admit(stream, address.ip().to_canonical())
            {
                return Ok(connection);
            }
        }
    }

    /// Closes the socket, and gives the connections that the system had accepted before.
    pub(super) async fn close(mut self) -> Vec<Connection> {
        let mut accepted = Vec::new();
        // Not through the runtime, which may not have heard of them yet.
        if let Ok(listener) = self.listener.as_fd().try_clone_to_owned() {
            let listener = StdTcpListener::from(listener);
            while let Ok((stream, address)) = listener.accept() {
                let ready = stream.set_nonblocking(true).and(stream.set_nodelay(true));
                if ready.is_ok()
                    && let Ok(stream) = TcpStream::from_std(stream)
                {
                    accepted.extend(self.admit(stream, address.ip().to_canonical()));
                }
            }
        }
        let deadline = Instant::now() + ARRIVAL_TIME_MAX;
        while let Ok(Some(arrived)) = timeout_at(deadline, self.arriving.join_next()).await {
            accepted.extend(arrived.ok().flatten());
        }
        accepted
    }

    /// Gives a connection its place, or refuses it; `None` also for one that arrives later.
    fn admit(&mut self, stream: TcpStream, peer: IpAddr) -> Option<Connection> {
        let rules = self.http.address_rules();
        let max = rules.connections_per_address_max;
        let is_trusted = rules.is_trusted(peer);
        let counted =
            if is_trusted { Some(AddressPlace::exempt()) } else { self.addresses.enter(peer, max) };
        let Some(address) = counted else {
            self.http.count_refused(Refusal::Address);
            note_address(&self.beyond_address, peer, max);
            refuse(stream);
            return None;
        };
        let place = match self.places.clone().try_acquire_owned() {
            Ok(permit) => Place::Usual { _permit: permit },
            Err(_) => {
                self.http.count_refused(Refusal::Full);
                if let Some(count) = self.beyond_limit.note() {
                    tracing::warn!(
                        count,
                        "all connections are in use (limits.connections_max); new ones get 503, \
                         except for health checks and metrics"
                    );
                }
                self.reserve.take()
            }
        };
        if !is_trusted {
            return Connection::new(stream, peer, place, address);
        }
        let (addresses, http) = (self.addresses.clone(), self.http.clone());
        let beyond_address = self.beyond_address.clone();
        let deadline = Instant::now() + self.first_byte_time_max;
        let deadline = place.until().map_or(deadline, |until| until.min(deadline));
        self.arriving.spawn(async move {
            let mut stream = stream;
            let named = timeout_at(deadline, proxy_protocol::read(&mut stream)).await.ok()?;
            let named = named.inspect_err(|error| tracing::debug!(%peer, "{error}")).ok()?;
            let Some(client) = named.map(|client| client.to_canonical()) else {
                return Connection::new(stream, peer, place, AddressPlace::exempt());
            };
            if http.address_rules().is_trusted(client) {
                return Connection::new(stream, client, place, AddressPlace::exempt());
            }
            let Some(address) = addresses.enter(client, max) else {
                http.count_refused(Refusal::Address);
                note_address(&beyond_address, client, max);
                refuse(stream);
                return None;
            };
            Connection::new(stream, client, place, address)
        });
        None
    }
}

impl Connection {
    fn new(
        stream: TcpStream,
        client: IpAddr,
        place: Place,
        address: AddressPlace,
    ) -> Option<Connection> {
        let stream = stream.into_std().ok()?;
        Some(Connection { stream, client, place, address })
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

/// Says why, as far as that costs no waiting, and closes.
fn refuse(stream: TcpStream) {
    if let Ok(mut stream) = stream.into_std() {
        // It does not block; a client that has gone already is none of our business.
        let _ = stream.write(TOO_MANY);
    }
}

/// Something to be said now and then, however often it happens.
#[derive(Debug, Default)]
struct Warning {
    count: u64,
    said_at: Option<Instant>,
}

impl Warning {
    /// Notes that it has happened. Where it is time to say so, how often it did since the last time.
    fn note(&mut self) -> Option<u64> {
        self.count += 1;
        if self.said_at.is_some_and(|at| at.elapsed() < WARN_EVERY) {
            return None;
        }
        self.said_at = Some(Instant::now());
        Some(std::mem::take(&mut self.count))
    }
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

    #[tokio::test(start_paused = true)]
    async fn a_warning_comes_at_most_every_ten_seconds_with_how_often() {
        let mut warning = Warning::default();
        assert_eq!(warning.note(), Some(1));
        assert_eq!((warning.note(), warning.note()), (None, None));
        tokio::time::advance(WARN_EVERY).await;
        assert_eq!(warning.note(), Some(3));
    }
}
