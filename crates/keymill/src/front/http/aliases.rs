//! `/v1/spaces/{space}/aliases` and `…/{alias}`: keys that somebody chose.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State as Shared};
use bytes::Bytes;
use hyper::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::audit::{PageQuery, checked};
use super::{Problem, State};
use crate::store::NameRecord;

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

/// An alias on record.
#[derive(Debug, Serialize, ToSchema)]
pub struct AliasRecordView {
    space: String,
    alias: String,
    /// Empty where nobody said.
    owner: String,
    #[schema(value_type = String)]
    created_at: Timestamp,
}

/// A page of aliases.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Aliases {
    aliases: Vec<AliasRecordView>,
    /// Give this as `after` for the next page; none on the last.
    next: Option<String>,
}

/// Aliases of a keyspace, by name.
#[utoipa::path(get, path = "/v1/spaces/{space}/aliases", tag = "keys", operation_id = "list_aliases",
    params(("space" = String, Path, description = "The keyspace"), PageQuery),
    responses(
        (status = 200, description = "A page of aliases", body = Aliases),
        (status = 400, description = "`bad_parameter`", body = Problem),
        (status = 404, description = "`unknown_space`", body = Problem),
    ))]
pub(super) async fn list(
    Shared(state): Shared<State>,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<Aliases>, Problem> {
    let (Path(space), Query(query)) = (path?, query?);
    let limit = checked(query.limit)?;
    if query.after.as_deref().is_some_and(|after| after.contains(char::is_control)) {
        let detail = "`after` must be the `next` of another page".to_owned();
        return Err(Problem::bad_request("bad_parameter", detail));
    }
    let aliases = state.service.aliases(&space, query.after, limit).await?;
    let last = aliases.last().filter(|_| aliases.len() == limit as usize);
    let next = last.map(|last| last.key.clone());
    Ok(Json(Aliases { aliases: aliases.into_iter().map(Into::into).collect(), next }))
}

/// One alias, with its owner and since when.
#[utoipa::path(get, path = "/v1/spaces/{space}/aliases/{alias}", tag = "keys", operation_id = "show_alias",
    params(
        ("space" = String, Path, description = "The keyspace"),
        ("alias" = String, Path, description = "The alias"),
    ),
    responses(
        (status = 200, description = "The alias", body = AliasRecordView),
        (status = 404, description = "`unknown_space`, `unknown_alias`", body = Problem),
    ))]
pub(super) async fn show(
    Shared(state): Shared<State>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<AliasRecordView>, Problem> {
    let Path((space, alias)) = path?;
    Ok(Json(state.service.alias(&space, &alias).await?.into()))
}

impl From<NameRecord> for AliasRecordView {
    fn from(name: NameRecord) -> AliasRecordView {
        let NameRecord { space, key, owner, created_at, .. } = name;
        AliasRecordView { space, alias: key, owner, created_at }
    }
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
