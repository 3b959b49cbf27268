//! `/v1/spaces/{space}/used` and `DELETE /v1/spaces/{space}/keys/{key}`: lists used keys, and retires a
//! key.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Shared};
use hyper::Uri;
use jiff::Timestamp;
use keymill_engine::operations::{UsedKey, UsedPage};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::{Undescribed, no_body};
use super::page::{self, Page};
use super::params::{no_query, query, time};
use super::{Problem, State};

/// A used key.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct UsedView {
    /// The key.
    pub(crate) key: String,
    /// When it was handed out; with audit `batch`, when it was claimed from the pool.
    #[schema(value_type = String)]
    pub(crate) used_at: Timestamp,
    /// The caller it was handed out to; empty if none was given.
    pub(crate) caller: String,
    /// The instance that handed it out.
    pub(crate) instance: String,
    /// When it expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) expires_at: Option<Timestamp>,
    /// When it was retired.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) retired_at: Option<Timestamp>,
}

/// A page of used keys.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct UsedKeys {
    /// The keys, ordered by the time of use.
    pub(crate) used: Vec<UsedView>,
    /// Pass this as `after` to get the next page; absent on the last page.
    pub(crate) next: Option<String>,
}

/// Lists used keys, ordered by time. Single keys are recorded in pools and with audit `key`.
#[utoipa::path(get, path = "/v1/spaces/{space}/used", tag = "audit", operation_id = "list_used_keys",
    params(
        ("space" = String, Path, description = "The keyspace"),
        ("from" = Option<String>, Query, description = "Used at this time or later"),
        ("to" = Option<String>, Query, description = "Used before this time"),
        ("caller" = Option<String>, Query, description = "Only keys handed out to this caller"),
        ("after" = Option<String>, Query, description = "The `next` of the previous page"),
        ("limit" = Option<u32>, Query, description = "How many to list"),
    ),
    responses(
        (status = 200, description = "A page of used keys", body = UsedKeys),
        (status = 400, description = "`bad_parameter`, `bad_caller`, `repeated_parameter`"),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`wrong_kind`: the store does not support pools, digests or key audit; `wrong_secret`"),
    ))]
pub(super) async fn list(
    Shared(state): Shared<State>,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Page<UsedKeys>, Problem> {
    let Path(space) = path?;
    let [from, to, caller, after, limit] =
        query(&uri, &["from", "to", "caller", "after", "limit"])?;
    let (from, to) = (time("from", from.as_deref())?, time("to", to.as_deref())?);
    let limit = page::limit(limit.as_deref())?;
    let after = after.map(|after| as_use(&after).ok_or_else(page::bad_after)).transpose()?;
    if caller.as_deref() == Some("") {
        let detail = "`caller` must not be empty; leave it out for the keys of all callers";
        return Err(Problem::bad_parameter(detail.to_owned()));
    }
    let caller = caller.map(String::from);
    let used = state.service.used(&UsedPage { space, from, to, caller, after, limit }).await?;
    let next =
        page::next(&used, limit, |last| format!("{}-{}", last.used_at.as_millisecond(), last.id));
    let used = used.into_iter().map(UsedView::from).collect();
    Ok(Page::new(&uri, next.clone().as_deref(), UsedKeys { used, next }))
}

/// The time and the row of a used key, as `next` writes them.
fn as_use(after: &str) -> Option<(Timestamp, i64)> {
    let (millis, id) = after.split_once('-')?;
    Some((Timestamp::from_millisecond(millis.parse().ok()?).ok()?, id.parse().ok()?))
}

/// Retires a key that was handed out: it is `retired` from now on. In a keyspace with audit `batch`
/// an instance may still hold it in memory, and hand it out.
#[utoipa::path(delete, path = "/v1/spaces/{space}/keys/{key}", tag = "keys", operation_id = "retire_key",
    params(
        ("space" = String, Path, description = "The keyspace"),
        ("key" = String, Path, description = "The key, in any spelling that the keyspace accepts"),
    ),
    responses(
        (status = 200, description = "The key, with the time at which it was retired", body = UsedView),
        (status = 400, description = "`bad_body`: it takes no body"),
        (status = 404, description = "`unknown_space`"),
        (status = 408, description = "`body_too_slow`"),
        (status = 409, description = "`not_retirable`: it was not handed out; `sealed`: the keyspace was exported; `wrong_kind`, `wrong_secret`"),
        (status = 413, description = "`body_too_large`"),
        (status = 503, description = "`store_rolled_back`"),
    ))]
pub(super) async fn retire(
    Shared(state): Shared<State>,
    path: Result<Path<(String, String)>, PathRejection>,
    uri: Uri,
    body: Undescribed,
) -> Result<Json<UsedView>, Problem> {
    let Path((space, key)) = path?;
    no_query(&uri)?;
    no_body(&body, "everything is in the URL")?;
    Ok(Json(state.service.retire(&space, &key).await?.into()))
}

impl From<UsedKey> for UsedView {
    fn from(used: UsedKey) -> UsedView {
        let UsedKey { key, used_at, caller, instance, expires_at, retired_at, .. } = used;
        UsedView { key, used_at, caller, instance, expires_at, retired_at }
    }
}
