//! What a server has refused, and the exit codes of refusals, from wherever they come.
//!
//! A store and a server refuse with the same codes (`front::problem`), so commands look at these, and exit codes
//! follow from them.

use std::fmt;

use keymill_client::Error as ClientError;
use keymill_engine::operations::ServiceError;

use crate::config::WrongUsage;
use crate::front::problem;

/// What a server has refused, or why it did not answer.
#[derive(Debug)]
pub(in crate::cli) struct Refusal {
    error: ClientError,
    /// The keyspace that was asked for.
    pub(super) space: Option<String>,
    /// Whether the request had a token.
    pub(super) has_token: bool,
}

impl Refusal {
    pub(in crate::cli) fn new(error: ClientError, space: Option<&str>, has_token: bool) -> Refusal {
        Refusal { error, space: space.map(str::to_owned), has_token }
    }

    pub(super) fn code(&self) -> &str {
        self.error.code()
    }

    /// The path in the URL of the server, which only a proxy needs.
    fn server_path(&self) -> Option<&str> {
        let (_, rest) = self.error.server()?.split_once("://")?;
        let (_, path) = rest.trim_end_matches('/').split_once('/')?;
        Some(path)
    }

    /// After how many seconds the server wants to be asked again, if it says so.
    pub(super) fn retry_after(&self) -> Option<std::time::Duration> {
        self.error.retry_after()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = self.error.detail();
        match self.code() {
            "unauthorized" if !self.has_token => f.write_str(
                "the server needs a token: set KEYMILL_TOKEN to it, or KEYMILL_TOKEN_FILE to a file that has it",
            ),
            "not_found" if detail.ends_with("is not answered on this address") => {
                write!(f, "{detail}; use the server's address for administration (admin_listen)")
            }
            "not_found" | "bad_answer" if self.server_path().is_some() => {
                let path = self.server_path().unwrap_or_default();
                write!(f, "{detail}; leave out `{path}` in the server's URL, unless a proxy needs it")
            }
            // What programs call `ca_file` is a flag here.
            _ => f.write_str(&detail.replace("`ca_file`", "--server-ca FILE")),
        }
    }
}

impl std::error::Error for Refusal {}

/// The code of a refusal, such as `unknown_space`; `None` for any other error.
pub(in crate::cli) fn code_of(error: &anyhow::Error) -> Option<&str> {
    if let Some(error) = error.downcast_ref::<ServiceError>() {
        return Some(problem::code_of(error));
    }
    error.downcast_ref::<Refusal>().map(Refusal::code)
}

/// The keyspace that does not exist, if that is the error.
pub(in crate::cli) fn unknown_space(error: &anyhow::Error) -> Option<&str> {
    match (error.downcast_ref(), error.downcast_ref::<Refusal>()) {
        (Some(ServiceError::UnknownSpace(name)), _) => Some(name),
        (_, Some(refusal)) if refusal.code() == "unknown_space" => refusal.space.as_deref(),
        _ => None,
    }
}

/// The exit code of an error, by which scripts can tell failures apart.
pub(in crate::cli) fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<WrongUsage>() {
        return 2;
    }
    match code_of(error) {
        Some("bad_count" | "bad_caller" | "bad_owner" | "bad_token" | "bad_settings") => 2,
        Some("exhausted" | "sealed") => 4,
        Some("taken") => 6,
        Some("store_rolled_back") => 5,
        Some("store_unavailable" | "no_keys_ready" | "no_worker" | "pool_filling") => 3,
        // Only a server refuses with these: it is unreachable, or has too much to do.
        Some("unreachable" | "tokens_stale" | "rate_limited") => 3,
        Some(code) if code.starts_with("too_many_") => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_same_exit_code_from_a_store_and_from_a_server() {
        let space = || "links".to_owned();
        let refusals = [
            (ServiceError::BadCount { max: 5 }, 2),
            (ServiceError::BadToken("it has no rights".to_owned()), 2),
            (ServiceError::UnknownSpace(space()), 1),
            (ServiceError::Exhausted { space: space(), held_elsewhere: 0 }, 4),
            (ServiceError::PoolEmpty { space: space() }, 4),
            (ServiceError::Sealed(space()), 4),
            (ServiceError::Taken { space: space(), key: "a".to_owned(), others_alias: true }, 6),
            (ServiceError::StoreUnavailable("down".to_owned()), 3),
            (ServiceError::PoolFilling { space: space() }, 3),
            (ServiceError::Broken("damaged".to_owned()), 1),
        ];
        for (error, expected) in refusals {
            let body = format!(r#"{{"code":"{}","detail":"no"}}"#, problem::code_of(&error));
            let told = refused(500, &body);
            let error = anyhow::Error::from(error);
            assert_eq!((exit_code(&error), exit_code(&told)), (expected, expected), "{error}");
            assert_eq!(code_of(&error), code_of(&told));
        }
        for code in ["too_many_imports", "tokens_stale", "rate_limited"] {
            assert_eq!(exit_code(&refused(503, &format!(r#"{{"code":"{code}"}}"#))), 3, "{code}");
        }
        assert_eq!(exit_code(&refused(401, r#"{"code":"unauthorized"}"#)), 1);
    }

    #[test]
    fn who_has_no_token_is_told_where_it_goes() {
        let told = refused(401, r#"{"code":"unauthorized","detail":"needs one"}"#).to_string();
        assert!(told.contains("KEYMILL_TOKEN_FILE"), "{told}");
        let elsewhere =
            r#"{"code":"not_found","detail":"/v1/tokens is not answered on this address"}"#;
        assert!(refused(404, elsewhere).to_string().ends_with("(admin_listen)"));
    }

    fn refused(status: u16, body: &str) -> anyhow::Error {
        let error = ClientError::from_answer(status, None, body.as_bytes());
        Refusal::new(error, Some("links"), false).into()
    }
}
