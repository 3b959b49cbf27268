//! Messages of gRPC as the answers and errors of this crate.

use jiff::Timestamp;
use keymill_proto::{Timestamp as ProtoTime, v1};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::answer::{Alias, Explanation, Instance, KeyState, Lease, Purpose, UsedKey};
use crate::calls::Stop;
use crate::error::{Difference, Error, Problem};
use crate::transport::Failure;

/// What a status means for the call.
pub(super) fn stop(status: &Status, was_idle: bool) -> Stop {
    let details = status.get_error_details();
    let Some(info) = details.error_info().filter(|info| info.domain == "keymill") else {
        return match status.code() {
            // Something on the way: a connection that broke, or a proxy.
            Code::Unavailable
            | Code::Unknown
            | Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Internal => {
                let problem = format!("did not answer: {}", status.message().escape_debug());
                Stop::Failed(Failure::Lost { problem, was_idle })
            }
            code => {
                let message = status.message().escape_debug();
                let detail = format!("the server answered with {code:?}: {message}");
                Stop::Refused(Error::bad_answer(detail))
            }
        };
    };
    let http_status = match (status.code(), info.reason.as_str()) {
        (Code::InvalidArgument, _) => 400,
        (Code::Unauthenticated, _) => 401,
        (Code::PermissionDenied, _) => 403,
        (Code::NotFound, _) => 404,
        (Code::DeadlineExceeded, _) => 408,
        (Code::AlreadyExists | Code::FailedPrecondition, _) => 409,
        (Code::ResourceExhausted, "rate_limited") => 429,
        (Code::ResourceExhausted, _) => 413,
        (Code::Unavailable, _) => 503,
        _ => 500,
    };
    let held_elsewhere = info.metadata.get("held_elsewhere").and_then(|text| text.parse().ok());
    // With `different_definition`: each setting with `stored 7, asked 8`.
    let difference = |(setting, text): (&String, &String)| {
        let (stored, asked) = text.strip_prefix("stored ")?.rsplit_once(", asked ")?;
        let (stored, asked) = (stored.to_owned(), asked.to_owned());
        Some(Difference { setting: setting.clone(), stored, asked })
    };
    let problem = Problem {
        code: info.reason.clone(),
        detail: status.message().to_owned(),
        request_id: details.request_info().map(|info| info.request_id.clone()),
        held_elsewhere,
        differences: info.metadata.iter().filter_map(difference).collect(),
    };
    let retry_after = details.retry_info().and_then(|info| info.retry_delay);
    Stop::Refused(Error::from_problem(http_status, retry_after, problem))
}

pub(super) fn time(time: ProtoTime) -> Result<Timestamp, Error> {
    let found = Timestamp::new(time.seconds, time.nanos);
    found.map_err(|error| Error::bad_answer(format!("the server sent an impossible time: {error}")))
}

fn time_or_none(found: Option<ProtoTime>) -> Result<Option<Timestamp>, Error> {
    found.map(time).transpose()
}

/// A field that every version of the contract has.
fn present<T>(field: Option<T>, name: &str) -> Result<T, Error> {
    field.ok_or_else(|| Error::bad_answer(format!("the answer of the server has no `{name}`")))
}

impl TryFrom<v1::Alias> for Alias {
    type Error = Error;

    fn try_from(alias: v1::Alias) -> Result<Alias, Error> {
        let created_at = time(present(alias.created_at, "created_at")?)?;
        Ok(Alias { space: alias.space, alias: alias.alias, owner: alias.owner, created_at })
    }
}

impl TryFrom<v1::UsedKey> for UsedKey {
    type Error = Error;

    fn try_from(used: v1::UsedKey) -> Result<UsedKey, Error> {
        Ok(UsedKey {
            key: used.key,
            used_at: time(present(used.used_at, "used_at")?)?,
            caller: used.caller,
            instance: used.instance,
            expires_at: time_or_none(used.expires_at)?,
            retired_at: time_or_none(used.retired_at)?,
        })
    }
}

impl TryFrom<v1::Lease> for Lease {
    type Error = Error;

    fn try_from(lease: v1::Lease) -> Result<Lease, Error> {
        let holder = present(lease.holder.clone(), "holder")?;
        Ok(Lease {
            purpose: match lease.purpose() {
                v1::LeasePurpose::Lease => Purpose::Lease,
                v1::LeasePurpose::Advance => Purpose::Advance,
                v1::LeasePurpose::Fill => Purpose::Fill,
                v1::LeasePurpose::Window => Purpose::Window,
                v1::LeasePurpose::Unspecified => Purpose::Other,
            },
            space: lease.space,
            lease: lease.lease.into(),
            start: lease.start.into(),
            end: lease.end.into(),
            closed_at_ordinal: lease.closed_at_ordinal.map(u128::from),
            holder: Instance {
                id: holder.id,
                host: holder.host,
                pid: holder.pid,
                version: holder.version,
                started_at: time(present(holder.started_at, "started_at")?)?,
            },
            granted_at: time(present(lease.granted_at, "granted_at")?)?,
            closed_at: time_or_none(lease.closed_at)?,
        })
    }
}

