//! gRPC: the calls of `keymill.v1`, health checks and reflection, on the connections of the HTTP front.
//!
//! `Http::answer` hands over every request that is a call. Bodies are read and written here and not by tonic, because
//! the limits of HTTP hold for them: of time, of size, and of memory that all clients share. tonic has the client's code,
//! the status with its details, and the messages of health checks and reflection.
//!
//! # Invariants
//!
//! - Nothing is done for a call before its caller is admitted, and no handler gets a message whose keyspace the caller
//!   may not use ([`admission::Admitted::message`]).
//! - What a client sends never becomes `INTERNAL`.

mod admission;
mod aliases;
mod answers;
mod batches;
mod convert;
mod descriptors;
mod digests;
mod explain;
mod health;
mod messages;
mod methods;
mod reflection;
mod spaces;
mod status;
mod take;
mod take_stream;

use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method as HttpMethod, Request, Response, StatusCode, Version};
use tokio::time::{Instant, timeout_at};

use self::admission::Admitted;
use self::answers::answer_with;
use self::messages::Received;
use self::methods::Method;
use super::addresses::ClientAddress;
use super::http::checks::{self, log_failure, logs_requests};
use super::http::origin::REQUEST_ID;
use super::http::{Body, Http, Problem};
use super::span;
use crate::metrics::{Protocol, Route};

/// The content type of a call, alone or with the format of its messages.
const CONTENT_TYPES: [&str; 2] = ["application/grpc", "application/grpc+proto"];
/// The longest time that a deadline may be away: gRPC allows eight digits of hours.
const DEADLINE_MAX: Duration = Duration::from_secs(3_600 * 100_000_000);

/// Whether a request is a call. Over HTTP/1.1 nothing is: the status of a call is in trailers.
pub(super) fn is_call<B>(request: &Request<B>) -> bool {
    if request.version() != Version::HTTP_2 || request.method() != HttpMethod::POST {
        return false;
    }
    let Some(label) = request.headers().get(header::CONTENT_TYPE) else { return false };
    let name = label.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    let name = name.trim_ascii();
    CONTENT_TYPES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// What the answer to a call, and the log, need to know about it.
#[derive(Debug, Clone)]
struct Asked {
    id: HeaderValue,
    client: Option<ClientAddress>,
    deadline: Option<Instant>,
}

/// Answers one call.
pub(super) async fn answer(http: &Http, request: Request<Incoming>) -> Response<Body> {
    let asked = Asked::new(http, request.headers());
    let shown = logs_requests().then(|| request.uri().path().to_owned());
    let method = Method::of(request.uri().path());
    let (began, route) = (std::time::Instant::now(), method.map_or(Route::Other, Method::route));
    let answered = match admission::admit(http, method, &request).await {
        Ok(admitted) => call(http, &asked, admitted, request).await,
        Err(problem) => Err(problem),
    };
    let (status, mut answer) = match answered {
        Ok(answer) => (StatusCode::OK, answer),
        Err(problem) => (problem.status(), answers::refusal(&asked.status(&problem))),
    };
    http.state.metrics.count((Protocol::Grpc, route), status, began.elapsed());
    span::end((Protocol::Grpc, route), status);
    if let Some(path) = shown {
        let (id, client) = (asked.id(), asked.client.map(tracing::field::display));
        tracing::debug!(request_id = id, client, path, status = status.as_u16(), "answered");
    }
    answer.headers_mut().insert(&REQUEST_ID, asked.id);
    answer
}

/// Does what an admitted caller asks for.
async fn call(
    http: &Http,
    asked: &Asked,
    admitted: Admitted,
    request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    match admitted.method {
        Method::TakeStream => Ok(take_stream::begin(http, asked, admitted, request)),
        Method::HealthWatch => health::watch(http, asked, request.into_body()).await,
        Method::Reflection | Method::ReflectionAlpha => Ok(reflection::begin(http, asked, request)),
        _ => {
            let (parts, body) = request.into_parts();
            let message = messages::only(&http.state, body).await?;
            if admitted.method == Method::Take {
                return take::take(http, asked, &admitted, message, parts.headers).await;
            }
            // On the heap, like everything rare, so that the future of a take stays small.
            let operation = Box::pin(operate(http, asked, &admitted, message));
            asked.in_time(operation).await
        }
    }
}

/// The calls that nothing depends on being fast.
async fn operate(
    http: &Http,
    asked: &Asked,
    admitted: &Admitted,
    message: Received,
) -> Result<Response<Body>, Problem> {
    let state = &http.state;
    match admitted.method {
        Method::Digest => digests::digest(http, admitted, message).await,
        Method::AddAlias => answer_with(state, &aliases::add(http, admitted, message).await?),
        Method::RemoveAlias => answer_with(state, &aliases::remove(http, admitted, message).await?),
        Method::GetAlias => answer_with(state, &aliases::get(http, admitted, message).await?),
        Method::ListAliases => answer_with(state, &aliases::list(http, admitted, message).await?),
        Method::Explain => answer_with(state, &explain::explain(http, admitted, message).await?),
        Method::Retire => answer_with(state, &explain::retire(http, admitted, message).await?),
        Method::EnsureSpace => {
            answer_with(state, &spaces::ensure(http, asked, admitted, message).await?)
        }
        Method::GetSpace => answer_with(state, &spaces::get(http, admitted, message).await?),
        Method::ListSpaces => answer_with(state, &spaces::list(http, admitted, message).await?),
        Method::HealthCheck => answer_with(state, &health::check(http, message)?),
        Method::Take
        | Method::TakeStream
        | Method::HealthWatch
        | Method::Reflection
        | Method::ReflectionAlpha => unreachable!("they have ways of their own"),
    }
}

impl Asked {
    fn new(http: &Http, headers: &HeaderMap) -> Asked {
        let rules = http.state.address_rules.load();
        Asked {
            id: http.origin.request_id(headers),
            client: http.origin.client(headers, &rules),
            deadline: headers.get("grpc-timeout").and_then(deadline),
        }
    }

    fn id(&self) -> &str {
        self.id.to_str().unwrap_or_default()
    }

    /// Does something before the deadline of the call, where it has one.
    async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        match self.deadline {
            None => work.await,
            Some(deadline) if deadline <= Instant::now() => Err(Problem::deadline_exceeded()),
            Some(deadline) => timeout_at(deadline, work)
                .await
                .unwrap_or_else(|_| Err(Problem::deadline_exceeded())),
        }
    }

    /// The status that tells a problem. What only the log may tell is written there.
    fn status(&self, problem: &Problem) -> tonic::Status {
        if let Some(cause) = problem.cause() {
            log_failure(self.id(), self.client, problem.code(), cause);
        }
        status::status(problem, self.id())
    }
}

