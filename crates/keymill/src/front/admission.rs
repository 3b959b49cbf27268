//! Admission as every protocol does it: whether a request may go on, and what its sender is told if not.
//!
//! A protocol finds the token and what the request needs; `access` decides.

use keymill_engine::operations::Service;

use super::problem::Problem;
use crate::access::limits::Exceeded;
use crate::access::rights::Right;
use crate::access::{Access, Caller, Denied};

/// A right in a keyspace, or in all of them; `None` where any token will do.
pub(crate) type Wanted<'a> = Option<(Right, Option<&'a str>)>;

/// Why a request does not go on.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Its token is unknown here, and may just have been made elsewhere.
    UnknownToken,
    /// For good.
    Problem(Problem),
}

impl Refused {
    /// The refusal of somebody who wants this.
    pub(crate) fn new(denied: Denied, wanted: Wanted<'_>) -> Refused {
        match denied {
            Denied::UnknownToken => Refused::UnknownToken,
            Denied::NotAllowed => Refused::Problem(Problem::forbidden(&in_words(wanted))),
            denied => Refused::Problem(problem(denied)),
        }
    }
}

/// Asks for admission, and a last time with the list of tokens read again where the token is unknown. `ask` is told
/// whether it is asked for the last time.
pub(crate) async fn admit(
    access: &Access,
    service: &Service,
    has_token: bool,
    ask: impl Fn(bool) -> Result<Caller, Refused>,
) -> Result<Caller, Problem> {
    if has_token && !access.is_on() {
        // The first token may just have been made.
        access.reread_for_unknown(service).await;
    }
    let mut admitted = ask(false);
    if matches!(admitted, Err(Refused::UnknownToken)) {
        access.reread_for_unknown(service).await;
        admitted = ask(true);
    }
    admitted.map_err(Problem::from)
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        match refused {
            Refused::Problem(problem) => problem,
            Refused::UnknownToken => unknown_token(),
        }
    }
}

/// The right that a request needs. It follows from the request alone, so that it tells nothing about what
/// exists.
fn in_words(wanted: Option<(Right, Option<&str>)>) -> String {
    match wanted {
        Some((right, Some(space))) => {
            format!("`{}` for the keyspace `{}`", right.name(), space.escape_default())
        }
        Some((right, None)) => format!("`{}` for all keyspaces", right.name()),
        None => "another right or keyspace".to_owned(),
    }
}

/// The refusal of a token that is unknown for good.
fn unknown_token() -> Problem {
    Problem::unauthorized("the token is not valid: it is unknown, expired or revoked")
}

/// What a limit says.
pub(crate) fn exceeded(exceeded: Exceeded) -> Problem {
    match exceeded {
        Exceeded::Burst { max } => Problem::bad_request(
            "above_burst",
            format!("this token may take at most {max} keys at once; ask for fewer"),
        ),
        Exceeded::Rate { rate, wait } => Problem::rate_limited(
            format!("more than {rate} a second; try again after `Retry-After`"),
            wait,
            u64::from(rate),
            1,
        ),
        Exceeded::Quota { quota, left, wait } => Problem::rate_limited(
            format!("{left} of the {quota} keys of this token are left today (UTC)"),
            wait,
            quota,
            86_400,
        ),
    }
}

fn problem(denied: Denied) -> Problem {
    match denied {
        Denied::NoToken => Problem::unauthorized(
            "this request needs a token: send it as `Authorization: Bearer km_…`",
        ),
        Denied::NotAToken => {
            Problem::unauthorized("what was sent is not a token: it is mistyped or cut off")
        }
        Denied::UnknownToken => unknown_token(),
        Denied::NotAllowed => Problem::forbidden(&in_words(None)),
        Denied::Stale => Problem::tokens_stale(),
        Denied::Exceeded(what) => exceeded(what),
    }
}
