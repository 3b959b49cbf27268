//! The line to one server: its open connections, and sending a request on one of them.
//!
//! # Invariants
//!
//! - A request is handed to one connection. It is moved to another one only if not a byte of it was sent.
//! - A connection carries one request at a time, and is used again only after its answer was read to the end.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::{HeaderMap, Request, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::address::{Address, Place};
use super::body::Body;
use super::dial::Dialer;

/// How many connections to one server may be open at a time.
const CONNECTIONS_MAX: usize = 256;
/// How long a connection may be unused. Servers, proxies and firewalls close those that are longer.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// The largest answer that is read whole.
const ANSWER_MAX: usize = 64 << 20;

/// The connections to one server.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) address: Address,
    pub(crate) dialer: Dialer,
    /// Whether it has ever answered over HTTP.
    has_answered: AtomicBool,
    idle: Mutex<Vec<Idle>>,
    places: Arc<Semaphore>,
}

#[derive(Debug)]
struct Idle {
    sender: SendRequest<Body>,
    since: Instant,
}

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Not a byte of it was sent.
    NotSent(String),
    /// The server may have seen it. `was_idle`: the connection had been open for a while, and may have been closed by
    /// the server at that very moment.
    Lost { problem: String, was_idle: bool },
}

/// The beginning of an answer. Dropped before its end, it takes its connection with it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    connection: Option<(Arc<Line>, SendRequest<Body>)>,
    was_idle: bool,
    _place: OwnedSemaphorePermit,
}

impl Line {
    pub(crate) fn new(address: Address, dialer: Dialer) -> Line {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let has_answered = AtomicBool::new(false);
        Line { address, dialer, has_answered, idle: Mutex::default(), places }
    }

    /// Sends a request, which `make` builds once there is a connection. `sent` is set when it may be under way.
    pub(crate) async fn send(
        self: &Arc<Line>,
        make: impl FnOnce() -> Request<Body> + Send,
        sent: &AtomicBool,
    ) -> Result<Answer, Failure> {
        let place = self.places.clone().acquire_owned().await.expect("it is never closed");
        let (mut sender, mut was_idle) = self.connection().await?;
        let mut request = make();
        loop {
            sent.store(true, Ordering::Relaxed);
            match sender.try_send_request(request).await {
                Ok(answer) => {
                    self.has_answered.store(true, Ordering::Relaxed);
                    let (parts, body) = answer.into_parts();
                    let connection = Some((self.clone(), sender));
                    let (status, headers) = (parts.status, parts.headers);
                    return Ok(Answer {
                        status,
                        headers,
                        body,
                        connection,
                        was_idle,
                        _place: place,
                    });
                }
                Err(mut error) => match error.take_message() {
                    // The connection was closed before anything was written to it.
                    Some(unsent) if was_idle => {
                        request = unsent;
                        sent.store(false, Ordering::Relaxed);
                        (sender, was_idle) = self.connection().await?;
                    }
                    Some(_) => return Err(Failure::NotSent(error.into_error().to_string())),
                    None => {
                        let problem = self.no_answer(&error.into_error());
                        return Err(Failure::Lost { problem, was_idle });
                    }
                },
            }
        }
    }

    /// Why there is no answer. A server that expects TLS ends a plain connection, or sends what is no HTTP.
    fn no_answer(&self, error: &hyper::Error) -> String {
        let cause = std::error::Error::source(error).and_then(|it| it.downcast_ref::<io::Error>());
        let is_reset = cause.is_some_and(|it| it.kind() == io::ErrorKind::ConnectionReset);
        let is_strange = error.is_parse() || error.is_incomplete_message() || is_reset;
        let is_plain = matches!(self.address.place, Place::Tcp { is_tls: false, .. });
        if is_plain && is_strange && !self.has_answered.load(Ordering::Relaxed) {
            return format!("gave no HTTP answer ({}); does it need https://?", explain(error));
        }
        explain(error)
    }

    /// Closes all connections that are not in use.
    pub(crate) fn close_idle(&self) {
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        drop(idle);
    }

    /// An open connection, and whether it had been used before.
    async fn connection(&self) -> Result<(SendRequest<Body>, bool), Failure> {
        while let Some(mut sender) = self.pop_idle() {
            if sender.ready().await.is_ok() {
                return Ok((sender, true));
            }
        }
        let sender = self.dialer.dial(&self.address).await.map_err(Failure::NotSent)?;
        Ok((sender, false))
    }

    fn pop_idle(&self) -> Option<SendRequest<Body>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let Idle { sender, since } = idle.pop()?;
        if since.elapsed() > IDLE_MAX {
            // The others have been unused for even longer.
            idle.clear();
            return None;
        }
        Some(sender)
    }

    fn push_idle(&self, sender: SendRequest<Body>) {
        if !sender.is_closed() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(Idle { sender, since: Instant::now() });
        }
    }
}

impl Answer {
    /// The server that gives it; unknown once it was read to the end.
    pub(crate) fn server(&self) -> Option<Arc<str>> {
        self.connection.as_ref().map(|(line, _)| line.address.name.clone())
    }

    /// The next chunk of the body; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    // What is not data is a trailer, which nothing here has.
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => {
                    let problem = format!("broke off an answer: {}", explain(&error));
                    return Err(Failure::Lost { problem, was_idle: self.was_idle });
                }
                None => {
                    if let Some((line, sender)) = self.connection.take() {
                        line.push_idle(sender);
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// The whole body.
    pub(crate) async fn whole(&mut self) -> Result<Bytes, Failure> {
        let Some(first) = self.chunk().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.chunk().await? else { return Ok(first) };
        let mut all = BytesMut::from(first);
        all.extend_from_slice(&second);
        while let Some(chunk) = self.chunk().await? {
            if all.len() + chunk.len() > ANSWER_MAX {
                let problem = format!("sent an answer of more than {ANSWER_MAX} bytes");
                return Err(Failure::Lost { problem, was_idle: false });
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all.freeze())
    }
}

/// What hyper says, with what is behind it.
fn explain(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
