//! `/v1/spaces/{space}/used` and `DELETE /v1/spaces/{space}/keys/{key}`: the record of single keys, and
//! their end.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State as Shared};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::audit::checked;
use super::{Problem, State};
use crate::store::keys::{UsedKey, UsedPage};

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UsedQuery {
    /// Used at this time or later, such as 2026-01-31T12:00:00Z.
    #[param(value_type = Option<String>)]
    from: Option<Timestamp>,
    /// Used before this time.
    #[param(value_type = Option<String>)]
    to: Option<Timestamp>,
    /// Handed out to this caller.
    caller: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    /// How many: 100 if left out, at most 1000.
    limit: Option<u32>,
}

/// A used key.
#[derive(Debug, Serialize, ToSchema)]
pub struct UsedView {
    key: String,
    /// When it was handed out; with audit `batch`, when it was claimed from the pool.
    #[schema(value_type = String)]
    used_at: Timestamp,
    /// To whom; empty where nobody said.
    caller: String,
    /// By which instance.
    instance: String,
    /// When it ceases to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    expires_at: Option<Timestamp>,
    /// When it was retired.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    retired_at: Option<Timestamp>,
}

/// A page of used keys.
#[derive(Serialize, ToSchema)]
pub(super) struct UsedKeys {
    used: Vec<UsedView>,
    /// Give this as `after` for the next page; none on the last.
    next: Option<String>,
}

/// Used keys by time, where single keys are recorded: pools, and keyspaces with audit `key`.
#[utoipa::path(get, path = "/v1/spaces/{space}/used", tag = "audit",
    params(("space" = String, Path, description = "The keyspace"), UsedQuery),
    responses(
        (status = 200, body = UsedKeys),
        (status = 400, description = "`bad_parameter`", body = Problem),
        (status = 404, description = "`unknown_space`", body = Problem),
        (status = 409, description = "`wrong_kind`: the store keeps no rows of keys", body = Problem),
    ))]
pub(super) async fn list(
    Shared(state): Shared<State>,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<UsedQuery>, QueryRejection>,
) -> Result<Json<UsedKeys>, Problem> {
    let (Path(space), Query(query)) = (path?, query?);
    let limit = checked(query.limit)?;
    let after = query.after.as_deref().map(|after| {
        let parts = after.split_once('-').and_then(|(millis, id)| {
            Some((Timestamp::from_millisecond(millis.parse().ok()?).ok()?, id.parse().ok()?))
        });
        parts.ok_or_else(|| {
            let detail = "`after` must be the `next` of another page".to_owned();
            Problem::bad_request("bad_parameter", detail)
        })
    });
    let after = after.transpose()?;
    let UsedQuery { from, to, caller, .. } = query;
    let used = state.service.used(&UsedPage { space, from, to, caller, after, limit }).await?;
    let last = used.last().filter(|_| used.len() == limit as usize);
    let next = last.map(|last| format!("{}-{}", last.used_at.as_millisecond(), last.id));
    Ok(Json(UsedKeys { used: used.into_iter().map(UsedView::from).collect(), next }))
}

/// Retires a key that was handed out: it is `retired` from now on. Of a keyspace with audit `batch`
/// an instance may hold it in memory still, and hand it out.
#[utoipa::path(delete, path = "/v1/spaces/{space}/keys/{key}", tag = "keys",
    params(
        ("space" = String, Path, description = "The keyspace"),
        ("key" = String, Path, description = "The key, in any spelling its shape understands"),
    ),
    responses(
        (status = 200, description = "The key, with when it was retired", body = UsedView),
        (status = 404, description = "`unknown_space`", body = Problem),
        (status = 409, description = "`not_retirable`: it was not handed out; `wrong_kind`", body = Problem),
    ))]
pub(super) async fn retire(
    Shared(state): Shared<State>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<UsedView>, Problem> {
    let Path((space, key)) = path?;
    Ok(Json(state.service.retire(&space, &key).await?.into()))
}

impl From<UsedKey> for UsedView {
    fn from(used: UsedKey) -> UsedView {
        let UsedKey { key, used_at, caller, instance, expires_at, retired_at, .. } = used;
        UsedView { key, used_at, caller, instance, expires_at, retired_at }
    }
}
