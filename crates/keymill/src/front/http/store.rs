//! `GET /v1/store`: the store of this instance, and whether it is safe.

use axum::Json;
use axum::extract::State as Shared;
use hyper::Uri;
use keymill_engine::operations::Finding;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::params::no_query;
use super::{Problem, State};
use crate::front::schemas;

/// The store of an instance.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct StoreView {
    /// Its kind, such as `sqlite` or `postgres`.
    pub(crate) kind: String,
    /// Where it is, without passwords.
    pub(crate) location: String,
    /// What distinguishes it from every other store; an export of a keyspace names the store that it is for by it.
    pub(crate) identity: String,
    /// What was checked, setting by setting.
    #[schema(value_type = Vec<schemas::Finding>)]
    pub(crate) findings: Vec<Finding>,
}

/// Shows the store of this instance, and whether it is safe to take keys from, setting by setting.
#[utoipa::path(get, path = "/v1/store", tag = "operations", operation_id = "get_store",
    responses((status = 200, description = "The store and its settings", body = StoreView)))]
pub(super) async fn show(
    Shared(state): Shared<State>,
    uri: Uri,
) -> Result<Json<StoreView>, Problem> {
    no_query(&uri)?;
    let service = &state.service;
    let (described, findings) = (service.describe_store(), service.check().await?);
    Ok(Json(StoreView {
        kind: described.kind.to_owned(),
        location: described.location,
        identity: service.store_identity().await?,
        findings,
    }))
}
