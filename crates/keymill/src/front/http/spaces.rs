//! `/v1/spaces`: creates and shows keyspaces.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Shared};
use bytes::Bytes;
use hyper::{StatusCode, Uri};
use keymill_engine::space::SpaceSpec;

use super::page::{self, Page};
use super::params::{no_query, query};
use super::{Problem, State, body};
use crate::front::space_settings::SpaceSettings;
use crate::front::view::{SpaceView, Spaces};

/// Lists keyspaces, ordered by name.
#[utoipa::path(get, path = "/v1/spaces", tag = "keyspaces", operation_id = "list_spaces",
    params(
        ("after" = Option<String>, Query, description = "The `next` of the previous page"),
        ("limit" = Option<u32>, Query, description = "How many to list"),
    ),
    responses(
        (status = 200, description = "A page of keyspaces", body = Spaces),
        (status = 400, description = "`bad_parameter`, `repeated_parameter`"),
    ))]
pub(super) async fn list(Shared(state): Shared<State>, uri: Uri) -> Result<Page<Spaces>, Problem> {
    let [after, limit] = query(&uri, &["after", "limit"])?;
    let (after, limit) = (page::after(after)?, page::limit(limit.as_deref())?);
    let reports = state.service.reports_after(after.as_deref(), limit).await?;
    let next = page::next(&reports, limit, |report| report.record.name.clone());
    let spaces = reports.into_iter().map(SpaceView::from).collect();
    Ok(Page::new(&uri, next.clone().as_deref(), Spaces { spaces, next }))
}

/// Shows a keyspace's settings and usage.
#[utoipa::path(get, path = "/v1/spaces/{space}", tag = "keyspaces", operation_id = "get_space",
    params(("space" = String, Path, description = "The keyspace")),
    responses(
        (status = 200, description = "The keyspace", body = SpaceView),
        (status = 404, description = "`unknown_space`"),
    ))]
pub(super) async fn show(
    Shared(state): Shared<State>,
    space: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Json<SpaceView>, Problem> {
    let Path(space) = space?;
    no_query(&uri)?;
    Ok(Json(state.service.report(&space).await?.into()))
}

/// Creates a keyspace. If it already exists with the same key format, its changeable settings are
/// set to those of the request.
#[utoipa::path(put, path = "/v1/spaces/{space}", tag = "keyspaces", operation_id = "create_space",
    params(("space" = String, Path, description = "The name of the keyspace: a-z, 0-9, `-`, `_`")),
    request_body(content = SpaceSettings, description = "Settings that are left out have their defaults"),
    responses(
        (status = 201, description = "Created", body = SpaceView),
        (status = 200, description = "It already exists with the same key format", body = SpaceView),
        (status = 400, description = "`bad_definition`"),
        (status = 403, description = "`not_existing`: the instance was started with `--require-existing`"),
        (status = 409, description = "`different_definition`, with each difference; `wrong_secret`, `other_store`, `sealed`"),
        (status = 503, description = "`store_rolled_back`"),
    ))]
pub(super) async fn put(
    Shared(state): Shared<State>,
    space: Result<Path<String>, PathRejection>,
    uri: Uri,
    body: Bytes,
) -> Result<(StatusCode, Json<SpaceView>), Problem> {
    let Path(space) = space?;
    no_query(&uri)?;
    let wanted: SpaceSpec = body::object(&body)?;
    let ensured = state.service.ensure_space(&space, &wanted).await?;
    let status = if ensured.made { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(state.service.report(&space).await?.into())))
}
