//! Problems over HTTP: `application/problem+json` (RFC 9457).
//!
//! What a problem says is decided in `front::problem`.

use axum::extract::rejection::PathRejection;
use axum::response::IntoResponse;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

use super::{Body, full};
pub use crate::front::problem::Problem;

impl Problem {
    /// The answer that carries this problem. Its body is written when the request ID is known, which is
    /// part of every problem.
    pub fn into_answer(self) -> Response<Body> {
        let mut answer = full("application/problem+json", bytes::Bytes::new());
        *answer.status_mut() = self.status();
        let retry_after = self.retry_after();
        if let Some(seconds) = retry_after {
            answer.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status() == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"keymill\"");
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        if let Some((limit, window)) = self.rate_limit() {
            let wait = retry_after.unwrap_or(1);
            for (name, text) in [
                ("ratelimit-policy", format!("\"default\";q={limit};w={window}")),
                ("ratelimit", format!("\"default\";r=0;t={wait}")),
            ] {
                let value = HeaderValue::try_from(text).expect("digits and quotes");
                answer.headers_mut().insert(name, value);
            }
        }
        answer.extensions_mut().insert(self);
        answer
    }

    /// Writes the body of the answer that carries this problem.
    pub(super) fn write(mut self, request_id: &str, answer: &mut Response<Body>) {
        self.request_id = Some(request_id.into());
        let body = serde_json::to_vec(&self).expect("a plain struct can be written as JSON");
        // The router has set the length of an empty body.
        answer.headers_mut().remove(header::CONTENT_LENGTH);
        *answer.body_mut() = full("application/problem+json", body).into_body();
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Problem {
        Problem::bad_request("bad_path", rejection.body_text())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        self.into_answer().map(axum::body::Body::new)
    }
}

pub(super) async fn not_found(uri: hyper::Uri) -> Problem {
    no_such_path(uri.path())
}

pub(super) fn no_such_path(path: &str) -> Problem {
    not_here(format!("no such path: {path}. See /docs"))
}

pub(super) fn not_here(detail: String) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not_found", detail)
}

pub(super) async fn method_not_allowed(method: hyper::Method, uri: hyper::Uri) -> Problem {
    let path = uri.path();
    let detail = format!("{method} is not allowed on {path}. See /docs");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}
