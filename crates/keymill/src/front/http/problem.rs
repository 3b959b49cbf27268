//! Problems: every error as `application/problem+json` (RFC 9457) with a stable code.
//!
//! The one place where errors of the service become HTTP.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::response::IntoResponse;
use hyper::header;
use hyper::{Response, StatusCode};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::wire::SafeNumber;
use super::{Body, full};
use crate::service::{Limits, ServiceError};
use crate::space::Difference;

/// What went wrong, for programs (`code`) and for people (`detail`).
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Problem {
    /// Stable: programs may branch on it.
    code: &'static str,
    /// The HTTP status.
    status: u16,
    /// The status in words.
    title: &'static str,
    /// What is wrong and what to do about it.
    detail: String,
    /// With `exhausted`: how many keys are in open leases of other instances.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "safe_number")]
    #[schema(value_type = Option<SafeNumber>)]
    held_elsewhere: Option<u64>,
    /// With `different_definition`: each setting that differs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<Difference>,
    #[serde(skip)]
    retry_after: Option<u32>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, detail: String) -> Problem {
        Problem {
            code,
            status: status.as_u16(),
            title: status.canonical_reason().unwrap_or("Error"),
            detail,
            held_elsewhere: None,
            differences: Vec::new(),
            retry_after: None,
        }
    }

    pub(super) fn bad_request(code: &'static str, detail: String) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(super) fn bad_count(limits: Limits) -> Problem {
        ServiceError::BadCount { max: limits.count_max }.into()
    }

    pub(super) fn unknown_parameter(name: &str, known: &[&str]) -> Problem {
        let known = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let detail = format!("there is no parameter `{name}` here, only {known}");
        Problem::bad_request("unknown_parameter", detail)
    }

    pub(super) fn repeated_parameter(name: &str) -> Problem {
        Problem::bad_request("repeated_parameter", format!("the parameter `{name}` is there twice"))
    }

    pub(super) fn body_too_large(max: usize) -> Problem {
        let detail = format!("the body may have at most {max} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
    }

    pub(super) fn too_many_imports() -> Problem {
        let detail = "too many imports are under way; try again later".to_owned();
        let mut problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_imports", detail);
        problem.retry_after = Some(10);
        problem
    }

    pub(super) fn body_too_slow() -> Problem {
        let detail = "the body did not arrive in time".to_owned();
        Problem::new(StatusCode::REQUEST_TIMEOUT, "body_too_slow", detail)
    }

    /// The answer that carries this problem.
    pub fn into_answer(self) -> Response<Body> {
        let body = serde_json::to_vec(&self).expect("a plain struct can be written as JSON");
        let mut answer = full("application/problem+json", body);
        *answer.status_mut() =
            StatusCode::from_u16(self.status).expect("made from a status of hyper's");
        if let Some(seconds) = self.retry_after {
            answer.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        answer
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Problem {
        use StatusCode as S;
        let detail = error.to_string();
        let (status, code) = match &error {
            ServiceError::UnknownSpace(_) => (S::NOT_FOUND, "unknown_space"),
            ServiceError::BadCount { .. } => (S::BAD_REQUEST, "bad_count"),
            ServiceError::BadInput(_) => (S::BAD_REQUEST, "bad_input"),
            ServiceError::BadCaller { .. } => (S::BAD_REQUEST, "bad_caller"),
            ServiceError::BadDefinition(_) => (S::BAD_REQUEST, "bad_definition"),
            ServiceError::DifferentDefinition { .. } => (S::CONFLICT, "different_definition"),
            ServiceError::WrongSecret { .. } => (S::CONFLICT, "wrong_secret"),
            ServiceError::SecretMissing { .. } => (S::CONFLICT, "secret_missing"),
            ServiceError::NotExisting(_) => (S::FORBIDDEN, "not_existing"),
            ServiceError::OtherStore(_) => (S::CONFLICT, "other_store"),
            ServiceError::BadAlias { .. } => (S::BAD_REQUEST, "bad_alias"),
            ServiceError::Taken { .. } => (S::CONFLICT, "taken"),
            ServiceError::UnknownAlias { .. } => (S::NOT_FOUND, "unknown_alias"),
            ServiceError::Exhausted { .. } | ServiceError::PoolEmpty { .. } => {
                (S::CONFLICT, "exhausted")
            }
            ServiceError::PoolFilling { .. } => (S::SERVICE_UNAVAILABLE, "pool_filling"),
            ServiceError::NoWorker(_) => (S::SERVICE_UNAVAILABLE, "no_worker"),
            ServiceError::WrongKind(_) => (S::CONFLICT, "wrong_kind"),
            ServiceError::NotRetirable { .. } => (S::CONFLICT, "not_retirable"),
            ServiceError::Sealed(_) => (S::CONFLICT, "sealed"),
            ServiceError::BadImport(_) => (S::BAD_REQUEST, "bad_import"),
            ServiceError::WentBack(_) => (S::SERVICE_UNAVAILABLE, "store_went_back"),
            ServiceError::Dry { .. } => (S::SERVICE_UNAVAILABLE, "dry"),
            ServiceError::StoreUnavailable(_) => (S::SERVICE_UNAVAILABLE, "store_unavailable"),
            ServiceError::Broken(_) => (S::INTERNAL_SERVER_ERROR, "store_broken"),
        };
        let mut problem = Problem::new(status, code, detail);
        problem.retry_after = match error {
            // Only a person can reopen the space, so there is no hurry.
            ServiceError::WentBack(_) => Some(30),
            ServiceError::Dry { .. }
            | ServiceError::NoWorker(_)
            | ServiceError::PoolFilling { .. }
            | ServiceError::StoreUnavailable(_) => Some(1),
            _ => None,
        };
        match error {
            ServiceError::Exhausted { held_elsewhere, .. } => {
                problem.held_elsewhere = Some(held_elsewhere);
            }
            ServiceError::DifferentDefinition { differences, .. } => {
                problem.differences = differences;
            }
            _ => {}
        }
        problem
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Problem {
        Problem::bad_request("bad_path", rejection.body_text())
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Problem {
        Problem::bad_request("bad_parameter", rejection.body_text())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        self.into_answer().map(axum::body::Body::new)
    }
}

pub(super) async fn not_found(uri: hyper::Uri) -> Problem {
    let detail = format!("there is nothing at {}; see /docs for what there is", uri.path());
    Problem::new(StatusCode::NOT_FOUND, "not_found", detail)
}

pub(super) async fn method_not_allowed(method: hyper::Method, uri: hyper::Uri) -> Problem {
    let path = uri.path();
    let detail = format!("{method} is not possible on {path}; see /docs for what is");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

fn safe_number<S: Serializer>(number: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    number.map(SafeNumber::from).serialize(serializer)
}
