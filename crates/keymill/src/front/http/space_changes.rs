//! `PATCH /v1/spaces/{space}`, `POST …/grow` and `POST …/seal`: what changes of a keyspace that exists.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Shared};
use axum::{Extension, Json};
use bytes::Bytes;
use hyper::Uri;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::{Undescribed, no_body};
use super::params::{confirmed, no_query, query};
use super::tokens::Unchanged;
use super::{Problem, State, body};
use crate::front::space_settings::{self, SpaceChange};
use crate::front::view::SpaceView;

/// How a keyspace grows.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Growth {
    /// The length of the new keys in characters, without prefix and check character; they must be longer
    /// than the current ones.
    pub(crate) length: u8,
}

/// Changes how a keyspace is served. Its key format cannot change.
#[utoipa::path(patch, path = "/v1/spaces/{space}", tag = "keyspaces", operation_id = "change_space",
    params(("space" = String, Path, description = "The keyspace")),
    request_body(content = SpaceChange, description = "Only the settings to change; the others stay as they are"),
    responses(
        (status = 200, description = "The keyspace with its new settings. Other instances follow with their next heartbeat", body = SpaceView),
        (status = 400, description = "`bad_definition`"),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`wrong_kind`: its kind has no such setting; `sealed`: it was exported"),
        (status = 503, description = "`store_rolled_back`"),
    ))]
pub(super) async fn change(
    Shared(state): Shared<State>,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
    body: Bytes,
) -> Result<(Option<Extension<Unchanged>>, Json<SpaceView>), Problem> {
    let Path(space) = path?;
    no_query(&uri)?;
    let wanted: SpaceChange = body::object(&body)?;
    let wanted = space_settings::spec(&wanted);
    let changed = space_settings::change(&state.service, &space, &wanted).await?;
    let unchanged = (!changed.tuned).then_some(Extension(Unchanged));
    Ok((unchanged, shown(&state, &space).await?))
}

/// Adds longer keys to a keyspace. Takes continue with them when the last of the current ones is handed out, on every
/// instance. This cannot be undone.
#[utoipa::path(post, path = "/v1/spaces/{space}/grow", tag = "keyspaces", operation_id = "grow_space",
    params(("space" = String, Path, description = "The keyspace")),
    request_body(content = Growth, description = "The length of the new keys"),
    responses(
        (status = 200, description = "The keyspace with its new keys", body = SpaceView),
        (status = 400, description = "`bad_definition`: the length is not above the current one, or the kind cannot grow"),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`sealed`, `wrong_secret`"),
        (status = 503, description = "`store_rolled_back`"),
    ))]
pub(super) async fn grow(
    Shared(state): Shared<State>,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
    body: Bytes,
) -> Result<Json<SpaceView>, Problem> {
    let Path(space) = path?;
    no_query(&uri)?;
    let Growth { length } = body::object(&body)?;
    state.service.grow(&space, length).await?;
    shown(&state, &space).await
}

/// Seals a keyspace for good: it hands out no more keys. Other instances that are running may hand out keys that
/// they hold until their next heartbeat.
#[utoipa::path(post, path = "/v1/spaces/{space}/seal", tag = "keyspaces", operation_id = "seal_space",
    params(
        ("space" = String, Path, description = "The keyspace"),
        ("confirm" = String, Query, description = "The name of the keyspace once more, because this cannot be undone"),
    ),
    responses(
        (status = 200, description = "The keyspace, which is sealed", body = SpaceView),
        (status = 400, description = "`bad_body`: it takes no body; `unconfirmed`, `repeated_parameter`"),
        (status = 404, description = "`unknown_space`"),
        (status = 408, description = "`body_too_slow`"),
        (status = 413, description = "`body_too_large`"),
        (status = 415, description = "`unsupported_media_type`"),
        (status = 503, description = "`store_rolled_back`"),
    ))]
pub(super) async fn seal(
    Shared(state): Shared<State>,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
    body: Undescribed,
) -> Result<Json<SpaceView>, Problem> {
    let Path(space) = path?;
    let [confirm] = query(&uri, &["confirm"])?;
    no_body(&body, "everything is in the URL")?;
    if !confirmed(confirm.as_deref(), &space)? {
        return Err(Problem::unconfirmed(&space));
    }
    state.service.seal(&space).await?;
    shown(&state, &space).await
}

async fn shown(state: &State, space: &str) -> Result<Json<SpaceView>, Problem> {
    Ok(Json(state.service.report(space).await?.into()))
}
