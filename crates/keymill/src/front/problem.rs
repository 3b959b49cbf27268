//! Problems: every error with a stable code, as all protocols tell it.
//!
//! The one place where errors of the service, and refusals, get their code, their status and their words. How
//! a problem is written is up to each protocol; the statuses are those of HTTP.

use std::num::NonZeroU32;
use std::time::Duration;

use hyper::StatusCode;
use keymill_engine::operations::{Limits, ServiceError};
use keymill_engine::space::Difference;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::schemas;
use super::view::SafeNumber;

/// What went wrong, for programs (`code`) and for people (`detail`).
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Problem {
    /// A stable code, for programs.
    code: &'static str,
    /// The HTTP status.
    status: u16,
    /// The status in words.
    title: &'static str,
    /// What is wrong and what to do about it.
    detail: Box<str>,
    /// With `exhausted`: how many keys are in open leases of other instances.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "safe_number")]
    #[schema(value_type = Option<SafeNumber>)]
    held_elsewhere: Option<u64>,
    /// With `different_definition`: each setting that differs.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Vec<schemas::Difference>)]
    differences: Box<[Difference]>,
    /// The ID of the request, also in the `X-Request-Id` header and in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_id: Option<Box<str>>,
    #[serde(skip)]
    retry_after: Option<NonZeroU32>,
    /// Boxed, so that every answer that may be a problem stays small.
    #[serde(skip)]
    aside: Option<Box<Aside>>,
}

/// What few problems have.
#[derive(Debug, Clone, Default)]
struct Aside {
    /// What only the log may tell: hosts, paths, a driver's words.
    cause: Option<Box<str>>,
    /// With `rate_limited`: how many in how many seconds.
    rate_limit: Option<(u64, u32)>,
}

