//! HTTP: the routes, from the two hot ones to the pages for people.
//!
//! `server` hands every request to [`Http::answer`], unless `single` has answered it. Takes are matched by
//! hand and answered without a router, because they are nearly all of the traffic; the rest is axum's.

mod accept;
mod activity;
pub(super) mod admission;
mod advance;
mod aliases;
mod ask;
mod audit;
mod body;
mod browser;
pub(super) mod budget;
pub(super) mod checks;
mod codes;
mod cookie;
mod digests;
mod docs;
mod explain;
mod guard;
mod health;
mod imports;
mod key_bounds;
mod listeners;
mod moving;
mod needs;
mod openapi;
pub(super) mod origin;
pub(super) mod page;
mod params;
pub(super) mod pieces;
mod pool;
mod preview;
mod problem;
pub(super) mod request_body;
mod routes;
mod session;
mod single;
mod space_changes;
mod spaces;
mod state;
mod store;
mod streamed_body;
mod take;
mod token_views;
pub(super) mod tokens;
mod used;
#[cfg(feature = "cli")]
pub(crate) mod views;
mod web_page;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body as AxumBody;
use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, Version};
use keymill_engine::operations::Service;
use tower::ServiceExt;
use tracing::Instrument;

pub use super::view::{ExplanationView, LeaseView, SafeNumber, SpaceView};
pub use aliases::AliasRecordView;
pub use budget::{UNSENT_MAX, UNSENT_MIN};
pub use listeners::{Listener, is_admin_only};
pub(crate) use origin::ClientCertificate;
pub use problem::Problem;
pub(crate) use state::State;
pub use used::UsedView;

pub use self::browser::BrowserRules;
use self::budget::Line;
use crate::front;
use crate::front::redis::Redis;
use crate::front::span;
use crate::metrics::tls::TlsFigures;
use crate::metrics::{Protocol, Refusal, Route};
use checks::Asked;
use origin::Origin;
use request_body::RequestBody;
use routes::router;
use tokens::{Act, Unchanged};

/// An answer's body: bytes that are ready, or a body that axum made or that is made in pieces.
pub type Body = Either<Full<Bytes>, AxumBody>;

/// The HTTP front of one instance, as one connection sees it.
#[derive(Debug, Clone)]
pub struct Http {
    pub(super) state: State,
    router: Router,
    pub(super) origin: Arc<Origin>,
}

impl Http {
    /// A front on a service. `/get-key` takes from `default_space`.
    pub fn new(service: Service, default_space: &str, body_max: usize) -> Http {
        let state = State::new(service, default_space, body_max);
        let router = router(state.clone());
        let origin = Arc::new(state.origins.connection(None, Listener::Public, false));
        Http { state, router, origin }
    }

    /// Counts a connection beyond a limit.
    pub(crate) fn count_refused(&self, refusal: Refusal) {
        self.state.metrics.count_refused(refusal);
    }

    /// What readiness and metrics tell of TLS.
    pub(crate) fn tls_figures(&self) -> &TlsFigures {
        &self.state.metrics.tls
    }

    /// Who is at the other end of the connection.
    pub(crate) fn sender(&self) -> Option<IpAddr> {
        self.origin.sender()
    }

    /// The front for one connection of a client, and its [`Line`], which still has to be told how to cut the
    /// connection off. On a reserved connection, only health checks and metrics are answered.
    pub(crate) fn for_connection(
        &self,
        client: IpAddr,
        listener: Listener,
        is_reserved: bool,
    ) -> (Http, Arc<Line>) {
        let (mut http, line) = (self.clone(), Arc::<Line>::default());
        http.state.line = Some(line.clone());
        http.origin = Arc::new(self.state.origins.connection(Some(client), listener, is_reserved));
        (http, line)
    }

    /// The Redis protocol on the same service, with the same tokens, limits and counts.
    pub(crate) fn redis(&self) -> Redis {
        let State { service, access, metrics, budget, .. } = self.state.clone();
        Redis::new(service, access, metrics, budget)
    }

