//! `/healthz`, `/readyz`, `/metrics`: for monitoring.

use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State as Shared;
use axum::response::IntoResponse;
use hyper::{HeaderMap, StatusCode, header};
use keymill_engine::operations::{Health, Problem};

use super::admission::Sender;
use super::{State, accept};
use crate::access::rights::Right;
use crate::front::schemas;

/// Checks whether the process is running.
#[utoipa::path(get, path = "/healthz", tag = "operations", operation_id = "check_health",
    responses((status = 200, description = "It is running", body = String, content_type = "text/plain")))]
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// Checks whether this instance can serve keys, and lists its problems.
///
/// Problems that do not prevent it from serving are listed with status 200. If the server has tokens, problems are
/// listed only for a token that may read all keyspaces.
#[utoipa::path(get, path = "/readyz", tag = "operations", operation_id = "check_readiness",
    responses(
        (status = 200, description = "It can serve keys; problems that do not prevent that are listed", body = schemas::Health),
        (status = 503, description = "It cannot serve a keyspace that was requested", body = schemas::Health),
    ))]
pub(super) async fn ready(
    Shared(state): Shared<State>,
    sender: Sender,
) -> (StatusCode, Json<Health>) {
    let mut health = state.service.health();
    health.problems.extend(state.metrics.tls.problems());
    if state.stopping.load(Ordering::Relaxed) {
        health.ready = false;
        // The service says so itself once it stops, which is later.
        if !health.problems.iter().any(|problem| problem.code == "stopping") {
            let detail = "this instance is stopping".to_owned();
            health.problems.push(Problem { code: "stopping", space: None, detail });
        }
    }
    if !sender.may(Right::Read, None) {
        // What is wrong with which keyspace is not for everybody.
        health.problems.clear();
    }
    let status = if health.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(health))
}

/// Returns metrics for Prometheus, which docs/metrics.md describes. The store is not asked.
#[utoipa::path(get, path = "/metrics", tag = "operations", operation_id = "get_metrics",
    responses((status = 200, description = "The text format of Prometheus, or OpenMetrics for clients that accept it",
        content((String = "text/plain"), (String = "application/openmetrics-text")))))]
pub(super) async fn metrics(Shared(state): Shared<State>, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = accept::metrics_format(accept.unwrap_or_default());
    let headers = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")];
    (headers, state.metrics.encode(format))
}