/// When a call must be answered: up to eight digits, and a unit. Anything else is ignored, as it only asks for less.
fn deadline(value: &HeaderValue) -> Option<Instant> {
    let (digits, unit) = value.to_str().ok()?.split_at_checked(value.len().checked_sub(1)?)?;
    let is_plain = (1..=8).contains(&digits.len()) && digits.bytes().all(|it| it.is_ascii_digit());
    let count: u64 = digits.parse().ok().filter(|_| is_plain)?;
    let time = match unit {
        "H" => Duration::from_secs(3_600 * count),
        "M" => Duration::from_secs(60 * count),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    };
    Instant::now().checked_add(time.min(DEADLINE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_by_its_content_type_over_http2() {
        let is_it = |version, method: &str, label: &str| {
            let request = Request::builder().version(version).method(method);
            is_call(&request.header("content-type", label).body(()).unwrap())
        };
        for label in ["application/grpc", "application/grpc+proto", "Application/GRPC; a=b"] {
            assert!(is_it(Version::HTTP_2, "POST", label), "{label}");
            assert!(!is_it(Version::HTTP_11, "POST", label), "{label}");
            assert!(!is_it(Version::HTTP_2, "GET", label), "{label}");
        }
        for label in ["application/grpc-web", "application/grpc+json", "application/json", ""] {
            assert!(!is_it(Version::HTTP_2, "POST", label), "{label}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn deadlines_are_read_in_all_units() {
        let away = |text: &'static str| {
            deadline(&HeaderValue::from_static(text)).map(|at| at - Instant::now())
        };
        for (text, nanos) in [
            ("1n", 1),
            ("2u", 2_000),
            ("30m", 30_000_000),
            ("4S", 4_000_000_000),
            ("5M", 300_000_000_000),
            ("1H", 3_600_000_000_000),
            ("0S", 0),
        ] {
            assert_eq!(away(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        assert!(away("99999999H").is_some());
        for text in ["", "S", "1", "1s", "-1S", "+1S", "1.5S", "999999999S", "1SS"] {
            assert_eq!(away(text), None, "{text}");
        }
    }
}
