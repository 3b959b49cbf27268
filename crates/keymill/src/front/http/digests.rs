//! `POST /v1/spaces/{space}/digests`: the key of an input.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Shared};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Problem, State};

/// What to digest.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// A URL, or whatever else: at most 8,192 bytes.
    input: String,
    /// Two scopes have two keys for one input; empty by default.
    #[serde(default)]
    scope: String,
}

/// The key of an input.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DigestView {
    space: String,
    key: String,
    /// Whether the input is new.
    made: bool,
    /// How many keys were tried for it, where it is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    tries: Option<u8>,
}

/// The key of an input: always the same one.
#[utoipa::path(post, path = "/v1/spaces/{space}/digests", tag = "keys",
    params(("space" = String, Path, description = "The keyspace, of kind `digest`")),
    request_body = Input,
    responses(
        (status = 200, description = "The key", body = DigestView),
        (status = 400, description = "`bad_input`: empty, too long, or no URL; `bad_body`", body = Problem),
        (status = 404, description = "`unknown_space`", body = Problem),
        (status = 409, description = "`exhausted`, `sealed`, `wrong_kind`", body = Problem),
        (status = 503, description = "`store_unavailable`, `store_went_back`", body = Problem),
    ))]
pub(super) async fn post(
    Shared(state): Shared<State>,
    path: Result<Path<String>, PathRejection>,
    body: Bytes,
) -> Result<Json<DigestView>, Problem> {
    let Path(space) = path?;
    let Input { input, scope } = serde_json::from_slice(&body).map_err(|error| {
        Problem::bad_request("bad_body", format!("the JSON of the body: {error}"))
    })?;
    let answer = state.service.digest(&space, &scope, &input).await?;
    let tries = answer.made.then_some(answer.tries);
    Ok(Json(DigestView { space, key: answer.key, made: answer.made, tries }))
}
