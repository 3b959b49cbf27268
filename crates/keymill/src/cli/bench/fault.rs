//! A fault: why a request has no keys.
//!
//! Links to servers return faults; `user` counts them by their code.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use keymill_client::Error as ClientError;

/// Why a request failed.
#[derive(Debug)]
pub(super) struct Fault {
    /// The code of the server, or one of ours: `unreachable`, `connection_lost`, `timeout`, `bad_answer`.
    pub(super) code: Cow<'static, str>,
    /// What happened, for people.
    pub(super) detail: String,
    /// What the server has refused, if asking again does not help.
    pub(super) lasting: Option<ClientError>,
}

impl Fault {
    pub(super) fn new(code: &'static str, detail: impl Into<String>) -> Fault {
        Fault { code: Cow::Borrowed(code), detail: detail.into(), lasting: None }
    }

    /// A server did not answer in time.
    pub(super) fn timeout(time_max: Duration) -> Fault {
        Fault::new("timeout", format!("no answer within {time_max:?}"))
    }

    /// A server sent something that no keymill sends.
    pub(super) fn bad_answer(detail: impl Into<String>) -> Fault {
        Fault::new("bad_answer", detail)
    }

    /// A connection broke.
    pub(super) fn lost(error: &io::Error) -> Fault {
        Fault::new("connection_lost", error.to_string())
    }

    /// A server closed a connection instead of answering.
    pub(super) fn closed() -> Fault {
        Fault::new("connection_lost", "the server closed the connection")
    }

    /// A server has refused, or could not be reached.
    pub(super) fn refused(error: ClientError) -> Fault {
        let (code, detail) = (error.code().to_owned(), error.detail().to_owned());
        let is_lasting =
            |status: u16| (400..500).contains(&status) && ![408, 429].contains(&status);
        let lasting = error.status().is_some_and(is_lasting).then_some(error);
        Fault { code: Cow::Owned(code), detail, lasting }
    }

    /// The same for an answer whose status is not one of success.
    pub(super) fn of_answer(status: u16, body: &[u8]) -> Fault {
        Fault::refused(ClientError::from_answer(status, None, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_asking_again_does_not_cure_is_lasting() {
        for (status, code, is_lasting) in [
            (404, "unknown_space", true),
            (401, "unauthorized", true),
            (409, "exhausted", true),
            (429, "rate_limited", false),
            (503, "no_keys_ready", false),
            (500, "store_broken", false),
        ] {
            let body = format!(r#"{{"code":"{code}","detail":"no"}}"#);
            let fault = Fault::of_answer(status, body.as_bytes());
            assert_eq!((&*fault.code, fault.lasting.is_some()), (code, is_lasting));
        }
        let proxy = Fault::of_answer(502, b"<html>");
        assert_eq!((&*proxy.code, proxy.lasting.is_none()), ("bad_answer", true));
    }
}
