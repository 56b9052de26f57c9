//! The description of the API.

use std::sync::OnceLock;

use axum::response::Response;
use utoipa::OpenApi as _;

use crate::handlers::reads::json;
use crate::handlers::{changes, reads};
use crate::problem::Problem;

/// The document at `/v1/openapi.json`.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Portcullis admin API", description = "What a rate limiter does, and changes to it by operators."),
    servers((url = "..", description = "Where the API is mounted, from this document.")),
    paths(
        reads::get_snapshot,
        reads::get_stream,
        reads::get_policies,
        reads::get_layers,
        get_openapi,
        reads::post_budget,
        reads::post_overrides,
        changes::post_reset,
        changes::post_grant,
        changes::post_revoke,
        changes::post_block,
        changes::post_unblock,
        changes::post_mode,
        changes::post_quota,
    ),
    components(schemas(Problem))
)]
struct Document;

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", responses((status = 200, body = Object)))]
pub(crate) async fn get_openapi() -> Response {
    static DOCUMENT: OnceLock<utoipa::openapi::OpenApi> = OnceLock::new();
    json(DOCUMENT.get_or_init(Document::openapi))
}
