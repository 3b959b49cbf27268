//! Problems: every error of the API, as `application/problem+json` with a stable code.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use keymill_client::ErrorKind;
use serde_json::json;

use crate::links;

/// After how many seconds to try again what is unavailable.
const RETRY_AFTER: &str = "5";

/// What went wrong, for programs (`code`) and for people (`detail`).
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<String>,
    ) -> Problem {
        Problem { status, code, detail: detail.into() }
    }

    pub(crate) fn bad_request(code: &'static str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(crate) fn alias_taken(alias: &str) -> Problem {
        let detail = format!("the alias `{alias}` is taken; choose another one");
        Problem::new(StatusCode::CONFLICT, "alias_taken", detail)
    }

    pub(crate) fn unknown_link() -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "unknown_link", "you have no such link")
    }

    pub(crate) fn unknown_path() -> Problem {
        let detail = "no such path; links are made with POST /api/links";
        Problem::new(StatusCode::NOT_FOUND, "unknown_path", detail)
    }

    /// A failure that is not the caller's. The log has the reason, which may name hosts.
    fn failure(is_temporary: bool, reason: &dyn std::fmt::Display) -> Problem {
        tracing::error!("a request failed: {reason}");
        if is_temporary {
            let detail = "no link can be made or read at present; try again in a few seconds";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
        } else {
            let detail = "something is wrong with this server; its log says what";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "broken", detail)
        }
    }
}

impl From<keymill_client::Error> for Problem {
    fn from(error: keymill_client::Error) -> Problem {
        match error.kind() {
            ErrorKind::Invalid => Problem::bad_request("bad_alias", error.detail()),
            ErrorKind::Unauthorized | ErrorKind::Forbidden => {
                let reason = format!(
                    "keymill refuses its callers from here: {error}; give this shortener a token with the rights \
                     `take`, `name` and `read` in its keyspace, by --token @FILE"
                );
                Problem::failure(false, &reason)
            }
            _ => Problem::failure(error.is_retryable(), &error),
        }
    }
}

impl From<links::Error> for Problem {
    fn from(error: links::Error) -> Problem {
        Problem::failure(error.is_temporary(), &error)
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Problem {
        Problem::new(rejection.status(), "bad_body", rejection.body_text())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({
            "code": self.code,
            "status": self.status.as_u16(),
            "title": self.status.canonical_reason(),
            "detail": self.detail,
        });
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.status, kind, Json(body)).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            let seconds = HeaderValue::from_static(RETRY_AFTER);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}
