//! The pages of the status: whether the process lives, whether it is ready, and its metrics.

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use portcullis::Limiter;
use serde_json::json;

use super::metrics::Exporter;
use crate::Readiness;

/// `/healthz`, `/healthcheck`, which deployments of Envoy's own service probe, `/readyz` and, with an exporter, `/metrics`.
pub(crate) fn router(readiness: &Readiness, limiter: &Limiter, exporter: Option<&Exporter>) -> Router {
    let readiness = readiness.clone();
    let ready = get(async move || ready_page(&readiness));
    let router = Router::new()
        .route("/healthz", get(healthz))
        .route("/healthcheck", get(healthz))
        .route("/readyz", ready);
    let Some(exporter) = exporter.cloned() else {
        return router;
    };
    let limiter = limiter.clone();
    let page = async move || {
        limiter.refresh_metrics();
        ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], exporter.render())
    };
    router.route("/metrics", get(page))
}

async fn healthz() -> &'static str {
    "ok\n"
}

fn ready_page(readiness: &Readiness) -> Response {
    let reasons = readiness.reasons();
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let listed: Vec<_> = reasons
        .iter()
        .map(|reason| json!({ "reason": reason.as_str(), "detail": reason.detail() }))
        .collect();
    let refused = readiness.has_refused_rules();
    let body = json!({ "ready": reasons.is_empty(), "reasons": listed, "rules_refused": refused });
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (status, headers, format!("{body}\n")).into_response()
}
