//! `GET /v1/activity`: how keyspaces were used since this instance started, for the web page and for people.
//!
//! Everything is in memory: no store is asked, so it is answered as fast while the store is unreachable.

use axum::extract::State as Shared;
use hyper::Uri;
use jiff::Timestamp;
use keymill_engine::latency::Bounds;
use keymill_engine::operations::{Space, check_space};
use keymill_engine::space::Kind;
use serde::Serialize;
use utoipa::ToSchema;

use super::page::{self, Page};
use super::params::query;
use super::{Problem, SafeNumber, State};
use crate::front::schemas;

/// How keyspaces were used since the start of an instance.
#[derive(Serialize, ToSchema)]
pub(super) struct Activity {
    /// The ID of the instance. Counts of another one begin at 0.
    instance: String,
    /// When this was so.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// How long the instance has been running.
    uptime_seconds: f64,
    /// The upper bounds of the buckets of latencies.
    bounds_seconds: Vec<f64>,
    /// The keyspaces that this instance has open, ordered by name. One is opened when it is first asked for.
    spaces: Vec<SpaceActivity>,
    /// Pass this as `after` to get the next page; null on the last page.
    next: Option<String>,
}

/// How a keyspace was used, over all protocols.
#[derive(Serialize, ToSchema)]
pub(super) struct SpaceActivity {
    /// Its name.
    space: String,
    #[schema(value_type = schemas::Kind)]
    kind: Kind,
    /// Keys handed out by takes, and keys of inputs.
    keys: SafeNumber,
    /// Requests for keys. What was refused before it reached the keyspace, for lack of a right or because of a limit, is not
    /// counted. In a stream over gRPC, each batch is counted.
    requests: SafeNumber,
    /// Those of them that got no key: the keyspace is used up, or the store did not answer in time.
    failures: SafeNumber,
    /// Keys in this instance's memory, ready to be taken.
    ready: SafeNumber,
    /// The requests by how long they took, one number for each of `bounds_seconds` and one for those above all of them.
    latency_counts: Vec<SafeNumber>,
}

/// Lists how keyspaces were used since this instance started.
///
/// All of it is counted from the start of this instance, and ends with it. The difference of two answers is what
/// happened in between. The store is not asked.
#[utoipa::path(get, path = "/v1/activity", tag = "operations", operation_id = "list_activity",
    params(
        ("space" = Option<String>, Query, description = "Only this keyspace"),
        ("after" = Option<String>, Query, description = "The `next` of the previous page"),
        ("limit" = Option<u32>, Query, description = "How many to list"),
    ),
    responses(
        (status = 200, description = "A page of keyspaces", body = Activity),
        (status = 400, description = "`bad_parameter`, `repeated_parameter`"),
        (status = 404, description = "`unknown_space`: the name cannot be that of a keyspace"),
    ))]
pub(super) async fn list(
    Shared(state): Shared<State>,
    uri: Uri,
) -> Result<Page<Activity>, Problem> {
    let [space, after, limit] = query(&uri, &["space", "after", "limit"])?;
    let (after, limit) = (page::after(after)?, page::limit(limit.as_deref())?);
    let service = &state.service;
    let mut spaces = match space {
        Some(name) => {
            check_space(&name)?;
            service.known_space(&name).into_iter().collect()
        }
        None => service.known_spaces(),
    };
    spaces.retain(|space| after.as_ref().is_none_or(|after| space.name > *after));
    spaces.sort_unstable_by(|one, next| one.name.cmp(&next.name));
    spaces.truncate(limit as usize);
    let spaces: Vec<SpaceActivity> = spaces.iter().map(|space| SpaceActivity::of(space)).collect();
    let next = page::next(&spaces, limit, |space| space.space.clone());
    let activity = Activity {
        instance: service.instance().id.clone(),
        at: Timestamp::now(),
        uptime_seconds: service.uptime().as_secs_f64(),
        bounds_seconds: Bounds::REQUESTS.seconds().to_vec(),
        spaces,
        next: next.clone(),
    };
    Ok(Page::new(&uri, next.as_deref(), activity))
}

impl SpaceActivity {
    fn of(space: &Space) -> SpaceActivity {
        let usage = space.usage();
        SpaceActivity {
            space: space.name.clone(),
            kind: space.record().definition.kind,
            keys: usage.keys.into(),
            requests: usage.requests.into(),
            failures: usage.failures.into(),
            ready: space.at_hand().into(),
            latency_counts: usage.latency_counts.into_iter().map(SafeNumber::from).collect(),
        }
    }
}
