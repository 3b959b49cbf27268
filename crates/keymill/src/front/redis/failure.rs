//! Commands that fail: the one place where a problem gets the words that Redis clients know.
//!
//! An answer is `-CODE text`. Clients look for `NOAUTH`, `WRONGPASS`, `NOPERM`, `WRONGTYPE` and `TRYAGAIN`; any other
//! problem is `ERR`, with its code of HTTP in front of the text.

use hyper::StatusCode;
use keymill_engine::operations::ServiceError;
use keymill_engine::space::check_name;

use super::frame::Command;
use crate::access::Denied;
use crate::front::admission::{Refused, Wanted, exceeded};
use crate::front::problem::Problem;

/// How much of what a client sent is repeated to it.
const SHOWN_MAX: usize = 64;

/// Why a command is not done.
#[derive(Debug)]
pub(super) struct Failure {
    /// The word that it begins with.
    pub(super) code: &'static str,
    pub(super) text: Box<str>,
    /// What it is counted as.
    pub(super) status: StatusCode,
    /// What only the log may tell, with the code of the problem.
    pub(super) cause: Option<(&'static str, Box<str>)>,
}

impl Failure {
    /// A command that is wrong.
    pub(super) fn wrong(text: impl Into<Box<str>>) -> Failure {
        Failure::new("ERR", StatusCode::BAD_REQUEST, text)
    }

    pub(super) fn new(
        code: &'static str,
        status: StatusCode,
        text: impl Into<Box<str>>,
    ) -> Failure {
        Failure { code, text: text.into(), status, cause: None }
    }

    /// A command that does not exist here.
    pub(super) fn unknown(command: Command<'_>) -> Failure {
        let name = shown(command.name());
        Failure::wrong(format!(
            "unknown command '{name}'. This is keymill, which hands out unique keys and speaks a part of the Redis \
             protocol: SPOP, INCR, INCRBY, SCARD, SISMEMBER, EXISTS and TYPE of a keyspace, MULTI, EXEC and DISCARD, and \
             what connections need"
        ))
    }

    /// A command with too few or too many parts.
    pub(super) fn parts(name: &str) -> Failure {
        Failure::wrong(format!("wrong number of arguments for '{name}' command"))
    }

    /// A part of a command that follows its name and is unknown.
    pub(super) fn subcommand(command: Command<'_>, known: &str) -> Failure {
        let (name, part) = (shown(command.name()).to_uppercase(), shown(command.part(1)));
        Failure::wrong(format!("unknown subcommand '{part}'. keymill knows {name} {known}"))
    }

    /// A caller that may not do what it wants.
    pub(super) fn denied(denied: Denied, wanted: Wanted<'_>) -> Failure {
        match denied {
            Denied::NoToken => Failure::unauthorized(
                "Authentication required: send a token, as AUTH km_… or HELLO 3 AUTH default km_…",
            ),
            Denied::UnknownToken => {
                Failure::unauthorized("the token is no longer valid: it has expired or was revoked")
            }
            Denied::Exceeded(what) => exceeded(what).into(),
            denied => match Refused::new(denied, wanted) {
                Refused::Problem(problem) => problem.into(),
                Refused::UnknownToken => {
                    Failure::unauthorized("the token is not valid: it is unknown")
                }
            },
        }
    }

    /// A command of somebody who has shown no valid token.
    pub(super) fn unauthorized(text: &str) -> Failure {
        Failure::new("NOAUTH", StatusCode::UNAUTHORIZED, text)
    }

    /// A token that is refused when it is shown.
    pub(super) fn wrong_token(text: &str) -> Failure {
        Failure::new("WRONGPASS", StatusCode::UNAUTHORIZED, text)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        let (code, status) = (problem.code(), problem.status());
        let word = match code {
            "unauthorized" => "NOAUTH",
            "forbidden" => "NOPERM",
            "wrong_kind" => "WRONGTYPE",
            // Only an operator can end this, so trying again would not help.
            "store_rolled_back" => "ERR",
            _ if status == StatusCode::SERVICE_UNAVAILABLE => "TRYAGAIN",
            _ => "ERR",
        };
        let mut text = problem.detail().to_owned();
        if let Some(seconds) = problem.retry_after() {
            // A header that there is not here.
            text = text.replace("`Retry-After`", &format!("{seconds} s"));
        }
        if matches!(word, "ERR" | "TRYAGAIN") {
            text = format!("{code}: {text}");
        }
        let cause = problem.cause().map(|cause| (code, cause.into()));
        Failure { code: word, text: text.into(), status, cause }
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Failure {
        let cannot_exist =
            matches!(&error, ServiceError::UnknownSpace(name) if check_name(name).is_err());
        let mut failure = Failure::from(Problem::from(error));
        if cannot_exist {
            // Whoever comes from Redis may have a name such as `ids:free`.
            failure.text = format!(
                "{}, and there cannot be one: names have a-z, 0-9, `-` and `_`",
                failure.text
            )
            .into();
        }
        failure
    }
}

/// What a client sent, as an error may repeat it.
pub(super) fn shown(bytes: &[u8]) -> String {
    let text = bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii().to_string();
    if bytes.len() > SHOWN_MAX { text + "…" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_find_the_words_that_they_know() {
        let no_keys = ServiceError::NoKeysReady {
            space: "links".to_owned(),
            reason: "the store is unreachable".to_owned(),
            cause: Some("db1.internal refused".to_owned()),
        };
        for (failure, expected) in [
            (
                Failure::from(ServiceError::UnknownSpace("x".to_owned())),
                "ERR unknown_space: there is no keyspace `x`",
            ),
            (
                ServiceError::WrongKind("it has no pool".to_owned()).into(),
                "WRONGTYPE it has no pool",
            ),
            (
                no_keys.into(),
                "TRYAGAIN no_keys_ready: the keyspace `links` has no keys left in memory: the store is \
                 unreachable",
            ),
            (
                Problem::forbidden("`take` for the keyspace `x`").into(),
                "NOPERM the token does not allow this: it needs `take` for the keyspace `x`",
            ),
        ] {
            assert_eq!(format!("{} {}", failure.code, failure.text), expected);
        }
        let limited = exceeded(crate::access::limits::Exceeded::Rate {
            rate: 5,
            wait: std::time::Duration::from_millis(200),
        });
        let failure = Failure::from(limited);
        assert_eq!(&*failure.text, "rate_limited: more than 5 a second; try again after 1 s");
    }

    #[test]
    fn what_a_client_sent_is_repeated_in_part_and_without_control_characters() {
        assert_eq!(shown(b"FO\r\nO\xff"), "FO\\r\\nO\\xff");
        assert_eq!(shown(&[b'x'; 65]), format!("{}…", "x".repeat(64)));
    }
}
