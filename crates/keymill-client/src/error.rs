//! The error of every call: what went wrong, for programs and for people.
//!
//! `calls` makes errors of answers and of what happened on the way to them; every method returns them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

/// Why a call failed. Match on its [`kind`](Error::kind).
///
/// It is cheap to clone: callers who wait for one refill of a cache all get the same error.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    code: Cow<'static, str>,
    detail: String,
    status: Option<u16>,
    server: Option<Arc<str>>,
    request_id: Option<String>,
    retry_after: Option<Duration>,
    held_elsewhere: Option<u128>,
    differences: Vec<Difference>,
}

/// What went wrong, as far as a program may want to react to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The keyspace, or its pool, has no keys left.
    Exhausted,
    /// The keyspace is sealed: it hands out no more keys.
    Sealed,
    /// The servers that were asked have no keys in memory, and got none in time. Trying again may help.
    NoKeysReady,
    /// There is no token, or it is mistyped, unknown, expired or revoked.
    Unauthorized,
    /// The token does not allow this.
    Forbidden,
    /// There is no keyspace of this name.
    UnknownKeyspace,
    /// The keyspace has no such alias.
    UnknownAlias,
    /// The alias belongs to someone else, or may already have been handed out as a key.
    Taken,
    /// The keyspace already exists with different settings; [`Error::differences`] has them.
    DifferentDefinition,
    /// The keyspace, or its store, does not support this operation.
    WrongKind,
    /// The token, or this address, has sent too much.
    RateLimited {
        /// How long to wait, by the server.
        retry_after: Duration,
    },
    /// The request is wrong: a value is out of range, or cannot be read.
    Invalid,
    /// The servers that were asked cannot answer at present.
    Unavailable,
    /// No server answered in time, or none could be reached.
    Unreachable,
    /// What answered is not a keymill server, or one that this client does not understand.
    BadAnswer,
    /// The settings of the client cannot be used.
    BadSettings,
    /// Something else; [`Error::code`] says what.
    Other,
}

/// A setting in which an existing keyspace differs from what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Difference {
    /// The setting.
    pub setting: String,
    /// Its value in the store.
    pub stored: String,
    /// The value that was asked for.
    pub asked: String,
}

/// What a server says about a failure: an `application/problem+json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Problem {
    pub(crate) code: String,
    pub(crate) detail: String,
    pub(crate) request_id: Option<String>,
    #[serde(deserialize_with = "crate::answer::number_or_none")]
    pub(crate) held_elsewhere: Option<u128>,
    pub(crate) differences: Vec<Difference>,
}

impl Error {
    /// What went wrong, to match on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The stable code: of the server, such as `unknown_space`, or `unreachable`, `bad_answer` or `bad_settings` of the
    /// client.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// What happened and what to do about it, for people.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The HTTP status, if a server answered; over gRPC, the one that fits its code best.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The server that answered, or that was tried last.
    pub fn server(&self) -> Option<&str> {
        self.0.server.as_deref()
    }

    /// The ID under which the server's log has the request.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// How long to wait before trying again, if the server says so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// With [`ErrorKind::Exhausted`]: how many keys other instances still hold.
    pub fn held_elsewhere(&self) -> Option<u128> {
        self.0.held_elsewhere
    }

    /// With [`ErrorKind::DifferentDefinition`]: each setting that differs.
    pub fn differences(&self) -> &[Difference] {
        &self.0.differences
    }

    /// Whether the same call may succeed later without anybody doing something. The client has tried again already, as
    /// far as its deadline and its retry budget allowed.
    pub fn is_retryable(&self) -> bool {
        match self.kind() {
            ErrorKind::NoKeysReady | ErrorKind::RateLimited { .. } | ErrorKind::Unreachable => true,
            // Until an operator has advanced the keyspace, trying again does not help.
            ErrorKind::Unavailable => self.code() != "store_rolled_back",
            _ => false,
        }
    }

    /// The error in an answer whose status is not one of success.
    #[doc(hidden)]
    pub fn from_answer(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Error {
        let Ok(problem) = serde_json::from_slice::<Problem>(body) else {
            let start: String = String::from_utf8_lossy(body).chars().take(80).collect();
            let detail =
                format!("the server answered with status {status}: {}", start.escape_debug());
            let mut error = Error::bad_answer(detail).with_status(status);
            if (502..=504).contains(&status) {
                // A proxy whose server is unreachable.
                error.inner().kind = ErrorKind::Unavailable;
            }
            return error;
        };
        Error::from_problem(status, retry_after, problem)
    }

    pub(crate) fn from_problem(
        status: u16,
        retry_after: Option<Duration>,
        problem: Problem,
    ) -> Error {
        let wait = retry_after.unwrap_or(Duration::from_secs(1));
        let mut error = Error::new(kind_of(status, &problem.code, wait), "", problem.detail);
        let inner = error.inner();
        inner.code = problem.code.into();
        inner.status = Some(status);
        inner.request_id = problem.request_id;
        inner.retry_after = retry_after;
        inner.held_elsewhere = problem.held_elsewhere;
        inner.differences = problem.differences;
        error
    }

    pub(crate) fn unreachable(detail: String) -> Error {
        Error::new(ErrorKind::Unreachable, "unreachable", detail)
    }

    pub(crate) fn bad_answer(detail: String) -> Error {
        Error::new(ErrorKind::BadAnswer, "bad_answer", detail)
    }

    pub(crate) fn bad_settings(detail: String) -> Error {
        Error::new(ErrorKind::BadSettings, "bad_settings", detail)
    }

    pub(crate) fn with_server(mut self, server: &Arc<str>) -> Error {
        self.inner().server = Some(server.clone());
        self
    }

    pub(crate) fn with_status(mut self, status: u16) -> Error {
        self.inner().status = Some(status);
        self
    }

    fn new(kind: ErrorKind, code: &'static str, detail: String) -> Error {
        Error(Arc::new(Inner {
            kind,
            code: code.into(),
            detail,
            status: None,
            server: None,
            request_id: None,
            retry_after: None,
            held_elsewhere: None,
            differences: Vec::new(),
        }))
    }

    /// For whoever has just made it.
    fn inner(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.0)
    }
}

