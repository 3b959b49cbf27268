//! `/v1/leases` and `/v1/instances`: the audit record, page by page.

use axum::extract::State as Shared;
use hyper::Uri;
use keymill_engine::operations::{InstancePage, LeasePage};

use super::page::{self, Page};
use super::params::query;
use super::{Problem, State};
use crate::front::view::{Instances, LeaseView, Leases};

/// Lists leases, ordered by keyspace and then by age.
///
/// Needs `read` in the keyspace that `space` names; without it, in all of them.
#[utoipa::path(get, path = "/v1/leases", tag = "audit", operation_id = "list_leases",
    params(
        ("space" = Option<String>, Query, description = "Only leases of this keyspace"),
        ("after" = Option<String>, Query, description = "The `next` of the previous page"),
        ("limit" = Option<u32>, Query, description = "How many to list"),
    ),
    responses(
        (status = 200, description = "A page of leases", body = Leases),
        (status = 400, description = "`bad_parameter`, `repeated_parameter`"),
        (status = 404, description = "`unknown_space`"),
        (status = 409, description = "`wrong_secret`"),
    ))]
pub(super) async fn leases(
    Shared(state): Shared<State>,
    uri: Uri,
) -> Result<Page<Leases>, Problem> {
    let [space, after, limit] = query(&uri, &["space", "after", "limit"])?;
    let limit = page::limit(limit.as_deref())?;
    let after = after.map(|after| as_lease(&after).ok_or_else(page::bad_after)).transpose()?;
    if let Some(space) = &space {
        state.service.space(space).await?;
    }
    let page = LeasePage { space: space.map(String::from), after, limit };
    let leases = state.service.leases(&page).await?;
    let next = page::next(&leases, limit, |lease| format!("{}/{}", lease.space, lease.lease));
    let leases = leases.into_iter().map(LeaseView::from).collect();
    Ok(Page::new(&uri, next.clone().as_deref(), Leases { leases, next }))
}

/// Lists instances, ordered by age.
#[utoipa::path(get, path = "/v1/instances", tag = "audit", operation_id = "list_instances",
    params(
        ("after" = Option<String>, Query, description = "The `next` of the previous page"),
        ("limit" = Option<u32>, Query, description = "How many to list"),
    ),
    responses(
        (status = 200, description = "A page of instances", body = Instances),
        (status = 400, description = "`bad_parameter`, `repeated_parameter`"),
    ))]
pub(super) async fn instances(
    Shared(state): Shared<State>,
    uri: Uri,
) -> Result<Page<Instances>, Problem> {
    let [after, limit] = query(&uri, &["after", "limit"])?;
    let (after, limit) = (page::after(after)?, page::limit(limit.as_deref())?);
    let instances = state.service.instances(&InstancePage { after, limit }).await?;
    let next = page::next(&instances, limit, |record| record.instance.id.clone());
    Ok(Page::new(&uri, next.clone().as_deref(), Instances { instances, next }))
}

/// The keyspace and the number of a lease, as `next` writes them.
fn as_lease(after: &str) -> Option<(String, u64)> {
    let (space, lease) = after.rsplit_once('/')?;
    // Revisions fit 63 bits in every store.
    let lease = lease.parse::<u64>().ok().filter(|lease| *lease <= i64::MAX as u64)?;
    keymill_engine::space::check_name(space).ok()?;
    Some((space.to_owned(), lease))
}
