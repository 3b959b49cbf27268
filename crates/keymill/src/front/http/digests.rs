//! `POST /v1/spaces/{space}/digests`: the keys of inputs, one or many.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State as Shared};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::Uri;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::admission::Sender;
use super::params::no_query;
use super::{Problem, State, body};
use crate::front::admission::exceeded;

/// What to digest: one input, or several. `openapi` describes the two forms separately.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DigestAsk {
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<String>,
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) inputs: Option<Vec<String>>,
    pub(crate) scope: String,
}

/// The key of an input.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct DigestView {
    /// The keyspace.
    pub(crate) space: String,
    /// The key of the input.
    pub(crate) key: String,
    /// Whether the input is new.
    pub(crate) made: bool,
    /// How many keys were tried for it, if it is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tries: Option<u8>,
}

/// The keys of several inputs.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct DigestsView {
    /// The keyspace.
    pub(crate) space: String,
    /// The keys, in the order of the inputs.
    pub(crate) keys: Vec<String>,
    /// Whether each input is new, in the same order.
    pub(crate) made: Vec<bool>,
}

// The request and the answer have two forms each, which `openapi` puts in place of these.
/// Returns the keys of inputs. The same input always has the same key.
#[utoipa::path(post, path = "/v1/spaces/{space}/digests", tag = "keys", operation_id = "create_digests",
    params(("space" = String, Path, description = "The keyspace, of kind `digest`")),
    request_body(content = DigestView, description = "One input, or several in a list"),
    responses(
        (status = 200, description = "The key of `input`, or the keys of `inputs` in their order", body = DigestView),
        (status = 400, description = "`bad_input`: empty, too long, or not a URL; `bad_count`: too many inputs"),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`exhausted`, `sealed`, `wrong_kind`, `wrong_secret`"),
        (status = 503, description = "`store_rolled_back`"),
    ))]
pub(super) async fn post(
    Shared(state): Shared<State>,
    sender: Sender,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
    body: Bytes,
) -> Result<Response, Problem> {
    let Path(space) = path?;
    no_query(&uri)?;
    let DigestAsk { input, inputs, scope } = body::object(&body)?;
    match (input, inputs) {
        (Some(input), None) => {
            let counted = sender.count(1, false).map_err(exceeded)?;
            let answer = state.service.digest(&space, &scope, &input).await?;
            counted.keep(1);
            let tries = answer.made.then_some(answer.tries);
            let view = DigestView { space, key: answer.key, made: answer.made, tries };
            Ok(Json(view).into_response())
        }
        (None, Some(inputs)) => {
            let max = state.service.limits().count_max;
            if !(1..=max as usize).contains(&inputs.len()) {
                let detail = format!("`inputs` must have 1 to {max} entries");
                return Err(Problem::bad_request("bad_count", detail));
            }
            let count = u32::try_from(inputs.len()).unwrap_or(u32::MAX);
            let counted = sender.count(count, false).map_err(exceeded)?;
            let answers = state.service.digest_all(&space, &scope, &inputs).await?;
            counted.keep(count);
            let (keys, made) = answers.into_iter().map(|answer| (answer.key, answer.made)).unzip();
            Ok(Json(DigestsView { space, keys, made }).into_response())
        }
        (Some(_), Some(_)) => {
            Err(Problem::bad_body("the body must have `input` or `inputs`, not both".to_owned()))
        }
        (None, None) => {
            let detail = "the body must have `input` (a string) or `inputs` (a list of strings)";
            Err(Problem::bad_body(detail.to_owned()))
        }
    }
}

/// Reads a field that may be left out, but not be null.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}