impl Problem {
    /// Status and code are written out where it is called: a test of `codes` reads them there.
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: String) -> Problem {
        Problem {
            code,
            status: status.as_u16(),
            title: status.canonical_reason().unwrap_or("Error"),
            detail: detail.into(),
            held_elsewhere: None,
            differences: Box::default(),
            request_id: None,
            retry_after: None,
            aside: None,
        }
    }

    pub(crate) fn bad_request(code: &'static str, detail: String) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(crate) fn bad_count(limits: Limits) -> Problem {
        ServiceError::BadCount { max: limits.count_max }.into()
    }

    pub(crate) fn unknown_parameter(name: &str, known: &[&str]) -> Problem {
        let known = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
        let expected = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let detail = format!("unknown parameter `{name}`; expected {expected}");
        Problem::bad_request("unknown_parameter", detail)
    }

    pub(crate) fn repeated_parameter(name: &str) -> Problem {
        Problem::bad_request("repeated_parameter", format!("`{name}` is given twice"))
    }

    pub(crate) fn bad_parameter(detail: String) -> Problem {
        Problem::bad_request("bad_parameter", detail)
    }

    pub(crate) fn unconfirmed(space: &str) -> Problem {
        let space = space.escape_default();
        let detail =
            format!("this cannot be undone; add `confirm={space}` to the query to confirm it");
        Problem::bad_request("unconfirmed", detail)
    }

    pub(crate) fn bad_body(detail: String) -> Problem {
        Problem::bad_request("bad_body", detail)
    }

    pub(crate) fn unsupported_media_type(wanted: &str, found: &str) -> Problem {
        let found =
            if found.is_empty() { "has none".to_owned() } else { format!("says `{found}`") };
        let detail =
            format!("the body must have the header `Content-Type: {wanted}`, but this one {found}");
        Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
    }

    pub(crate) fn body_too_large(max: usize) -> Problem {
        let detail = format!("the body may have at most {max} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
    }

    pub(crate) fn too_many_imports() -> Problem {
        let detail = "too many imports are running; try again later".to_owned();
        let mut problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_imports", detail);
        problem.retry_after = NonZeroU32::new(10);
        problem
    }

    pub(crate) fn too_many_large_answers() -> Problem {
        let detail = "too many large answers are being sent, and their memory is limited \
                      (limits.unsent_max_bytes); try again, or ask for less at a time"
            .to_owned();
        let mut problem =
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_large_answers", detail);
        problem.retry_after = NonZeroU32::new(5);
        problem
    }

    pub(crate) fn too_many_large_bodies() -> Problem {
        let detail = "too many large requests are being read, and their memory is limited \
                      (limits.unsent_max_bytes); try again, or send less at a time"
            .to_owned();
        let mut problem =
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_large_bodies", detail);
        problem.retry_after = NonZeroU32::new(5);
        problem
    }

    /// Without a token, or with a wrong one. It tells nothing about what exists.
    pub(crate) fn unauthorized(detail: &str) -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail.to_owned())
    }

    pub(crate) fn forbidden(need: &str) -> Problem {
        let detail = format!("the token does not allow this: it needs {need}");
        Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    pub(crate) fn foreign_host(host: &str) -> Problem {
        let host = host.escape_default();
        let detail = format!(
            "`{host}` is not a name of this server; address it as localhost, add the name to \
             `allowed_hosts`, or use a token"
        );
        Problem::new(StatusCode::FORBIDDEN, "foreign_host", detail)
    }

    pub(crate) fn foreign_origin() -> Problem {
        let detail =
            "a web page of another origin may not take or change anything; the operator can \
                      allow it with `allowed_origins`"
                .to_owned();
        Problem::new(StatusCode::FORBIDDEN, "foreign_origin", detail)
    }

    pub(crate) fn prefetch() -> Problem {
        let detail = "the browser asks for this in advance, so no key was taken; open the address to take one";
        Problem::new(StatusCode::FORBIDDEN, "prefetch", detail.to_owned())
    }

    pub(crate) fn rate_limited(detail: String, wait: Duration, limit: u64, window: u32) -> Problem {
        let mut problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail);
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        problem.retry_after = NonZeroU32::new(u32::try_from(seconds.max(1)).unwrap_or(u32::MAX));
        problem.aside = Some(Box::new(Aside { rate_limit: Some((limit, window)), cause: None }));
        problem
    }

    pub(crate) fn tokens_stale() -> Problem {
        let detail =
            "the store has been unreachable for too long to know which tokens are revoked \
                      (tokens_max_age_seconds); try again"
                .to_owned();
        let mut problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "tokens_stale", detail);
        problem.retry_after = NonZeroU32::new(5);
        problem
    }

    pub(crate) fn body_too_slow() -> Problem {
        let detail = "the body did not arrive in time".to_owned();
        Problem::new(StatusCode::REQUEST_TIMEOUT, "body_too_slow", detail)
    }

    /// An answer that would go on ends, because the server does.
    #[cfg(feature = "grpc")]
    pub(crate) fn stopping() -> Problem {
        let detail = "this instance is stopping; go on with another one".to_owned();
        let mut problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", detail);
        problem.retry_after = NonZeroU32::new(1);
        problem
    }

    #[cfg(feature = "grpc")]
    pub(crate) fn deadline_exceeded() -> Problem {
        let detail = "the deadline of the call (`grpc-timeout`) has passed".to_owned();
        Problem::new(StatusCode::REQUEST_TIMEOUT, "deadline_exceeded", detail)
    }

    pub(crate) fn too_many_connections() -> Problem {
        let detail = "all connections of this instance are in use; try again later".to_owned();
        let mut problem =
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", detail);
        problem.retry_after = NonZeroU32::new(2);
        problem
    }

    /// The same with more to say.
    pub(crate) fn adding(mut self, more: &str) -> Problem {
        self.detail = [&*self.detail, more].concat().into();
        self
    }

    /// Whether the request was wrong, so that nothing was done.
    pub(crate) fn is_refusal(&self) -> bool {
        (400..500).contains(&self.status)
    }

    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).expect("made from a status of hyper's")
    }

    /// What is wrong and what to do about it.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// After how many seconds it makes sense to try again.
    pub(crate) fn retry_after(&self) -> Option<u32> {
        self.retry_after.map(NonZeroU32::get)
    }

    /// With `exhausted`: how many keys are in open leases of other instances.
    #[cfg(feature = "grpc")]
    pub(crate) fn held_elsewhere(&self) -> Option<u64> {
        self.held_elsewhere
    }

    /// With `different_definition`: each setting that differs.
    #[cfg(feature = "grpc")]
    pub(crate) fn differences(&self) -> &[Difference] {
        &self.differences
    }

    /// With `rate_limited`: how many in how many seconds.
    pub(crate) fn rate_limit(&self) -> Option<(u64, u32)> {
        self.aside.as_ref()?.rate_limit
    }

    /// What the log says about it.
    pub(crate) fn cause(&self) -> Option<&str> {
        self.aside.as_ref()?.cause.as_deref()
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Problem {
        let (detail, cause) = told(&error);
        let (status, code) = status_and_code(&error);
        let mut problem = Problem::new(status, code, detail);
        problem.aside =
            cause.map(|cause| Box::new(Aside { cause: Some(cause.into()), rate_limit: None }));
        problem.retry_after = match error {
            // Only an operator can reopen the keyspace, so there is no hurry.
            ServiceError::RolledBack(_) => NonZeroU32::new(30),
            ServiceError::NoKeysReady { .. }
            | ServiceError::NoWorker(_)
            | ServiceError::PoolFilling { .. }
            | ServiceError::StoreUnavailable(_) => NonZeroU32::new(1),
            _ => None,
        };
        match error {
            ServiceError::Exhausted { held_elsewhere, .. } => {
                problem.held_elsewhere = Some(held_elsewhere);
            }
            ServiceError::DifferentDefinition { differences, .. } => {
                problem.differences = differences.into();
            }
            _ => {}
        }
        problem
    }
}

