//! The routes: which handler answers which path, but for takes and imports.
//!
//! `Http` answers those by hand, and asks this router for everything else. What a request needs is decided before, in
//! `needs`.

use axum::Router;
use axum::routing::{any, get, post};

use super::{State, problem};
use super::{aliases, audit, digests, docs, explain, health, key_bounds, moving, openapi, pool};
use super::{preview, web_page};
use super::{space_changes, spaces, store, tokens, used};

/// All routes that are not answered by hand.
pub(super) fn router(state: State) -> Router {
    Router::new()
        .route("/v1/spaces", get(spaces::list))
        .route(
            "/v1/spaces/{space}",
            get(spaces::show).put(spaces::put).patch(space_changes::change),
        )
        .route("/v1/spaces/{space}/grow", post(space_changes::grow))
        .route("/v1/spaces/{space}/seal", post(space_changes::seal))
        .route("/v1/spaces/{space}/keys", post(problem::method_not_allowed))
        .route("/v1/spaces/{space}/keys/{key}", get(explain::explain).delete(used::retire))
        .route("/v1/spaces/{space}/aliases", get(aliases::list))
        .route(
            "/v1/spaces/{space}/aliases/{alias}",
            get(aliases::show).put(aliases::put).delete(aliases::delete),
        )
        .route("/v1/spaces/{space}/digests", post(digests::post))
        .route("/v1/spaces/{space}/used", get(used::list))
        // Imports, here and below, are answered by `Http`, because they are streams.
        .route("/v1/spaces/{space}/pool", get(pool::list).post(problem::method_not_allowed))
        .route("/v1/spaces/{space}/pool/fill", post(pool::fill))
        .route("/v1/spaces/{space}/used-keys", post(problem::method_not_allowed))
        .route("/v1/spaces/{space}/advance", post(problem::method_not_allowed))
        .route("/v1/spaces/{space}/bounds", get(key_bounds::show))
        .route("/v1/spaces/{space}/export", post(moving::export))
        .route("/v1/import", post(problem::method_not_allowed))
        .route("/v1/preview", post(preview::post))
        .route("/v1/store", get(store::show))
        .route("/v1/leases", get(audit::leases))
        .route("/v1/instances", get(audit::instances))
        .route("/v1/acts", get(tokens::acts))
        .route("/v1/tokens", get(tokens::list).post(tokens::create))
        .route("/v1/tokens/{name}", get(tokens::show).delete(tokens::revoke))
        .route("/v1/tokens/{name}/rotate", post(tokens::rotate))
        // Answered by `Http`; it is here so that a wrong method is not reported as a wrong path.
        .route("/get-key", get(problem::method_not_allowed))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi::json))
        .route("/docs", get(docs::page))
        .route("/docs/style.css", get(docs::style))
        .route("/docs/script.js", get(docs::script))
        .route("/", get(web_page::home))
        .route("/page/style.css", get(web_page::style))
        .route("/page/script.js", get(web_page::script))
        .route("/page/mark.svg", get(web_page::mark))
        .route("/v1/{*rest}", any(problem::not_found))
        .fallback(problem::not_found)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .with_state(state)
}
