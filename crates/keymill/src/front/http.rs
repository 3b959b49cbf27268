//! HTTP: the routes, from the two hot ones to the pages for people.
//!
//! `server` hands every request to [`Http::answer`]. Takes are matched by hand and answered
//! without a router, because they are nearly all of the traffic; the rest is axum's.

mod aliases;
mod audit;
mod digests;
mod docs;
mod explain;
mod health;
mod pool;
mod problem;
mod spaces;
mod take;
mod used;
mod wire;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body as AxumBody;
use axum::routing::{MethodFilter, any, get, on, post};
use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::{Method, Request, Response, header};
use tokio::sync::Semaphore;
use tower::ServiceExt;

pub use aliases::AliasRecordView;
pub use problem::Problem;
pub use used::UsedView;
pub use wire::{ExplanationView, LeaseView, SafeNumber, SpaceView};

use crate::metrics::{Metrics, Route};
use crate::service::Service;

/// An answer's body: bytes that are there already, or whatever axum made.
pub type Body = Either<Full<Bytes>, AxumBody>;

/// How long a body may take to arrive.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);
/// How many imports may be under way at once.
const IMPORTS_MAX: usize = 8;

/// The HTTP front of one instance.
#[derive(Debug, Clone)]
pub struct Http {
    state: State,
    router: Router,
}

/// What the handlers share.
#[derive(Debug, Clone)]
pub(crate) struct State {
    service: Service,
    default_space: Arc<str>,
    metrics: Arc<Metrics>,
    body_max: usize,
    /// Imports under way, each with lines in memory.
    imports: Arc<Semaphore>,
}

impl Http {
    /// A front on a service. `/get-key` takes from `default_space`.
    pub fn new(service: Service, default_space: &str, body_max: usize) -> Http {
        let metrics = Arc::new(Metrics::new(service.clone()));
        let imports = Arc::new(Semaphore::new(IMPORTS_MAX));
        let default_space = default_space.into();
        let state = State { service, default_space, metrics, body_max, imports };
        let router = Router::new()
            .route("/v1/spaces", get(spaces::list))
            .route("/v1/spaces/{space}", get(spaces::show).put(spaces::put))
            .route("/v1/spaces/{space}/keys", post(problem::method_not_allowed))
            .route("/v1/spaces/{space}/keys/{key}", get(explain::explain).delete(used::retire))
            .route("/v1/spaces/{space}/aliases", get(aliases::list))
            .route(
                "/v1/spaces/{space}/aliases/{alias}",
                get(aliases::show).put(aliases::put).delete(aliases::delete),
            )
            .route("/v1/spaces/{space}/digests", post(digests::post))
            .route("/v1/spaces/{space}/used", get(used::list))
            // Answered above, as it streams.
            .route("/v1/spaces/{space}/pool", on(MethodFilter::POST, problem::method_not_allowed))
            .route("/v1/leases", get(audit::leases))
            .route("/v1/instances", get(audit::instances))
            // Answered above; here only so that a wrong method is told from a wrong path.
            .route("/get-key", on(MethodFilter::GET, problem::method_not_allowed))
            .route("/healthz", get(health::alive))
            .route("/readyz", get(health::ready))
            .route("/metrics", get(health::metrics))
            .route("/openapi.json", get(docs::openapi))
            .route("/docs", get(docs::page))
            .route("/", get(docs::home))
            .route("/v1/{*rest}", any(problem::not_found))
            .fallback(problem::not_found)
            .method_not_allowed_fallback(problem::method_not_allowed)
            .with_state(state.clone());
        Http { state, router }
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let (route, answer) = self.route(request).await;
        let answer = answer.unwrap_or_else(Problem::into_answer);
        self.state.metrics.count(route, answer.status());
        Ok(answer)
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
                "pool" => {
                    return (Route::Other, pool::post(&self.state, &encoded_name, request).await);
                }
                _ => {}
            }
        }
        if request.method() == Method::GET && path == "/get-key" {
            return (Route::GetKey, take::get_key(&self.state, &request).await);
        }
        (Route::Other, self.ask_router(request).await)
    }

    async fn ask_router(&self, request: Request<Incoming>) -> Result<Response<Body>, Problem> {
        check_encoding(request.uri())?;
        let (parts, body) = request.into_parts();
        let body = self.state.read_body(body).await?;
        let request = Request::from_parts(parts, AxumBody::from(body));
        let Ok(answer) = self.router.clone().oneshot(request).await;
        Ok(answer.map(Either::Right))
    }
}

impl State {
    /// Reads a whole body, within its limits.
    async fn read_body(&self, body: Incoming) -> Result<Bytes, Problem> {
        if body.is_end_stream() {
            return Ok(Bytes::new());
        }
        let limited = Limited::new(body, self.body_max).collect();
        match tokio::time::timeout(BODY_TIME_MAX, limited).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                Err(Problem::body_too_large(self.body_max))
            }
            Ok(Err(error)) => Err(Problem::bad_request("bad_body", error.to_string())),
            Err(_) => Err(Problem::body_too_slow()),
        }
    }
}

/// An answer of bytes that are there already.
fn full(content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut answer = Response::new(Either::Left(Full::new(body.into())));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    answer
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
            "the percent-encoding of the URL is broken".to_owned(),
        ));
    }
    Ok(())
}
