//! `POST /v1/spaces/{space}/pool`: imports keys of the user's own, one per line, as a stream.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::{Request, Response};
use keymill_engine::operations::{Import, ImportInto};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use tokio::time::{Instant, timeout_at};
use utoipa::ToSchema;

use super::params::no_query;
use super::request_body::BODY_TIME_MAX;
use super::{Body, Problem, State, body, check_encoding, full};

/// How long an import may take.
const IMPORT_TIME_MAX: Duration = Duration::from_secs(3_600);
/// How many lines are imported together.
const LINES: usize = 10_000;
/// How many bytes a second a client must send, on average over [`RATE_WINDOW`] of waiting for it. Otherwise a
/// client that sends a byte now and then would occupy one of the few places for an hour.
const RATE_MIN: u64 = 1_024;
const RATE_WINDOW: Duration = Duration::from_secs(30);

/// The result of an import.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ImportView {
    /// The keyspace.
    space: String,
    /// How many keys are new in the pool.
    imported: u64,
    /// How many keys had been imported before.
    already_there: u64,
    /// How many lines were refused.
    refused_count: u64,
    /// The first thousand refused lines.
    refused: Vec<RefusedLine>,
}

/// A line that was refused.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RefusedLine {
    /// Its number, from 1.
    line: u64,
    /// Why it was refused.
    reason: String,
}

/// How fast a body arrives. Only the time spent waiting for the client counts, not the time that the
/// store needs for the lines.
#[derive(Debug, Default)]
struct Rate {
    waited: Duration,
    bytes: u64,
}

impl Rate {
    /// Records bytes that arrived after a wait. Returns whether the client is fast enough so far.
    fn suffices(&mut self, waited: Duration, bytes: u64) -> bool {
        self.waited += waited;
        self.bytes += bytes;
        if self.waited < RATE_WINDOW {
            return true;
        }
        let wanted = RATE_MIN.saturating_mul(self.waited.as_secs());
        let Rate { bytes, .. } = std::mem::take(self);
        bytes >= wanted
    }
}

/// Imports keys into a pool, one per line. The body is read as a stream and may have any length.
#[utoipa::path(post, path = "/v1/spaces/{space}/pool", tag = "keys", operation_id = "import_keys",
    params(("space" = String, Path, description = "The keyspace, of kind `pooled`")),
    request_body(content = String, content_type = "text/plain"),
    responses(
        (status = 200, description = "What was imported and refused; valid lines are imported even if others are refused", body = ImportView),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`sealed`, `wrong_kind`, `wrong_secret`"),
        (status = 503, description = "`too_many_imports`, `store_rolled_back`"),
    ))]
pub(super) async fn post(
    state: &State,
    encoded_name: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    check_encoding(request.uri())?;
    no_query(request.uri())?;
    if !request.body().is_end_stream() {
        body::check_label_is("text/plain", request.headers())?;
    }
    let space = percent_decode_str(encoded_name).decode_utf8_lossy().into_owned();
    let mut import = Import::new(&state.service, &space, ImportInto::Pool, LINES);
    state.service.check_pool(&space).await?;
    let Ok(_place) = state.imports.try_acquire() else {
        return Err(Problem::too_many_imports());
    };
    let deadline = Instant::now() + IMPORT_TIME_MAX;
    let mut lines = request.into_body();
    let mut rate = Rate::default();
    loop {
        let asked_at = Instant::now();
        let frame = timeout_at(deadline.min(asked_at + BODY_TIME_MAX), lines.frame());
        match frame.await.map_err(|_| Problem::body_too_slow())? {
            None => break,
            Some(Err(error)) => return Err(Problem::bad_request("bad_body", error.to_string())),
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                if !rate.suffices(asked_at.elapsed(), data.len() as u64) {
                    return Err(Problem::body_too_slow());
                }
                import.push(&data).await?;
            }
        }
    }
    import.finish().await?;
    let report = import.tell();
    let line = |(line, reason)| RefusedLine { line, reason };
    let view = ImportView {
        imported: report.made,
        already_there: report.known,
        refused_count: report.refused_count,
        refused: report.refused.into_iter().map(line).collect(),
        space,
    };
    let view = serde_json::to_vec(&view).expect("a plain struct can be written as JSON");
    Ok(full("application/json", view))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_trickles_is_told_from_one_that_pauses() {
        let second = Duration::from_secs(1);
        let mut trickle = Rate::default();
        assert!((0..29).all(|_| trickle.suffices(second, 1)), "the first window is not over");
        assert!(!trickle.suffices(second, 1));
        let mut steady = Rate::default();
        assert!((0..600).all(|_| steady.suffices(second, RATE_MIN)));
        let mut bursts = Rate::default();
        for _ in 0..100 {
            assert!(bursts.suffices(Duration::ZERO, 65_536), "a burst");
            assert!(bursts.suffices(9 * second, 1), "and a pause");
        }
    }
}
