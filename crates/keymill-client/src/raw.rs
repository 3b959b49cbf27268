//! Any request of the HTTP interface, with its answer as it comes: for programs that show what a server says, such as
//! keymill's own command line.
//!
//! Not a part of the stable interface of this crate.

mod stream;

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
pub use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
pub use hyper::{Method, StatusCode};
pub use stream::RawStream;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use crate::calls::{Attempt, Stop};
use crate::client::Client;
use crate::error::Error;
use crate::request::{begin, retry_after};
use crate::servers::Server;
use crate::transport::{self, Body, Failure};

/// How long to wait for the next chunk of an answer.
const CHUNK_TIME_MAX: Duration = Duration::from_secs(30);

/// A request.
#[derive(Debug)]
pub struct RawRequest {
    /// The method.
    pub method: Method,
    /// Path and query, encoded.
    pub target: String,
    /// Headers besides `Host`, `User-Agent` and `Authorization`.
    pub headers: HeaderMap,
    /// The body.
    pub body: RawBody,
    /// Whether it does no harm to send it twice. `None` decides by the method: `GET`, `HEAD`, `PUT` and `DELETE` do none.
    pub is_repeatable: Option<bool>,
    /// Whether a server that was reached may take as long as it needs to answer. The deadline of a call then only
    /// bounds how long it is tried.
    pub is_patient: bool,
}

/// The body of a request.
#[derive(Debug)]
pub enum RawBody {
    /// All of it; may be empty.
    Whole(Bytes),
    /// Chunks as they come. A request with these is sent once, and takes as long as it needs.
    Chunks(Receiver<io::Result<Bytes>>),
}

/// An answer, whatever its status.
#[derive(Debug)]
pub struct RawAnswer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    answer: transport::Answer,
}

impl RawRequest {
    /// A request without a body.
    pub fn new(method: Method, target: impl Into<String>) -> RawRequest {
        let body = RawBody::Whole(Bytes::new());
        let (target, headers) = (target.into(), HeaderMap::new());
        RawRequest { method, target, headers, body, is_repeatable: None, is_patient: false }
    }
}

impl RawAnswer {
    /// The next chunk of the body; `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        match timeout(CHUNK_TIME_MAX, self.answer.chunk()).await {
            Ok(chunk) => chunk.map_err(broken),
            Err(_) => {
                Err(Error::unreachable("the server stopped in the middle of an answer".to_owned()))
            }
        }
    }

    /// The rest of the body.
    pub async fn bytes(&mut self) -> Result<Bytes, Error> {
        self.answer.whole().await.map_err(broken)
    }

    /// The error in the answer, if its status is not one of success.
    pub async fn check(mut self) -> Result<RawAnswer, Error> {
        if self.status.is_success() {
            return Ok(self);
        }
        let server = self.answer.server();
        let body = self.bytes().await?;
        let error = Error::from_answer(self.status.as_u16(), retry_after(&self.headers), &body);
        Err(match server {
            Some(server) => error.with_server(&server),
            None => error,
        })
    }
}

impl Client {
    /// Sends a request and returns the answer, whatever its status. Other servers are tried while none has seen the
    /// request and, if it is repeatable, also after that.
    pub async fn send_raw(&self, request: RawRequest) -> Result<RawAnswer, Error> {
        if request.target.parse::<hyper::Uri>().is_err() || !request.target.starts_with('/') {
            let target = request.target.escape_debug();
            return Err(Error::bad_settings(format!("`{target}` is not an encoded path")));
        }
        let RawRequest { method, target, headers, body, is_repeatable, is_patient } = request;
        let (whole, chunks) = match body {
            RawBody::Whole(whole) => (whole, None),
            RawBody::Chunks(chunks) => (Bytes::new(), Some(chunks)),
        };
        let is_safe = matches!(method, Method::GET | Method::HEAD | Method::PUT | Method::DELETE);
        let call = RawCall {
            is_repeatable: is_repeatable.unwrap_or(is_safe) && chunks.is_none(),
            is_unlimited: is_patient || chunks.is_some(),
            method,
            target,
            headers,
            whole,
            chunks: Mutex::new(chunks),
            authorization: self.authorization().cloned(),
        };
        let answer = self.run(&call).await?;
        let (status, headers) = (answer.status, answer.headers.clone());
        Ok(RawAnswer { status, headers, answer })
    }
}

#[derive(Debug)]
struct RawCall {
    method: Method,
    target: String,
    headers: HeaderMap,
    whole: Bytes,
    /// Taken once, when there is a connection.
    chunks: Mutex<Option<Receiver<io::Result<Bytes>>>>,
    authorization: Option<HeaderValue>,
    is_repeatable: bool,
    is_unlimited: bool,
}

impl Attempt for RawCall {
    type Answer = transport::Answer;

    async fn attempt(&self, server: &Server, sent: &AtomicBool) -> Result<Self::Answer, Stop> {
        let make = || {
            let address = &server.line.address;
            let mut request =
                begin(address, &self.method, &self.target, self.authorization.as_ref());
            for (name, value) in &self.headers {
                request.headers_mut().append(name, value.clone());
            }
            let chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner).take();
            request.map(|()| match chunks {
                Some(chunks) => Body::Chunks(chunks),
                None => Body::whole(self.whole.clone()),
            })
        };
        server.line.send(make, sent).await.map_err(Stop::Failed)
    }

    fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }

    fn is_unlimited(&self) -> bool {
        self.is_unlimited
    }
}

fn broken(failure: Failure) -> Error {
    let (Failure::NotSent(problem) | Failure::Lost { problem, .. }) = failure;
    Error::unreachable(format!("the server {problem}"))
}