/// The one place where codes become kinds. A code of a later version has the kind that its status suggests.
fn kind_of(status: u16, code: &str, retry_after: Duration) -> ErrorKind {
    match (code, status) {
        ("exhausted", _) => ErrorKind::Exhausted,
        ("sealed", _) => ErrorKind::Sealed,
        ("no_keys_ready" | "no_worker" | "pool_filling", _) => ErrorKind::NoKeysReady,
        ("unknown_space", _) => ErrorKind::UnknownKeyspace,
        ("unknown_alias", _) => ErrorKind::UnknownAlias,
        ("taken", _) => ErrorKind::Taken,
        ("different_definition", _) => ErrorKind::DifferentDefinition,
        ("wrong_kind", _) => ErrorKind::WrongKind,
        (_, 401) => ErrorKind::Unauthorized,
        (_, 403) => ErrorKind::Forbidden,
        (_, 429) => ErrorKind::RateLimited { retry_after },
        (_, 400 | 413 | 415) => ErrorKind::Invalid,
        (_, 502..=504) => ErrorKind::Unavailable,
        _ => ErrorKind::Other,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.detail(), self.code())?;
        if let Some(server) = self.server() {
            write!(f, ", {server}")?;
        }
        f.write_str(")")
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_the_server_keeps_all_that_it_says() {
        let body = br#"{"code":"different_definition","status":409,"detail":"it differs","request_id":"r-1",
            "differences":[{"setting":"length","stored":"7","asked":"9","later":1}],"later":[]}"#;
        let server = "http://a:1".into();
        let error = Error::from_answer(409, None, body).with_server(&server);
        assert_eq!(error.kind(), ErrorKind::DifferentDefinition);
        assert_eq!((error.code(), error.status()), ("different_definition", Some(409)));
        assert_eq!(error.request_id(), Some("r-1"));
        assert_eq!(error.differences()[0].stored, "7");
        assert_eq!(error.to_string(), "it differs (different_definition, http://a:1)");
        assert!(!error.is_retryable());
    }

    #[test]
    fn numbers_beyond_what_json_can_hold_are_read() {
        for (json, expected) in [("7", 7), ("\"9007199254740993\"", 9_007_199_254_740_993)] {
            let body = format!(r#"{{"code":"exhausted","held_elsewhere":{json}}}"#);
            let error = Error::from_answer(409, None, body.as_bytes());
            assert_eq!(
                (error.kind(), error.held_elsewhere()),
                (ErrorKind::Exhausted, Some(expected))
            );
        }
    }

    #[test]
    fn a_code_of_a_later_version_has_the_kind_of_its_status() {
        let wait = Duration::from_secs(3);
        for (status, code, kind, is_retryable) in [
            (503, "new_trouble", ErrorKind::Unavailable, true),
            (503, "store_rolled_back", ErrorKind::Unavailable, false),
            (503, "no_keys_ready", ErrorKind::NoKeysReady, true),
            (429, "rate_limited", ErrorKind::RateLimited { retry_after: wait }, true),
            (400, "bad_count", ErrorKind::Invalid, false),
            (401, "unauthorized", ErrorKind::Unauthorized, false),
            (403, "foreign_host", ErrorKind::Forbidden, false),
            (500, "store_broken", ErrorKind::Other, false),
            (409, "something", ErrorKind::Other, false),
        ] {
            let body = format!(r#"{{"code":"{code}","detail":"no"}}"#);
            let error = Error::from_answer(status, Some(wait), body.as_bytes());
            assert_eq!((error.kind(), error.code()), (kind, code));
            assert_eq!(error.is_retryable(), is_retryable, "{error}");
        }
    }

    #[test]
    fn an_answer_of_something_else_is_shown_and_cut_short() {
        let html = "<html>\u{1b}[1m".repeat(99);
        let error = Error::from_answer(418, None, html.as_bytes());
        assert_eq!((error.kind(), error.status()), (ErrorKind::BadAnswer, Some(418)));
        assert_eq!(Error::from_answer(502, None, html.as_bytes()).kind(), ErrorKind::Unavailable);
        assert!(
            error.detail().contains("<html>\\u{1b}[1m") && error.detail().len() < 200,
            "{error}"
        );
    }
}
