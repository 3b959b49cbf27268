//! `/healthz`, `/readyz`, `/metrics`: for whoever watches.

use axum::Json;
use axum::extract::State as Shared;
use axum::response::IntoResponse;
use hyper::{StatusCode, header};

use super::State;
use crate::service::Health;

/// Whether the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "operations",
    responses((status = 200, description = "It is", body = String, content_type = "text/plain")))]
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// Whether it can serve, and what is wrong.
///
/// Problems that do not keep it from serving what it holds are listed with status 200.
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses((status = 200, body = Health), (status = 503, body = Health)))]
pub(super) async fn ready(Shared(state): Shared<State>) -> (StatusCode, Json<Health>) {
    let health = state.service.health();
    let status = if health.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(health))
}

/// Figures for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "OpenMetrics text", body = String, content_type = "text/plain")))]
pub(super) async fn metrics(Shared(state): Shared<State>) -> impl IntoResponse {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], state.metrics.encode())
}
