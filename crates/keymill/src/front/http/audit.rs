//! `/v1/leases` and `/v1/instances`: the audit record, page by page.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State as Shared};
use serde::Deserialize;
use utoipa::IntoParams;

use super::wire::{Instances, LeaseView, Leases};
use super::{Problem, State};
use crate::store::{InstancePage, LeasePage};

const LIMIT_DEFAULT: u32 = 100;
const LIMIT_MAX: u32 = 1_000;

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LeasesQuery {
    /// Of one keyspace only.
    space: Option<String>,
    /// `next` of the page before.
    after: Option<String>,
    /// How many: 100 if left out, at most 1000.
    limit: Option<u32>,
}

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// `next` of the page before.
    pub(super) after: Option<String>,
    /// How many: 100 if left out, at most 1000.
    pub(super) limit: Option<u32>,
}

/// Leases, by keyspace and then by age.
#[utoipa::path(get, path = "/v1/leases", tag = "audit", params(LeasesQuery),
    responses((status = 200, body = Leases), (status = 400, description = "`bad_parameter`", body = Problem)))]
pub(super) async fn leases(
    Shared(state): Shared<State>,
    query: Result<Query<LeasesQuery>, QueryRejection>,
) -> Result<Json<Leases>, Problem> {
    let Query(query) = query?;
    let limit = checked(query.limit)?;
    let after = match &query.after {
        None => None,
        Some(after) => {
            let parts = after.rsplit_once('/');
            let parsed = parts.and_then(|(space, lease)| {
                // Revisions fit 63 bits in every store.
                let lease = lease.parse().ok().filter(|lease| *lease <= i64::MAX as u64)?;
                Some((space.to_owned(), lease))
            });
            Some(parsed.ok_or_else(|| {
                let detail = "`after` must be the `next` of another page".to_owned();
                Problem::bad_request("bad_parameter", detail)
            })?)
        }
    };
    if let Some(space) = &query.space {
        state.service.space(space).await?;
    }
    let page = LeasePage { space: query.space, after, limit };
    let leases = state.service.leases(&page).await?;
    let last = leases.last().filter(|_| leases.len() == limit as usize);
    let next = last.map(|lease| format!("{}/{}", lease.space, lease.lease));
    Ok(Json(Leases { leases: leases.into_iter().map(LeaseView::from).collect(), next }))
}

/// Instances, by age.
#[utoipa::path(get, path = "/v1/instances", tag = "audit", params(PageQuery),
    responses((status = 200, body = Instances), (status = 400, description = "`bad_parameter`", body = Problem)))]
pub(super) async fn instances(
    Shared(state): Shared<State>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<Instances>, Problem> {
    let Query(query) = query?;
    let limit = checked(query.limit)?;
    let instances = state.service.instances(&InstancePage { after: query.after, limit }).await?;
    let last = instances.last().filter(|_| instances.len() == limit as usize);
    let next = last.map(|record| record.instance.id.clone());
    Ok(Json(Instances { instances, next }))
}

pub(super) fn checked(limit: Option<u32>) -> Result<u32, Problem> {
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(limit);
    }
    let detail = format!("limit must be a whole number from 1 to {LIMIT_MAX}");
    Err(Problem::bad_request("bad_parameter", detail))
}
