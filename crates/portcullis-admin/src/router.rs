//! The routes.

mod guard;
mod openapi;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{any, get, post};
use http::StatusCode;

use crate::handlers::{changes, reads};
use crate::page::page;
use crate::problem::Problem;
use crate::state::AdminState;

/// The router, without a state.
pub(crate) fn router(state: Arc<AdminState>) -> Router {
    let api = Router::new()
        .route("/v1/snapshot", get(reads::get_snapshot))
        .route("/v1/stream", get(reads::get_stream))
        .route("/v1/policies", get(reads::get_policies))
        .route("/v1/layers", get(reads::get_layers))
        .route("/v1/openapi.json", get(openapi::get_openapi))
        .route("/v1/budget", post(reads::post_budget))
        .route("/v1/overrides", post(reads::post_overrides))
        .route("/v1/reset", post(changes::post_reset))
        .route("/v1/grant", post(changes::post_grant))
        .route("/v1/revoke", post(changes::post_revoke))
        .route("/v1/block", post(changes::post_block))
        .route("/v1/unblock", post(changes::post_unblock))
        .route("/v1/mode", post(changes::post_mode))
        .route("/v1/quota", post(changes::post_quota))
        .route("/v1/{*path}", any(not_found))
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn_with_state(Arc::clone(&state), guard::authorize));
    let page = Router::new()
        .route("/", get(async || page()))
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn_with_state(Arc::clone(&state), guard::listed_host));
    api.merge(page).fallback(not_found).layer(from_fn(guard::headers)).with_state(state)
}

async fn not_found() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "there is no such route")
}

async fn not_allowed() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "the route has other methods")
}
