//! `/v1/spaces/{space}/aliases/{alias}`: keys that somebody chose.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Shared};
use bytes::Bytes;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Problem, State};

/// Whose alias it is.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Owner {
    /// Whoever asks again with the same owner gets 200 instead of 409; empty by default.
    owner: String,
}

/// An alias.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AliasView {
    space: String,
    alias: String,
    owner: String,
}

/// Takes a key by name. It is never handed out to anybody else.
#[utoipa::path(put, path = "/v1/spaces/{space}/aliases/{alias}", tag = "keys",
    params(
        ("space" = String, Path, description = "The keyspace"),
        ("alias" = String, Path, description = "1 to 16 letters, digits, `-`, `_`, `.`, `~`"),
    ),
    request_body = Owner,
    responses(
        (status = 201, description = "Taken for this owner", body = AliasView),
        (status = 200, description = "It was this owner's already", body = AliasView),
        (status = 400, description = "`bad_alias`: too long, reserved, blocked, another region's", body = Problem),
        (status = 404, description = "`unknown_space`", body = Problem),
        (status = 409, description = "`taken`: another's, or handed out as a key", body = Problem),
    ))]
pub(super) async fn put(
    Shared(state): Shared<State>,
    path: Result<Path<(String, String)>, PathRejection>,
    body: Bytes,
) -> Result<(StatusCode, Json<AliasView>), Problem> {
    let Path((space, alias)) = path?;
    let Owner { owner } = parse(&body)?;
    let made = state.service.add_alias(&space, &alias, &owner).await?;
    let status = if made { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(AliasView { space, alias, owner })))
}

/// Removes an alias. Its key is not handed out all the same.
#[utoipa::path(delete, path = "/v1/spaces/{space}/aliases/{alias}", tag = "keys",
    params(
        ("space" = String, Path, description = "The keyspace"),
        ("alias" = String, Path, description = "The alias"),
    ),
    request_body = Owner,
    responses(
        (status = 204, description = "Removed"),
        (status = 404, description = "`unknown_space`, `unknown_alias`", body = Problem),
        (status = 409, description = "`taken`: it is another owner's", body = Problem),
    ))]
pub(super) async fn delete(
    Shared(state): Shared<State>,
    path: Result<Path<(String, String)>, PathRejection>,
    body: Bytes,
) -> Result<StatusCode, Problem> {
    let Path((space, alias)) = path?;
    let Owner { owner } = parse(&body)?;
    state.service.remove_alias(&space, &alias, &owner).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn parse(body: &[u8]) -> Result<Owner, Problem> {
    if body.is_empty() {
        return Ok(Owner::default());
    }
    serde_json::from_slice(body)
        .map_err(|error| Problem::bad_request("bad_body", format!("the JSON of the body: {error}")))
}
