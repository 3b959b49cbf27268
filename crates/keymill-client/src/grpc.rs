//! gRPC: the calls of a keyspace over HTTP/2, on the same port as HTTP.
//!
//! `keyspace` comes here if the client was told to use gRPC. Attempts, failover and retries are those of `calls`; errors have
//! the same codes. `convert` turns messages into the answers of this crate.

mod convert;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::header::{self, HeaderValue};
use hyper::{Request as HttpRequest, Response as HttpResponse, Uri};
use hyper_util::rt::TokioExecutor;
use keymill_proto::v1;
use keymill_proto::v1::keymill_client::KeymillClient;
use tokio::sync::Mutex;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::{Request, Response, Status};

use crate::answer::{Alias, Digest, Explanation, Page, Taken, UsedKey, answered_at};
use crate::calls::{Attempt, Stop};
use crate::error::{Error, ErrorKind};
use crate::key::Key;
use crate::keyspace::Keyspace;
use crate::request::USER_AGENT;
use crate::servers::Server;
use crate::transport::{Address, Dialer, Failure, Line, Place};

/// The largest answer that is read.
const ANSWER_MAX: usize = 64 << 20;

/// The one connection to a server, which carries all calls at a time.
#[derive(Debug)]
pub(crate) struct GrpcLine {
    address: Address,
    dialer: Dialer,
    origin: Uri,
    sender: Mutex<Option<SendRequest<Body>>>,
}

/// What a call is sent on.
#[derive(Debug)]
struct Channel {
    sender: SendRequest<Body>,
    authorization: Option<HeaderValue>,
}

type Sending<A> = Pin<Box<dyn Future<Output = Result<Response<A>, Status>> + Send>>;

/// One call. All of them are safe to repeat.
struct GrpcCall<Q, A> {
    request: Q,
    authorization: Option<HeaderValue>,
    send: fn(KeymillClient<Channel>, Request<Q>) -> Sending<A>,
    doubted: AtomicBool,
}

impl GrpcLine {
    pub(crate) fn new(line: &Line) -> GrpcLine {
        let address = line.address.clone();
        let host = address.host.to_str().expect("it was made of text");
        let scheme = match address.place {
            Place::Tcp { is_tls: true, .. } => "https",
            _ => "http",
        };
        let origin = format!("{scheme}://{host}{}", address.prefix);
        let origin = origin.parse().expect("it was made of parts of a URL");
        GrpcLine { address, dialer: line.dialer.clone(), origin, sender: Mutex::new(None) }
    }

    /// Has the next call open a new connection. Calls that are under way are not disturbed.
    pub(crate) fn close(&self) {
        if let Ok(mut sender) = self.sender.try_lock() {
            *sender = None;
        }
    }

    /// The connection, and whether it had been used before.
    async fn sender(&self) -> Result<(SendRequest<Body>, bool), Failure> {
        let mut known = self.sender.lock().await;
        if let Some(sender) = known.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok((sender.clone(), true));
        }
        let stream = self.dialer.open(&self.address, b"h2").await.map_err(Failure::NotSent)?;
        let (sender, connection) = handshake(TokioExecutor::new(), stream)
            .await
            .map_err(|error| Failure::NotSent(format!("does not speak HTTP/2: {error}")))?;
        tokio::spawn(async move {
            // Whoever waits for an answer is told what went wrong.
            let _ = connection.await;
        });
        *known = Some(sender.clone());
        Ok((sender, false))
    }
}

impl GrpcService<Body> for Channel {
    type ResponseBody = Incoming;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = hyper::Result<HttpResponse<Incoming>>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, mut request: HttpRequest<Body>) -> Self::Future {
        let headers = request.headers_mut();
        headers.insert(header::USER_AGENT, USER_AGENT.clone());
        if let Some(authorization) = &self.authorization {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        Box::pin(self.sender.send_request(request))
    }
}

impl<Q: Clone + Send + Sync, A: Send> Attempt for GrpcCall<Q, A> {
    type Answer = A;

    async fn attempt(&self, server: &Server, sent: &AtomicBool) -> Result<A, Stop> {
        let (sender, was_idle) = server.grpc.sender().await.map_err(Stop::Failed)?;
        let channel = Channel { sender, authorization: self.authorization.clone() };
        let client = KeymillClient::with_origin(channel, server.grpc.origin.clone());
        let client = client.max_decoding_message_size(ANSWER_MAX);
        sent.store(true, Ordering::Relaxed);
        match (self.send)(client, Request::new(self.request.clone())).await {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(convert::stop(&status, was_idle)),
        }
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn doubt(&self) {
        self.doubted.store(true, Ordering::Relaxed);
    }
}

impl Keyspace {
    pub(crate) async fn take_by_grpc<K: FromIterator<Key>>(
        &self,
        count: u32,
    ) -> Result<Taken<K>, Error> {
        let (space, caller) = (self.name().to_owned(), self.caller().to_owned());
        let request = v1::TakeRequest { space, count: Some(count), caller };
        let call = self.grpc(request, |mut client, request| {
            Box::pin(async move {
                let answer = client.take(request).await?;
                let answered_at = answered_at(answer.metadata().as_ref());
                Ok(answer.map(|taken| (taken, answered_at)))
            })
        });
        let (v1::TakeResponse { keys, expires_at, .. }, answered_at) =
            self.client().run(&call).await?;
        let keys = keys.iter().map(|key| Key::new(key)).collect();
        let expires_at = expires_at.map(convert::time).transpose()?;
        Ok(Taken { keys, expires_at, answered_at })
    }