/// The code of an error of the service.
#[cfg(feature = "cli")]
pub(crate) fn code_of(error: &ServiceError) -> &'static str {
    status_and_code(error).1
}

fn status_and_code(error: &ServiceError) -> (StatusCode, &'static str) {
    use StatusCode as S;
    match error {
        ServiceError::UnknownSpace(_) => (S::NOT_FOUND, "unknown_space"),
        ServiceError::BadCount { .. } => (S::BAD_REQUEST, "bad_count"),
        ServiceError::BadInput(_) | ServiceError::BadInputs { .. } => (S::BAD_REQUEST, "bad_input"),
        ServiceError::BadCaller { .. } => (S::BAD_REQUEST, "bad_caller"),
        ServiceError::BadOwner { .. } => (S::BAD_REQUEST, "bad_owner"),
        ServiceError::BadAfter => (S::BAD_REQUEST, "bad_parameter"),
        ServiceError::BadDefinition(_) => (S::BAD_REQUEST, "bad_definition"),
        ServiceError::DifferentDefinition { .. } => (S::CONFLICT, "different_definition"),
        ServiceError::WrongSecret { .. } => (S::CONFLICT, "wrong_secret"),
        ServiceError::SecretMissing { .. } => (S::CONFLICT, "secret_missing"),
        ServiceError::NotExisting(_) => (S::FORBIDDEN, "not_existing"),
        ServiceError::OtherStore(_) => (S::CONFLICT, "other_store"),
        ServiceError::BadAlias { .. } => (S::BAD_REQUEST, "bad_alias"),
        ServiceError::Taken { .. } => (S::CONFLICT, "taken"),
        ServiceError::UnknownAlias { .. } => (S::NOT_FOUND, "unknown_alias"),
        ServiceError::UnknownToken { .. } => (S::NOT_FOUND, "unknown_token"),
        ServiceError::TokenExists { .. } => (S::CONFLICT, "token_exists"),
        ServiceError::BadToken(_) => (S::BAD_REQUEST, "bad_token"),
        ServiceError::Exhausted { .. } | ServiceError::PoolEmpty { .. } => {
            (S::CONFLICT, "exhausted")
        }
        ServiceError::PoolFilling { .. } => (S::SERVICE_UNAVAILABLE, "pool_filling"),
        ServiceError::NoWorker(_) => (S::SERVICE_UNAVAILABLE, "no_worker"),
        ServiceError::WrongKind(_) => (S::CONFLICT, "wrong_kind"),
        ServiceError::NotRetirable { .. } => (S::CONFLICT, "not_retirable"),
        ServiceError::Sealed(_) | ServiceError::Exported { .. } => (S::CONFLICT, "sealed"),
        ServiceError::BadImport(_) => (S::BAD_REQUEST, "bad_import"),
        ServiceError::RolledBack(_) => (S::SERVICE_UNAVAILABLE, "store_rolled_back"),
        ServiceError::NoKeysReady { .. } => (S::SERVICE_UNAVAILABLE, "no_keys_ready"),
        ServiceError::StoreUnavailable(_) => (S::SERVICE_UNAVAILABLE, "store_unavailable"),
        ServiceError::Broken(_) => (S::INTERNAL_SERVER_ERROR, "store_broken"),
    }
}

/// What a client may read of an error, and what only the log may contain.
fn told(error: &ServiceError) -> (String, Option<String>) {
    let detail = match error {
        ServiceError::StoreUnavailable(_) => {
            "the store is unreachable or did not answer in time; try again".to_owned()
        }
        ServiceError::Broken(_) => {
            "the store cannot be used; see the log of this instance".to_owned()
        }
        ServiceError::NoKeysReady { space, reason, cause: Some(_) } => {
            format!("the keyspace `{space}` has no keys left in memory: {reason}")
        }
        error => return (error.to_string(), None),
    };
    (detail, Some(error.to_string()))
}

fn safe_number<S: Serializer>(number: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    number.map(SafeNumber::from).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_paths_and_drivers_words_are_for_the_log_alone() {
        let secret = "db1.internal:5432 refused: /run/postgresql (os error 111)";
        let errors = [
            ServiceError::StoreUnavailable(secret.to_owned()),
            ServiceError::Broken(secret.to_owned()),
            ServiceError::NoKeysReady {
                space: "links".to_owned(),
                reason: "the store is unreachable".to_owned(),
                cause: Some(secret.to_owned()),
            },
        ];
        for error in errors {
            let problem = Problem::from(error);
            assert!(problem.cause().unwrap().contains(secret), "{problem:?}");
            let told = serde_json::to_string(&problem).unwrap();
            for word in ["db1", "5432", "/run", "os error"] {
                assert!(!told.contains(word), "{told}");
            }
        }
        // What a caller can act on is sent in full.
        let problem = Problem::from(ServiceError::WrongKind("it has no pool".to_owned()));
        assert_eq!((problem.cause(), &*problem.detail), (None, "it has no pool"));
    }
}
