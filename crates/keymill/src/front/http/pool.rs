//! `GET /v1/spaces/{space}/pool` and `POST …/pool/fill`: the keys in a pool, and more of them.
//!
//! Keys of the user's own come in through `imports`.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Shared};
use bytes::Bytes;
use hyper::Uri;
use keymill_engine::operations::{AvailablePage, Claimed, Filling};
use keymill_engine::space::CAPACITY_MAX;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::page::{self, Page};
use super::params::{no_query, query};
use super::{Problem, State, body};
use crate::front::view::SafeNumber;

/// How many keys one request writes: those of one transaction on most stores. It takes some tenths of a second.
const FILL_MAX: u64 = 1 << 16;

/// A page of the keys in a pool.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct AvailableKeys {
    /// The keyspace.
    pub(crate) space: String,
    /// The keys, in the order in which they will be handed out.
    pub(crate) keys: Vec<String>,
    /// Pass this as `after` to get the next page; absent on the last page.
    pub(crate) next: Option<String>,
}

/// How far to fill a pool. `openapi` describes the two forms separately.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FillAsk {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) up_to: Option<u64>,
}

/// How far a pool was filled.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
pub(crate) struct FillView {
    /// How many keys were written.
    pub(crate) added: SafeNumber,
    /// How many are still to be written. A request writes a limited number of keys: repeat it until this is 0, with
    /// this as its `count`, or with the same `up_to`.
    pub(crate) left: SafeNumber,
    /// Whether the keyspace has no more keys to write.
    pub(crate) is_used_up: bool,
}

/// Lists the available keys of a pool, in the order in which they will be handed out.
#[utoipa::path(get, path = "/v1/spaces/{space}/pool", tag = "keys", operation_id = "list_available_keys",
    params(
        ("space" = String, Path, description = "The keyspace, of kind `pooled`"),
        ("after" = Option<String>, Query, description = "The `next` of the previous page"),
        ("limit" = Option<u32>, Query, description = "How many to list"),
    ),
    responses(
        (status = 200, description = "A page of keys", body = AvailableKeys),
        (status = 400, description = "`bad_parameter`, `repeated_parameter`"),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`wrong_kind`"),
    ))]
pub(super) async fn list(
    Shared(state): Shared<State>,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Page<AvailableKeys>, Problem> {
    let Path(space) = path?;
    let [after, limit] = query(&uri, &["after", "limit"])?;
    let limit = page::limit(limit.as_deref())?;
    let after = after.map(|after| as_key(&after).ok_or_else(page::bad_after)).transpose()?;
    let asked = AvailablePage { space, after, limit };
    let keys = state.service.available_keys(&asked).await?;
    let next = page::next(&keys, limit, |last| format!("{}/{}", last.id, last.key));
    let keys = keys.into_iter().map(|available| available.key).collect();
    let view = AvailableKeys { space: asked.space, keys, next: next.clone() };
    Ok(Page::new(&uri, next.as_deref(), view))
}

/// The row and the text of a key, as `next` writes them.
fn as_key(after: &str) -> Option<Claimed> {
    let (id, key) = after.split_once('/')?;
    let fits = after.len() <= page::AFTER_LEN_MAX && !key.is_empty();
    let is_plain = id.bytes().all(|byte| byte.is_ascii_digit());
    let id = id.parse().ok().filter(|_| fits && is_plain && !key.contains(char::is_control))?;
    Some(Claimed { id, key: key.to_owned() })
}

// The request has two forms, which `openapi` puts in place of this.
/// Writes new keys into a pool: `count` of them, or as many as are missing until `up_to` are available. A
/// request writes a limited number of keys, and answers how many are left.
#[utoipa::path(post, path = "/v1/spaces/{space}/pool/fill", tag = "keys", operation_id = "fill_pool",
    params(("space" = String, Path, description = "The keyspace, of kind `pooled`")),
    request_body(content = FillView, description = "How many keys to add, or how many there should be"),
    responses(
        (status = 200, description = "How many keys were written, and how many are left to write", body = FillView),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`exhausted`, `sealed`, `wrong_kind`, `wrong_secret`"),
        (status = 503, description = "`no_keys_ready`: the blocklist matches all new keys; `store_rolled_back`"),
    ))]
pub(super) async fn fill(
    Shared(state): Shared<State>,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
    body: Bytes,
) -> Result<Json<FillView>, Problem> {
    let Path(space) = path?;
    no_query(&uri)?;
    let ask: FillAsk = body::object(&body)?;
    if ask.count.or(ask.up_to).is_some_and(|number| number > CAPACITY_MAX) || ask.count == Some(0) {
        let problem = format!("`count` must be from 1, and `up_to` from 0, to {CAPACITY_MAX}");
        return Err(Problem::bad_body(problem));
    }
    let service = &state.service;
    service.check_pool(&space).await?;
    let available = async || -> Result<u64, Problem> {
        Ok(service.report(&space).await?.available.unwrap_or(0))
    };
    // What is wanted of this request, and in all.
    let (filling, wanted, in_all) = match (ask.count, ask.up_to) {
        (Some(count), None) => (Filling::Add(count.min(FILL_MAX)), count.min(FILL_MAX), count),
        (None, Some(up_to)) => {
            let found = available().await?;
            let missing = up_to.saturating_sub(found);
            let wanted = missing.min(FILL_MAX);
            (Filling::UpTo(found + wanted), wanted, missing)
        }
        _ => {
            let detail = "the body must have either `count` or `up_to`, as a whole number";
            return Err(Problem::bad_body(detail.to_owned()));
        }
    };
    if wanted == 0 {
        let none = SafeNumber::from(0);
        return Ok(Json(FillView { added: none, left: none, is_used_up: false }));
    }
    let mut left_of_wanted = wanted;
    let each = |_, left| left_of_wanted = left;
    let added = service.fill_pool(&space, filling, each).await?;
    let left = left_of_wanted + (in_all - wanted);
    let is_used_up = left_of_wanted > 0;
    Ok(Json(FillView { added: added.into(), left: left.into(), is_used_up }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_page_of_a_pool_begins_is_read_as_it_is_written() {
        let last = as_key("70/a/b").unwrap();
        assert_eq!((last.id, last.key.as_str()), (70, "a/b"));
        for text in ["", "70", "70/", "/a", "-1/a", "x/a", "70/a\u{1}", "99999999999999999999/a"] {
            assert!(as_key(text).is_none(), "{text:?}");
        }
    }
}
