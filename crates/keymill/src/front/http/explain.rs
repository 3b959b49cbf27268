//! `GET /v1/spaces/{space}/keys/{key}`: where a key came from.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Shared};
use hyper::Uri;

use super::params::no_query;
use super::{Problem, State};
use crate::front::view::ExplanationView;

/// Explains where a key came from.
#[utoipa::path(get, path = "/v1/spaces/{space}/keys/{key}", tag = "keys", operation_id = "explain_key",
    params(
        ("space" = String, Path, description = "The keyspace"),
        ("key" = String, Path, description = "The key, in any spelling that the keyspace accepts"),
    ),
    responses(
        (status = 200, description = "Its state, which may be `invalid`, and the lease it came from", body = ExplanationView),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`wrong_secret`"),
    ))]
pub(super) async fn explain(
    Shared(state): Shared<State>,
    path: Result<Path<(String, String)>, PathRejection>,
    uri: Uri,
) -> Result<Json<ExplanationView>, Problem> {
    let Path((space, key)) = path?;
    no_query(&uri)?;
    let explanation = state.service.explain(&space, &key).await?;
    Ok(Json(ExplanationView::new(&space, &key, explanation)))
}