    pub(crate) async fn digest_by_grpc(&self, scope: &str, input: &str) -> Result<Digest, Error> {
        let mut keys = self.digest_keys(scope, &[input]).await?.into_iter();
        match keys.next() {
            Some(key) => Ok(Digest { key: Key::new(&key.key), made: key.made }),
            None => Err(Error::bad_answer("the server sent no key for the input".to_owned())),
        }
    }

    pub(crate) async fn digests_by_grpc(
        &self,
        scope: &str,
        inputs: &[&str],
    ) -> Result<Vec<Key>, Error> {
        let keys = self.digest_keys(scope, inputs).await?;
        Ok(keys.iter().map(|key| Key::new(&key.key)).collect())
    }

    async fn digest_keys(&self, scope: &str, inputs: &[&str]) -> Result<Vec<v1::DigestKey>, Error> {
        let request = v1::DigestRequest {
            space: self.name().to_owned(),
            inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
            scope: scope.to_owned(),
        };
        let call = self.grpc(request, |mut client, request| {
            Box::pin(async move { client.digest(request).await })
        });
        let keys = self.client().run(&call).await?.keys;
        match keys.len() == inputs.len() {
            true => Ok(keys),
            false => {
                let detail = "the server sent another number of keys than inputs";
                Err(Error::bad_answer(detail.to_owned()))
            }
        }
    }

    pub(crate) async fn add_alias_by_grpc(&self, alias: &str, owner: &str) -> Result<bool, Error> {
        let (space, alias, owner) = (self.name().to_owned(), alias.to_owned(), owner.to_owned());
        let call = self.grpc(v1::AddAliasRequest { space, alias, owner }, |mut client, request| {
            Box::pin(async move { client.add_alias(request).await })
        });
        Ok(self.client().run(&call).await?.made)
    }

    pub(crate) async fn remove_alias_by_grpc(&self, alias: &str, owner: &str) -> Result<(), Error> {
        let (space, alias, owner) = (self.name().to_owned(), alias.to_owned(), owner.to_owned());
        let call = self
            .grpc(v1::RemoveAliasRequest { space, alias, owner }, |mut client, request| {
                Box::pin(async move { client.remove_alias(request).await })
            });
        match self.client().run(&call).await {
            Ok(_) => Ok(()),
            // An attempt whose answer was lost has removed it.
            Err(error)
                if error.kind() == ErrorKind::UnknownAlias
                    && call.doubted.load(Ordering::Relaxed) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn alias_by_grpc(&self, alias: &str) -> Result<Alias, Error> {
        let (space, alias) = (self.name().to_owned(), alias.to_owned());
        let call = self.grpc(v1::GetAliasRequest { space, alias }, |mut client, request| {
            Box::pin(async move { client.get_alias(request).await })
        });
        self.client().run(&call).await?.try_into()
    }

    pub(crate) async fn aliases_by_grpc(&self, after: Option<&str>) -> Result<Page<Alias>, Error> {
        let (space, after) = (self.name().to_owned(), after.unwrap_or_default().to_owned());
        let request = v1::ListAliasesRequest { space, after, limit: None };
        let call = self.grpc(request, |mut client, request| {
            Box::pin(async move { client.list_aliases(request).await })
        });
        let v1::ListAliasesResponse { aliases, next } = self.client().run(&call).await?;
        let items = aliases.into_iter().map(Alias::try_from).collect::<Result<_, _>>()?;
        Ok(Page { items, next })
    }

    pub(crate) async fn explain_by_grpc(&self, key: &str) -> Result<Explanation, Error> {
        let (space, key) = (self.name().to_owned(), key.to_owned());
        let call = self.grpc(v1::ExplainRequest { space, key }, |mut client, request| {
            Box::pin(async move { client.explain(request).await })
        });
        self.client().run(&call).await?.try_into()
    }

    pub(crate) async fn retire_by_grpc(&self, key: &str) -> Result<UsedKey, Error> {
        let (space, key) = (self.name().to_owned(), key.to_owned());
        let call = self.grpc(v1::RetireRequest { space, key }, |mut client, request| {
            Box::pin(async move { client.retire(request).await })
        });
        self.client().run(&call).await?.try_into()
    }

    fn grpc<Q, A>(
        &self,
        request: Q,
        send: fn(KeymillClient<Channel>, Request<Q>) -> Sending<A>,
    ) -> GrpcCall<Q, A> {
        let authorization = self.client().authorization().cloned();
        GrpcCall { request, authorization, send, doubted: AtomicBool::new(false) }
    }
}
