//! `/v1/spaces/{space}/aliases` and `…/{alias}`: keys that users choose.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Shared};
use bytes::Bytes;
use hyper::{StatusCode, Uri};
use jiff::Timestamp;
use keymill_engine::operations::NameRecord;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::admission::Sender;
use super::body::{Undescribed, no_body};
use super::page::{self, Page};
use super::params::{no_query, query};
use super::{Problem, State, body};

/// The owner of an alias.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Owner {
    /// Repeating the request with the same owner returns 200 instead of 409; empty by default.
    pub(crate) owner: String,
}

/// An alias.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AliasView {
    /// The keyspace.
    space: String,
    /// The alias.
    alias: String,
    /// Its owner; empty if none was given.
    owner: String,
}

/// An alias on record.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AliasRecordView {
    /// The keyspace.
    pub(crate) space: String,
    /// The alias.
    pub(crate) alias: String,
    /// Its owner; empty if none was given.
    pub(crate) owner: String,
    #[schema(value_type = String)]
    /// When it was added.
    pub(crate) created_at: Timestamp,
}

/// A page of aliases.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Aliases {
    /// The aliases, ordered by name.
    pub(crate) aliases: Vec<AliasRecordView>,
    /// Pass this as `after` to get the next page; absent on the last page.
    pub(crate) next: Option<String>,
}

/// Lists the aliases of a keyspace, ordered by name.
#[utoipa::path(get, path = "/v1/spaces/{space}/aliases", tag = "keys", operation_id = "list_aliases",
    params(
        ("space" = String, Path, description = "The keyspace"),
        ("after" = Option<String>, Query, description = "The `next` of the previous page"),
        ("limit" = Option<u32>, Query, description = "How many to list"),
    ),
    responses(
        (status = 200, description = "A page of aliases", body = Aliases),
        (status = 400, description = "`bad_parameter`, `repeated_parameter`"),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`wrong_secret`"),
    ))]
pub(super) async fn list(
    Shared(state): Shared<State>,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Page<Aliases>, Problem> {
    let Path(space) = path?;
    let [after, limit] = query(&uri, &["after", "limit"])?;
    let (after, limit) = (page::after(after)?, page::limit(limit.as_deref())?);
    let aliases = state.service.aliases(&space, after, limit).await?;
    let next = page::next(&aliases, limit, |last| last.key.clone());
    let aliases = aliases.into_iter().map(AliasRecordView::from).collect();
    Ok(Page::new(&uri, next.clone().as_deref(), Aliases { aliases, next }))
}

/// Shows an alias, its owner and when it was added.
#[utoipa::path(get, path = "/v1/spaces/{space}/aliases/{alias}", tag = "keys", operation_id = "get_alias",
    params(
        ("space" = String, Path, description = "The keyspace"),
        ("alias" = String, Path, description = "The alias"),
    ),
    responses(
        (status = 200, description = "The alias", body = AliasRecordView),
        (status = 404, description = "`unknown_space`, `unknown_alias`"),
        (status = 409, description = "`wrong_secret`"),
    ))]
pub(super) async fn show(
    Shared(state): Shared<State>,
    path: Result<Path<(String, String)>, PathRejection>,
    uri: Uri,
) -> Result<Json<AliasRecordView>, Problem> {
    let Path((space, alias)) = path?;
    no_query(&uri)?;
    Ok(Json(state.service.alias(&space, &alias).await?.into()))
}

impl From<NameRecord> for AliasRecordView {
    fn from(name: NameRecord) -> AliasRecordView {
        let NameRecord { space, key, owner, created_at, .. } = name;
        AliasRecordView { space, alias: key, owner, created_at }
    }
}

/// Reserves a key of your choice. It is never handed out to anyone else.
#[utoipa::path(put, path = "/v1/spaces/{space}/aliases/{alias}", tag = "keys", operation_id = "put_alias",
    params(
        ("space" = String, Path, description = "The keyspace"),
        ("alias" = String, Path, description = "Letters, digits, `-`, `_`, `.` and `~`"),
    ),
    request_body(content = Owner, description = "Without it, the alias has no owner"),
    responses(
        (status = 201, description = "Reserved for this owner", body = AliasView),
        (status = 200, description = "It already belongs to this owner", body = AliasView),
        (status = 400, description = "`bad_alias`: too long, reserved, blocked, or a key of another region; `bad_owner`"),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`taken`: already issued, or owned by someone else; `wrong_secret`"),
        (status = 503, description = "`store_rolled_back`"),
    ))]
pub(super) async fn put(
    Shared(state): Shared<State>,
    sender: Sender,
    path: Result<Path<(String, String)>, PathRejection>,
    uri: Uri,
    body: Bytes,
) -> Result<(StatusCode, Json<AliasView>), Problem> {
    let Path((space, alias)) = path?;
    no_query(&uri)?;
    let Owner { owner } = body::object(&body)?;
    let owner = sender.name(&owner, &space).into_owned();
    let made = state.service.add_alias(&space, &alias, &owner).await?;
    let status = if made { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(AliasView { space, alias, owner })))
}

/// Removes an alias. Its key stays reserved and is never handed out.
#[utoipa::path(delete, path = "/v1/spaces/{space}/aliases/{alias}", tag = "keys", operation_id = "delete_alias",
    params(
        ("space" = String, Path, description = "The keyspace"),
        ("alias" = String, Path, description = "The alias"),
        ("owner" = Option<String>, Query, description = "Its owner, if it has one"),
    ),
    responses(
        (status = 204, description = "Removed"),
        (status = 400, description = "`bad_body`: it takes no body; `bad_owner`, `repeated_parameter`"),
        (status = 404, description = "`unknown_space`, `unknown_alias`"),
        (status = 408, description = "`body_too_slow`"),
        (status = 409, description = "`taken`: it belongs to another owner; `sealed`: the keyspace was exported; `wrong_secret`"),
        (status = 413, description = "`body_too_large`"),
        (status = 503, description = "`store_rolled_back`"),
    ))]
pub(super) async fn delete(
    Shared(state): Shared<State>,
    sender: Sender,
    path: Result<Path<(String, String)>, PathRejection>,
    uri: Uri,
    body: Undescribed,
) -> Result<StatusCode, Problem> {
    let Path((space, alias)) = path?;
    let [owner] = query(&uri, &["owner"])?;
    no_body(&body, "name the owner in the URL: `?owner=`")?;
    let owner = sender.name(&owner.unwrap_or_default(), &space).into_owned();
    state.service.remove_alias(&space, &alias, &owner).await?;
    Ok(StatusCode::NO_CONTENT)
}
