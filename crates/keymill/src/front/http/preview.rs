//! `POST /v1/preview`: keys like those of a keyspace that does not exist yet, for the web page.

use axum::Json;
use axum::extract::State as Shared;
use bytes::Bytes;
use hyper::Uri;
use jiff::Timestamp;
use keymill_engine::operations::Preview;
use keymill_engine::space::SpaceSpec;
use serde::Serialize;
use utoipa::ToSchema;

use super::params::no_query;
use super::{Problem, State, body};
use crate::front::space_settings::SpaceSettings;
use crate::front::view::SafeNumber;

/// For how many keys in use the odds of a guess are given.
const KEYS_IN_USE: f64 = 1_000_000.0;

/// What a keyspace with some settings would be.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PreviewView {
    /// Keys like those that it would hand out. They are made with a random secret, and are reserved nowhere.
    keys: Vec<String>,
    /// How many keys it would have in total.
    capacity: SafeNumber,
    /// The chance that a guess hits a key, once a million are in use.
    density_at_million: f64,
    /// With kind `snowflake`: the most keys per second that one instance can make.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_max: Option<SafeNumber>,
    /// With kind `snowflake`: when its timestamps end.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    runs_out_at: Option<Timestamp>,
}

/// Shows what the keys of a keyspace would look like, and how many there would be. Nothing is created, and the store
/// is not asked.
#[utoipa::path(post, path = "/v1/preview", tag = "keyspaces", operation_id = "preview_space",
    request_body(content = SpaceSettings, description = "The settings; those that are left out have their defaults"),
    responses(
        (status = 200, description = "Example keys and figures", body = PreviewView),
        (status = 400, description = "`bad_definition`"),
        (status = 409, description = "`secret_missing`"),
    ))]
pub(super) async fn post(
    Shared(state): Shared<State>,
    uri: Uri,
    body: Bytes,
) -> Result<Json<PreviewView>, Problem> {
    no_query(&uri)?;
    let wanted: SpaceSpec = body::object(&body)?;
    Ok(Json(state.service.preview(&wanted)?.into()))
}

impl From<Preview> for PreviewView {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    fn from(preview: Preview) -> PreviewView {
        PreviewView {
            keys: preview.keys,
            capacity: SafeNumber(preview.capacity),
            density_at_million: (KEYS_IN_USE / preview.domain as f64).min(1.0),
            rate_max: preview.rate_max.map(SafeNumber::from),
            runs_out_at: preview.runs_out_at,
        }
    }
}
