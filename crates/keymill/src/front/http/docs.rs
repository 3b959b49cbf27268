//! `/openapi.json`, `/docs` and `/`: the description of all this, for programs and people.

use axum::Json;
use axum::response::{Html, Redirect};
use utoipa::OpenApi;

use super::{aliases, audit, digests, explain, health, pool, spaces, take, used};

#[derive(OpenApi)]
#[openapi(
    info(title = "keymill", description = "Short keys that cannot repeat and cannot be guessed."),
    paths(
        take::post,
        take::get_key,
        explain::explain,
        spaces::list,
        spaces::show,
        spaces::put,
        aliases::list,
        aliases::show,
        aliases::put,
        aliases::delete,
        digests::post,
        pool::post,
        used::retire,
        used::list,
        audit::leases,
        audit::instances,
        health::alive,
        health::ready,
        health::metrics,
    )
)]
struct Description;

pub(super) async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(Description::openapi())
}

pub(super) async fn page() -> Html<&'static str> {
    Html(include_str!("../../../dashboard/docs.html"))
}

pub(super) async fn home() -> Redirect {
    Redirect::to("/docs")
}
