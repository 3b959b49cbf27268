//! Problems over gRPC: a status with its code, and details of `google.rpc`.
//!
//! What a problem says is decided in `front::problem`.

use std::collections::HashMap;
use std::time::Duration;

use hyper::header::{HeaderMap, HeaderValue};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::front::http::Problem;

/// Whose reasons they are.
const DOMAIN: &str = "keymill";
/// The longest message, in bytes. It is in the trailers twice, and clients accept 8 KB of them.
const MESSAGE_MAX: usize = 1_000;

/// The status that tells a problem.
pub(super) fn status(problem: &Problem, request_id: &str) -> Status {
    let mut about = HashMap::new();
    if let Some(count) = problem.held_elsewhere() {
        about.insert("held_elsewhere".to_owned(), count.to_string());
    }
    for difference in problem.differences() {
        let value = format!("stored {}, asked {}", difference.stored, difference.asked);
        about.insert(difference.setting.to_owned(), value);
    }
    let mut details = ErrorDetails::new();
    details.set_error_info(problem.code(), DOMAIN, about);
    details.set_request_info(request_id, "");
    if let Some(seconds) = problem.retry_after() {
        details.set_retry_info(Some(Duration::from_secs(seconds.into())));
    }
    Status::with_error_details(code(problem), shortened(problem.detail()), details)
}

/// The headers of a status: the trailers of an answer, or all that there is of a refusal.
pub(super) fn headers(status: &Status) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if status.add_header(&mut headers).is_err() {
        // Its parts are encoded, so there is nothing that could not be in a header.
        let code = HeaderValue::from(status.code() as i32);
        headers.insert(Status::GRPC_STATUS, code);
    }
    headers
}

/// The headers of the status OK.
pub(super) fn ok() -> HeaderMap {
    // Made once, because `from_static` checks every byte on every call.
    static OK: HeaderValue = HeaderValue::from_static("0");
    let mut headers = HeaderMap::with_capacity(1);
    headers.insert(Status::GRPC_STATUS, OK.clone());
    headers
}

/// The code of a problem: by what clients do about it, not by its number in HTTP alone.
fn code(problem: &Problem) -> Code {
    match (problem.code(), problem.status().as_u16()) {
        // There is no such method, or it cannot be called like this.
        ("not_found" | "unsupported_media_type", _) => Code::Unimplemented,
        ("taken" | "different_definition" | "token_exists", _) => Code::AlreadyExists,
        (_, 401) => Code::Unauthenticated,
        (_, 403) => Code::PermissionDenied,
        (_, 404) => Code::NotFound,
        (_, 408) => Code::DeadlineExceeded,
        // An exhausted keyspace stays so until somebody changes it: to try again is of no use.
        (_, 409) => Code::FailedPrecondition,
        (_, 413 | 429) => Code::ResourceExhausted,
        (_, 503) => Code::Unavailable,
        (_, 400..500) => Code::InvalidArgument,
        _ => Code::Internal,
    }
}

fn shortened(detail: &str) -> &str {
    &detail[..detail.floor_char_boundary(MESSAGE_MAX)]
}

#[cfg(test)]
mod tests {
    use keymill_engine::operations::ServiceError;
    use keymill_engine::space::Difference;

    use super::*;

    #[test]
    fn each_problem_has_the_code_that_clients_act_on() {
        let space = || "links".to_owned();
        for (error, code, reason, retries) in [
            (ServiceError::UnknownSpace(space()), Code::NotFound, "unknown_space", false),
            (ServiceError::BadCount { max: 9 }, Code::InvalidArgument, "bad_count", false),
            (ServiceError::Sealed(space()), Code::FailedPrecondition, "sealed", false),
            (
                ServiceError::WrongKind("no".to_owned()),
                Code::FailedPrecondition,
                "wrong_kind",
                false,
            ),
            (
                ServiceError::StoreUnavailable("db1".to_owned()),
                Code::Unavailable,
                "store_unavailable",
                true,
            ),
            (ServiceError::Broken("db1".to_owned()), Code::Internal, "store_broken", false),
        ] {
            let status = status(&error.into(), "id-1");
            assert_eq!(status.code(), code, "{reason}");
            let details = status.get_error_details();
            let info = details.error_info().unwrap();
            assert_eq!((info.reason.as_str(), info.domain.as_str()), (reason, DOMAIN));
            assert_eq!(details.retry_info().is_some(), retries, "{reason}");
            assert_eq!(details.request_info().unwrap().request_id, "id-1");
            assert!(!status.message().contains("db1"), "{}", status.message());
        }
        for (problem, code) in [
            (Problem::unauthorized("no"), Code::Unauthenticated),
            (Problem::forbidden("take"), Code::PermissionDenied),
            (Problem::body_too_large(7), Code::ResourceExhausted),
            (Problem::body_too_slow(), Code::DeadlineExceeded),
            (Problem::stopping(), Code::Unavailable),
            (
                Problem::rate_limited("slow".to_owned(), Duration::from_millis(1), 5, 1),
                Code::ResourceExhausted,
            ),
        ] {
            assert_eq!(status(&problem, "").code(), code, "{problem:?}");
        }
    }

    #[test]
    fn what_differs_is_in_the_details() {
        let differences =
            vec![Difference { setting: "length", stored: "7".to_owned(), asked: "8".to_owned() }];
        let error = ServiceError::DifferentDefinition { space: "links".to_owned(), differences };
        let status = status(&error.into(), "");
        assert_eq!(status.code(), Code::AlreadyExists);
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().metadata["length"], "stored 7, asked 8");
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let long = "\u{e4}".repeat(1_000);
        let cut = shortened(&long);
        assert!(cut.len() <= MESSAGE_MAX && long.starts_with(cut) && cut.len() > MESSAGE_MAX - 2);
        assert_eq!(shortened("short"), "short");
    }
}
