//! `/v1/spaces`: making and showing keyspaces.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Shared};
use bytes::Bytes;
use hyper::StatusCode;

use super::wire::{SpaceView, Spaces};
use super::{Problem, State};
use crate::space::SpaceSpec;

/// All keyspaces.
#[utoipa::path(get, path = "/v1/spaces", tag = "keyspaces",
    responses((status = 200, body = Spaces), (status = 503, description = "`store_unavailable`", body = Problem)))]
pub(super) async fn list(Shared(state): Shared<State>) -> Result<Json<Spaces>, Problem> {
    let reports = state.service.reports().await?;
    Ok(Json(Spaces { spaces: reports.into_iter().map(SpaceView::from).collect() }))
}

/// One keyspace, in figures.
#[utoipa::path(get, path = "/v1/spaces/{space}", tag = "keyspaces",
    params(("space" = String, Path, description = "The keyspace")),
    responses((status = 200, body = SpaceView), (status = 404, description = "`unknown_space`", body = Problem)))]
pub(super) async fn show(
    Shared(state): Shared<State>,
    space: Result<Path<String>, PathRejection>,
) -> Result<Json<SpaceView>, Problem> {
    let Path(space) = space?;
    Ok(Json(state.service.report(&space).await?.into()))
}

/// Makes a keyspace, or finds the same one there already.
#[utoipa::path(put, path = "/v1/spaces/{space}", tag = "keyspaces",
    params(("space" = String, Path, description = "Its name, never used before: a-z, 0-9, `-`, `_`")),
    request_body = SpaceSpec,
    responses(
        (status = 201, description = "Made", body = SpaceView),
        (status = 200, description = "The same was there already", body = SpaceView),
        (status = 400, description = "`bad_definition`, `bad_body`", body = Problem),
        (status = 409, description = "`different_definition`, with each difference; `other_store`", body = Problem),
        (status = 413, description = "`body_too_large`", body = Problem),
    ))]
pub(super) async fn put(
    Shared(state): Shared<State>,
    space: Result<Path<String>, PathRejection>,
    body: Bytes,
) -> Result<(StatusCode, Json<SpaceView>), Problem> {
    let Path(space) = space?;
    let wanted = parse(&body)?;
    let ensured = state.service.ensure_space(&space, &wanted).await?;
    let status = if ensured.made { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(state.service.report(&space).await?.into())))
}

/// Reads a keyspace as JSON, whatever the body is labelled as: one that was overlooked would be
/// made with the defaults, for good. No body at all asks for them.
fn parse(body: &[u8]) -> Result<SpaceSpec, Problem> {
    if body.is_empty() {
        return Ok(SpaceSpec::default());
    }
    let refuse = |detail| Problem::bad_request("bad_body", detail);
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(refuse("the body must be a JSON object, such as {\"length\": 8}".to_owned()));
    }
    serde_json::from_slice(body).map_err(|error| refuse(format!("the JSON of the body: {error}")))
}