    /// Notes that the connection is over TLS, and the certificate of the client, if it has shown one. It was verified,
    /// and grants nothing by itself.
    pub(crate) fn set_secured(&self, certificate: Option<ClientCertificate>) {
        self.origin.set_secured(certificate);
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        if cfg!(feature = "otel") {
            let span = span::begin(Some(request.headers()));
            // On the heap, so that a build without spans has no room for them.
            return Ok(Box::pin(self.answer_asked(request).instrument(span)).await);
        }
        Ok(self.answer_asked(request).await)
    }

    async fn answer_asked(&self, request: Request<Incoming>) -> Response<Body> {
        #[cfg(feature = "grpc")]
        if front::grpc::is_call(&request) {
            // On the heap, so that the future of a take over HTTP stays small.
            return Box::pin(front::grpc::answer(self, request)).await;
        }
        let (began, protocol) = (Instant::now(), protocol_of(&request));
        let is_head = request.method() == Method::HEAD;
        let asked = Asked::new(&self.state, &self.origin, &request);
        let rules = self.state.browser_rules.load();
        let reader = admission::allowed_origin(&rules, request.headers());
        let checked = checks::check(&self.origin, &request)
            .and_then(|()| listeners::check(&self.state, &self.origin, &request));
        let (route, answer) = match checked {
            Ok(()) => match admission::preflight(&rules, &request) {
                Some(answer) => (Route::Other, Ok(answer)),
                None => self.answer_admitted(request).await,
            },
            Err(problem) => (Route::Other, Err(problem)),
        };
        let mut answer = answer.unwrap_or_else(Problem::into_answer);
        if let Some(origin) = reader {
            admission::allow_reading(origin, &mut answer);
        }
        asked.finish(&self.origin, &mut answer);
        if is_head {
            // Over HTTP/2, nothing else would remove it.
            *answer.body_mut() = Either::Left(Full::default());
        }
        self.state.metrics.count((protocol, route), answer.status(), began.elapsed());
        span::end((protocol, route), answer.status());
        answer
    }

