//! `GET /v1/spaces/{space}/bounds`: the lowest and the highest key of a period, for range queries.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Shared};
use hyper::Uri;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::params::{query, time};
use super::{Problem, State};

/// The lowest and the highest key of a period; neither, if there are no keys in it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct BoundsView {
    /// The lowest key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first: Option<String>,
    /// The highest key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<String>,
}

/// Returns the lowest and the highest key of a period: of snowflake IDs, UUIDs of version 7, and the keys of a
/// sequential keyspace that were leased in it.
#[utoipa::path(get, path = "/v1/spaces/{space}/bounds", tag = "keys", operation_id = "get_bounds",
    params(
        ("space" = String, Path, description = "The keyspace, of a kind whose keys are ordered by time"),
        ("from" = String, Query, description = "Made or leased at this time or later"),
        ("to" = String, Query, description = "Made or leased before this time"),
    ),
    responses(
        (status = 200, description = "The lowest and the highest key; an empty object if there are no keys in the period", body = BoundsView),
        (status = 400, description = "`bad_parameter`, `repeated_parameter`"),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`wrong_kind`: its keys are not ordered by time; `wrong_secret`"),
    ))]
pub(super) async fn show(
    Shared(state): Shared<State>,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Json<BoundsView>, Problem> {
    let Path(space) = path?;
    let [from, to] = query(&uri, &["from", "to"])?;
    let (from, to) = (time("from", from.as_deref())?, time("to", to.as_deref())?);
    let (Some(from), Some(to)) = (from, to) else {
        return Err(Problem::bad_parameter("`from` and `to` are missing".to_owned()));
    };
    let found = state.service.bounds(&space, from, to).await?;
    let (first, last) = found.map(|bounds| (bounds.first, bounds.last)).unzip();
    Ok(Json(BoundsView { first, last }))
}
