//! `POST /v1/spaces/{space}/pool` and `…/used-keys`: imports keys, one per line, as a stream.

use std::sync::Arc;

use hyper::body::{Body as _, Incoming};
use hyper::{Request, Response};
use keymill_engine::operations::{Import, ImportInto, ImportReport};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::admission::Standing;
use super::origin::Origin;
use super::params::{query, whole_number};
use super::streamed_body::StreamedBody;
use super::{Body, Problem, State, body, check_encoding, full};

/// How many lines are imported together.
const LINES: usize = 10_000;

/// The result of an import.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ImportView {
    /// The keyspace.
    pub(crate) space: String,
    /// How many keys are new.
    pub(crate) imported: u64,
    /// How many keys had been imported before.
    pub(crate) already_there: u64,
    /// How many lines were refused.
    pub(crate) refused_count: u64,
    /// The first thousand refused lines.
    pub(crate) refused: Vec<RefusedLine>,
}

/// A line that was refused.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RefusedLine {
    /// Its number, from 1.
    pub(crate) line: u64,
    /// Why it was refused.
    pub(crate) reason: String,
}

/// Imports keys into a pool, one per line. The body is read as a stream and may have any length.
#[utoipa::path(post, path = "/v1/spaces/{space}/pool", tag = "keys", operation_id = "import_keys",
    params(
        ("space" = String, Path, description = "The keyspace, of kind `pooled`"),
        ("first_line" = Option<u32>, Query, description = "The number of the first line, for a file that is sent in parts; 1 if left out"),
    ),
    request_body(content = String, content_type = "text/plain"),
    responses(
        (status = 200, description = "What was imported and refused; valid lines are imported even if others are refused", body = ImportView),
        (status = 400, description = "`bad_parameter`, `repeated_parameter`"),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`sealed`, `wrong_kind`, `wrong_secret`"),
        (status = 503, description = "`too_many_imports`, `store_rolled_back`"),
    ))]
pub(super) async fn into_pool(
    state: &State,
    origin: &Arc<Origin>,
    encoded_name: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    let standing = Standing::new(origin, &request);
    import(state, &standing, encoded_name, request, ImportInto::Pool).await
}

/// Imports keys that are already in use, one per line, so that they are never handed out. The body is read as a
/// stream and may have any length.
#[utoipa::path(post, path = "/v1/spaces/{space}/used-keys", tag = "keys", operation_id = "import_used_keys",
    params(
        ("space" = String, Path, description = "The keyspace"),
        ("first_line" = Option<u32>, Query, description = "The number of the first line, for a file that is sent in parts; 1 if left out"),
    ),
    request_body(content = String, content_type = "text/plain"),
    responses(
        (status = 200, description = "What was imported and refused; valid lines are imported even if others are refused", body = ImportView),
        (status = 400, description = "`bad_parameter`, `repeated_parameter`"),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`sealed`, `wrong_kind`, `wrong_secret`"),
        (status = 503, description = "`too_many_imports`, `store_rolled_back`"),
    ))]
pub(super) async fn as_used(
    state: &State,
    origin: &Arc<Origin>,
    encoded_name: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    let standing = Standing::new(origin, &request);
    import(state, &standing, encoded_name, request, ImportInto::Used).await
}

async fn import(
    state: &State,
    standing: &Standing,
    encoded_name: &str,
    request: Request<Incoming>,
    into: ImportInto,
) -> Result<Response<Body>, Problem> {
    check_encoding(request.uri())?;
    let [first_line] = query(request.uri(), &["first_line"])?;
    let first_line = match first_line.as_deref() {
        None => 1,
        Some(text) => whole_number(text, 1..=u32::MAX).ok_or_else(|| {
            Problem::bad_parameter(format!("`first_line` must be from 1 to {}", u32::MAX))
        })?,
    };
    if !request.body().is_end_stream() {
        body::check_label_is("text/plain", request.headers())?;
    }
    let space = percent_decode_str(encoded_name).decode_utf8_lossy().into_owned();
    match into {
        ImportInto::Pool => state.service.check_pool(&space).await?,
        ImportInto::Used => drop(state.service.report(&space).await?),
    }
    let mut lines = StreamedBody::new(state, request.into_body())?;
    let mut import =
        Import::new(&state.service, &space, into, LINES).starting_at(first_line.into());
    loop {
        let next = lines.next().await.and_then(|data| {
            standing.check(state)?;
            Ok(data)
        });
        match next {
            Ok(Some(data)) => import.push(&data).await?,
            Ok(None) => break,
            Err(problem) => return Err(interrupted(problem, &import.tell())),
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

/// Adds to a problem how far an import has come.
fn interrupted(problem: Problem, report: &ImportReport) -> Problem {
    let ImportReport { made, known, .. } = report;
    problem.adding(&format!(
        ". The import ends here: {made} keys were imported, and {known} had been there before. It is safe to repeat it"
    ))
}
