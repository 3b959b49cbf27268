//! `POST /v1/spaces/{space}/export` and `POST /v1/import`: a keyspace moves to another store, as a file of lines.
//!
//! Both are streams: an export is read page by page as the client reads it, an import is written as it comes. What is
//! in the file is decided by the service. A file that is damaged or incomplete leaves a keyspace that stays sealed.
//!
//! # Invariants
//!
//! - Of an export no more than a page is in memory, of an import no more than a line. Both have a place among the
//!   imports, which are few.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body as AxumBody;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Shared};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming};
use hyper::{Request, Response, Uri};
use keymill_engine::operations::{ExportCheck, ExportFile, MovedFile, ServiceError, SpaceRecord};
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use utoipa::ToSchema;

use super::admission::Standing;
use super::origin::Origin;
use super::params::no_query;
use super::streamed_body::StreamedBody;
use super::tokens::Subject;
use super::{Body, Problem, State, body, full, label};
use crate::front::view::SafeNumber;

/// The content type of the file.
pub(crate) const NDJSON: &str = "application/x-ndjson";
/// The longest line. The first one has all ranges of ordinals that were returned unused.
const LINE_LEN_MAX: usize = 4 << 20;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Read = Result<(ExportFile, Option<String>), ServiceError>;
type Reading = Pin<Box<dyn Future<Output = Read> + Send>>;

/// Where a keyspace is exported to.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportAsk {
    /// The identity of the store that it moves to; `GET /v1/store` of a server on that store has it.
    #[serde(rename = "for")]
    pub(crate) for_store: String,
    /// Export it for another store than before; the earlier file must never have been imported.
    #[serde(default)]
    pub(crate) replace_target: bool,
}

/// A keyspace that was imported.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct MovedView {
    /// The keyspace.
    pub(crate) space: String,
    /// How many rows were imported.
    pub(crate) rows: u64,
    /// The ordinal at which it continues.
    pub(crate) next: SafeNumber,
}

/// Exports a sealed keyspace with all its records, to move it to another store. The file does not contain the
/// secret; the new store needs the same one. If the answer breaks off, repeat the request.
#[utoipa::path(post, path = "/v1/spaces/{space}/export", tag = "keyspaces", operation_id = "export_space",
    params(("space" = String, Path, description = "The keyspace, which must be sealed")),
    request_body(content = ExportAsk, description = "Where it moves to"),
    responses(
        (status = 200, description = "The file, one JSON object per line, for `POST /v1/import`; its last line says that it is complete",
            body = String, content_type = "application/x-ndjson"),
        (status = 400, description = "`bad_import`: it is not sealed, or was exported for another store"),
        (status = 404, description = "`unknown_space`"),
        (status = 503, description = "`too_many_imports`, `store_rolled_back`"),
    ))]
pub(super) async fn export(
    Shared(state): Shared<State>,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
    body: Bytes,
) -> Result<axum::response::Response, Problem> {
    let Path(space) = path?;
    no_query(&uri)?;
    let ExportAsk { for_store, replace_target } = body::object(&body)?;
    let place = state.imports.clone().try_acquire_owned();
    let place = place.map_err(|_| Problem::too_many_imports())?;
    let file = state.service.export_file(&space, &for_store, replace_target).await?;
    let lines = ExportedLines { space, reading: Some(Box::pin(read(file))), _place: place };
    let mut answer = Response::new(AxumBody::new(lines));
    label(answer.headers_mut(), hyper::header::HeaderValue::from_static(NDJSON));
    Ok(answer)
}

async fn read(mut file: ExportFile) -> Read {
    let lines = file.lines().await?;
    Ok((file, lines))
}

/// The lines of a file, as they are read.
struct ExportedLines {
    space: String,
    /// The next lines; `None` behind the last.
    reading: Option<Reading>,
    _place: OwnedSemaphorePermit,
}

