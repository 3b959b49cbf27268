//! `POST /v1/spaces/{space}/pool`: keys of the user's own, one a line, streamed.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Request, Response};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use tokio::time::{Instant, timeout_at};
use utoipa::ToSchema;

use super::{BODY_TIME_MAX, Body, Problem, State, check_encoding, full};
use crate::service::{Import, ImportInto};

/// How long an import may take.
const IMPORT_TIME_MAX: Duration = Duration::from_secs(3_600);
/// How many lines are taken together.
const LINES: usize = 10_000;

/// What became of the lines.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ImportView {
    space: String,
    /// New in the pool.
    imported: u64,
    /// Imported before.
    already_there: u64,
    /// How many lines were refused.
    refused_count: u64,
    /// The first thousand of them.
    refused: Vec<RefusedLine>,
}

/// A line that was refused.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RefusedLine {
    /// Its number, from 1.
    line: u64,
    reason: String,
}

/// Puts keys into a pool, one a line; however many, the body is read as it comes.
#[utoipa::path(post, path = "/v1/spaces/{space}/pool", tag = "keys",
    params(("space" = String, Path, description = "The keyspace, of kind `pooled`")),
    request_body(content = String, content_type = "text/plain"),
    responses(
        (status = 200, description = "What became of the lines: good ones are in, whatever the others are", body = ImportView),
        (status = 404, description = "`unknown_space`", body = Problem),
        (status = 409, description = "`sealed`, `wrong_kind`", body = Problem),
        (status = 408, description = "`body_too_slow`", body = Problem),
        (status = 503, description = "`too_many_imports`, `store_unavailable`, `store_went_back`", body = Problem),
    ))]
pub(super) async fn post(
    state: &State,
    encoded_name: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    check_encoding(request.uri())?;
    let space = percent_decode_str(encoded_name).decode_utf8_lossy().into_owned();
    let mut import = Import::new(&state.service, &space, ImportInto::Pool, LINES);
    state.service.check_pool(&space).await?;
    let Ok(_place) = state.imports.try_acquire() else {
        return Err(Problem::too_many_imports());
    };
    let deadline = Instant::now() + IMPORT_TIME_MAX;
    let mut body = request.into_body();
    loop {
        let frame = timeout_at(deadline.min(Instant::now() + BODY_TIME_MAX), body.frame());
        match frame.await.map_err(|_| Problem::body_too_slow())? {
            None => break,
            Some(Err(error)) => return Err(Problem::bad_request("bad_body", error.to_string())),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    import.push(&data).await?;
                }
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