impl TryFrom<v1::Explanation> for Explanation {
    type Error = Error;

    fn try_from(found: v1::Explanation) -> Result<Explanation, Error> {
        let number = found.number.as_deref().map(str::parse).transpose();
        let number = number.map_err(|error| {
            Error::bad_answer(format!("the server sent an impossible number: {error}"))
        })?;
        Ok(Explanation {
            state: match found.state() {
                v1::KeyState::Invalid => KeyState::Invalid,
                v1::KeyState::Unissued => KeyState::Unissued,
                v1::KeyState::Leased => KeyState::Leased,
                v1::KeyState::Issued => KeyState::Issued,
                v1::KeyState::Skipped => KeyState::Skipped,
                v1::KeyState::Alias => KeyState::Alias,
                v1::KeyState::Imported => KeyState::Imported,
                v1::KeyState::Available => KeyState::Available,
                v1::KeyState::Reserved => KeyState::Reserved,
                v1::KeyState::Retired => KeyState::Retired,
                v1::KeyState::Unknown => KeyState::Unknown,
                v1::KeyState::Unspecified => KeyState::Other,
            },
            space: found.space,
            key: found.key,
            reason: found.reason,
            ordinal: found.ordinal.map(u128::from),
            number,
            time: time_or_none(found.time)?,
            worker: found.worker,
            sequence: found.sequence,
            lease: found.lease.map(Lease::try_from).transpose()?,
            used: found.used.map(UsedKey::try_from).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use tonic_types::ErrorDetails;

    use super::*;
    use crate::error::ErrorKind;

    fn status(code: Code, reason: &str, about: &[(&str, &str)]) -> Status {
        let about: HashMap<String, String> =
            about.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut details = ErrorDetails::new();
        details.set_error_info(reason, "keymill", about).set_request_info("r-1", "");
        details.set_retry_info(Some(Duration::from_secs(2)));
        Status::with_error_details(code, "no", details)
    }

    fn refused(status: &Status) -> Error {
        match stop(status, false) {
            Stop::Refused(error) => error,
            Stop::Failed(failure) => panic!("{failure:?}"),
        }
    }

    #[test]
    fn a_status_has_the_kind_and_the_code_that_http_gives() {
        let wait = Duration::from_secs(2);
        for (code, reason, kind) in [
            (Code::NotFound, "unknown_space", ErrorKind::UnknownKeyspace),
            (Code::FailedPrecondition, "exhausted", ErrorKind::Exhausted),
            (Code::AlreadyExists, "taken", ErrorKind::Taken),
            (Code::Unauthenticated, "unauthorized", ErrorKind::Unauthorized),
            (Code::PermissionDenied, "forbidden", ErrorKind::Forbidden),
            (Code::ResourceExhausted, "rate_limited", ErrorKind::RateLimited { retry_after: wait }),
            (Code::ResourceExhausted, "body_too_large", ErrorKind::Invalid),
            (Code::Unavailable, "stopping", ErrorKind::Unavailable),
            (Code::Unavailable, "no_keys_ready", ErrorKind::NoKeysReady),
            (Code::InvalidArgument, "bad_count", ErrorKind::Invalid),
            (Code::Internal, "store_broken", ErrorKind::Other),
        ] {
            let error = refused(&status(code, reason, &[]));
            assert_eq!((error.kind(), error.code()), (kind, reason));
            assert_eq!((error.request_id(), error.retry_after()), (Some("r-1"), Some(wait)));
        }
    }

    #[test]
    fn details_are_kept_and_a_status_of_something_else_is_a_failure_on_the_way() {
        let about = [("held_elsewhere", "7"), ("length", "stored 7, asked 8")];
        let error = refused(&status(Code::AlreadyExists, "different_definition", &about));
        assert_eq!(error.held_elsewhere(), Some(7));
        let difference = &error.differences()[0];
        assert_eq!((difference.stored.as_str(), difference.asked.as_str()), ("7", "8"));
        let broken = Status::unavailable("a proxy");
        assert!(matches!(stop(&broken, true), Stop::Failed(Failure::Lost { was_idle: true, .. })));
        let odd = refused(&Status::unimplemented("what?"));
        assert_eq!(odd.kind(), ErrorKind::BadAnswer);
    }
}