impl HttpBody for ExportedLines {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(reading) = &mut self.reading else {
            return Poll::Ready(None);
        };
        let done = ready!(reading.as_mut().poll(context));
        self.reading = None;
        match done {
            Ok((file, Some(lines))) => {
                self.reading = Some(Box::pin(read(file)));
                Poll::Ready(Some(Ok(Frame::data(lines.into()))))
            }
            Ok((_, None)) => Poll::Ready(None),
            Err(error) => {
                // The status was sent, so the client learns only that the answer broke off.
                tracing::error!(space = self.space, "an export broke off: {error}");
                Poll::Ready(Some(Err(error.into())))
            }
        }
    }
}

/// Imports a keyspace that was exported from another store. It hands out keys once the import is complete. If it
/// is interrupted, repeat it with the same file.
///
/// Rows are written as they come, and are compared with the end of the file before the keyspace hands out keys. If
/// the file was changed, the keyspace stays sealed.
#[utoipa::path(post, path = "/v1/import", tag = "keyspaces", operation_id = "import_space",
    request_body(content = String, content_type = "application/x-ndjson"),
    responses(
        (status = 200, description = "The keyspace, complete", body = MovedView),
        (status = 400, description = "`bad_import`: the file is for another store, damaged or incomplete; `bad_definition`"),
        (status = 409, description = "`wrong_secret`: the keyspace was made with another secret; `other_store`"),
        (status = 503, description = "`too_many_imports`, `store_rolled_back`"),
    ))]
pub(super) async fn import(
    state: &State,
    origin: &Arc<Origin>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    let standing = Standing::new(origin, &request);
    no_query(request.uri())?;
    if !request.body().is_end_stream() {
        body::check_label_is(NDJSON, request.headers())?;
    }
    let mut body = StreamedBody::new(state, request.into_body())?;
    let imported = read_in(state, &standing, &mut body).await;
    let (rows, record) = match imported {
        Ok(imported) => imported,
        Err(problem) => {
            body.discard().await;
            return Err(problem);
        }
    };
    let view = MovedView { space: record.name.clone(), rows, next: record.mark.next.into() };
    let view = serde_json::to_vec(&view).expect("a plain struct can be written as JSON");
    let mut answer = full("application/json", view);
    answer.extensions_mut().insert(Subject(record.name));
    Ok(answer)
}

/// Imports the lines of a file; how many rows it has, and the keyspace.
async fn read_in(
    state: &State,
    standing: &Standing,
    body: &mut StreamedBody,
) -> Result<(u64, SpaceRecord), Problem> {
    let mut lines = ImportedLines {
        check: ExportCheck::default(),
        file: state.service.import_file(),
        begun: Vec::new(),
        count: 0,
    };
    while let Some(data) = body.next().await? {
        standing.check(state)?;
        lines.push(&data).await?;
    }
    if !lines.begun.is_empty() {
        lines.end_line().await?;
    }
    Ok((lines.file.rows(), lines.file.finish()?))
}

/// A file that is being imported. Each line is checked before it is imported; the last one tells whether all were
/// right.
struct ImportedLines<'a> {
    check: ExportCheck,
    file: MovedFile<'a>,
    /// A line that has begun.
    begun: Vec<u8>,
    count: u64,
}

impl ImportedLines<'_> {
    async fn push(&mut self, bytes: &[u8]) -> Result<(), ServiceError> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.begun.len() + part.len() > LINE_LEN_MAX {
                return Err(bad_line(self.count + 1, "is too long"));
            }
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.end_line().await?;
            }
        }
        Ok(())
    }

    async fn end_line(&mut self) -> Result<(), ServiceError> {
        self.count += 1;
        let line = std::mem::take(&mut self.begun);
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Ok(line) = std::str::from_utf8(line) else {
            return Err(bad_line(self.count, "is not UTF-8 text"));
        };
        self.check.add(line)?;
        self.file.add(line).await
    }
}

fn bad_line(number: u64, problem: &str) -> ServiceError {
    ServiceError::BadImport(format!("line {number} {problem}; an export has no such line"))
}