    /// Answers a request if its sender may send it, and puts on record what administrators do.
    async fn answer_admitted(
        &self,
        mut request: Request<Incoming>,
    ) -> (Route, Result<Response<Body>, Problem>) {
        let has_token = request.headers().contains_key(header::AUTHORIZATION);
        let ask = |is_last| admission::admit(&self.state, &self.origin, &request, is_last);
        let State { access, service, .. } = &self.state;
        let caller = match front::admission::admit(access, service, has_token, ask).await {
            Ok(caller) => Arc::new(caller),
            Err(problem) => return (Route::Other, Err(problem)),
        };
        let act = Act::of(&self.state, &self.origin, &caller, &request);
        request.extensions_mut().insert(caller);
        let Some(act) = act else { return self.route(request).await };
        // In a task of its own: what was begun is done and put on record, also if the client goes away.
        let http = self.clone();
        let acting = async move {
            let (route, answer) = http.route(request).await;
            let is_refused = match &answer {
                Ok(answer) => answer.status().is_client_error(),
                Err(problem) => problem.is_refusal(),
            };
            let is_unchanged = answer.as_ref().is_ok_and(Unchanged::is_in);
            // An import that was refused half-way has put keys into the pool.
            if (!is_refused || act.may_be_partial()) && !is_unchanged {
                let done = answer.as_ref().ok().and_then(|it| it.extensions().get().cloned());
                act.record(&http.state, done).await;
            }
            (route, answer)
        };
        match tokio::spawn(acting.in_current_span()).await {
            Ok(answered) => answered,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }

    async fn route(&self, request: Request<Incoming>) -> (Route, Result<Response<Body>, Problem>) {
        let path = request.uri().path();
        if request.method() == Method::POST
            && let Some(rest) = path.strip_prefix("/v1/spaces/")
            && let Some((space, what)) = rest.split_once('/')
        {
            let encoded_name = space.to_owned();
            match what {
                "keys" => {
                    return (Route::Take, take::post(&self.state, &encoded_name, request).await);
                }
                // On the heap, like everything rare, so that the future of a take stays small.
                "pool" => {
                    let import = Box::pin(imports::into_pool(
                        &self.state,
                        &self.origin,
                        &encoded_name,
                        request,
                    ));
                    return (Route::Other, import.await);
                }
                "used-keys" => {
                    let import = Box::pin(imports::as_used(
                        &self.state,
                        &self.origin,
                        &encoded_name,
                        request,
                    ));
                    return (Route::Other, import.await);
                }
                "advance" => {
                    let advance = Box::pin(advance::post(&self.state, &encoded_name, request));
                    return (Route::Other, advance.await);
                }
                _ => {}
            }
        }
        if request.method() == Method::POST && path == "/v1/import" {
            let import = Box::pin(moving::import(&self.state, &self.origin, request));
            return (Route::Other, import.await);
        }
        if request.method() == Method::GET && path == "/get-key" {
            return (Route::GetKey, take::get_key(&self.state, &request).await);
        }
        if request.method() == Method::HEAD && path == "/get-key" {
            return (Route::GetKey, take::head(&self.state, request.uri()).await);
        }
        let route = Route::of_path(path);
        (route, Box::pin(self.ask_router(request)).await)
    }

    async fn ask_router(&self, request: Request<Incoming>) -> Result<Response<Body>, Problem> {
        check_encoding(request.uri())?;
        let policy = guard::policy(request.uri().path());
        let can_repeat = request.method() == Method::GET;
        let is_session = request.uri().path() == "/v1/session";
        let seen = is_session.then(|| session::Seen::of(&self.state, &self.origin, &request));
        let (mut parts, body) = request.into_parts();
        if let Some(seen) = seen {
            parts.extensions.insert(seen);
        }
        // The body of a GET has no meaning, so it is not read.
        let body = match parts.method {
            Method::GET | Method::HEAD => RequestBody::default(),
            _ => self.state.read_body(body).await?,
        };
        if !body.bytes.is_empty() && parts.method != Method::DELETE {
            body::check_label(&parts.headers)?;
        }
        let room = pieces::room_for_strings(&self.state, &body.bytes).await?;
        let request = Request::from_parts(parts, AxumBody::from(body.bytes.clone()));
        let Ok(mut answer) = self.router.clone().oneshot(request).await;
        guard::add(answer.headers_mut(), policy);
        let answer = answer.map(Either::Right);
        match room {
            Some(room) => Ok(pieces::sliced(&self.state, answer, room)),
            None if can_repeat => pieces::counted(&self.state, answer),
            None => Ok(answer),
        }
    }
}

/// What a request is spoken in.
#[inline]
fn protocol_of<B>(request: &Request<B>) -> Protocol {
    if request.version() == Version::HTTP_2 { Protocol::Http2 } else { Protocol::Http1 }
}

/// An answer whose bytes are ready.
fn full(content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut answer = Response::new(Either::Left(Full::new(body.into())));
    label(answer.headers_mut(), HeaderValue::from_static(content_type));
    answer
}

/// Sets the content type of such an answer, and forbids caching it.
fn label(headers: &mut HeaderMap, content_type: HeaderValue) {
    // Made once, because `from_static` checks every byte on every call.
    static NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, NO_STORE.clone());
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, guard::NOSNIFF.clone());
}

/// Refuses a percent sign that is not followed by two hexadecimal digits, and text that is
/// not UTF-8 once decoded: guessing what was meant would look up the wrong key.
fn check_encoding(uri: &hyper::Uri) -> Result<(), Problem> {
    let broken = |text: &str| {
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            let digits = rest.as_bytes().get(at + 1..at + 3);
            if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                return true;
            }
            rest = &rest[at + 3..];
        }
        percent_encoding::percent_decode_str(text).decode_utf8().is_err()
    };
    if broken(uri.path()) || uri.query().is_some_and(broken) {
        return Err(Problem::bad_request(
            "bad_encoding",
            "the URL has invalid percent-encoding".to_owned(),
        ));
    }
    Ok(())
}
