//! What operators reach, on an address of its own.

use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::{get, post};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use portcullis::admin::{Actor, Refused, has_bearer_token};
use portcullis::metrics::{CALL_BUCKETS, DECISIONS_BUCKETS, WAIT_BUCKETS};
use portcullis::{Limiter, Quota};

/// Installs the recorder of metrics. It comes before the limiter, which takes the one that is installed.
///
/// # Errors
///
/// If a recorder is installed already.
pub fn install_exporter() -> anyhow::Result<PrometheusHandle> {
    let buckets = |name: &str| Matcher::Full(name.to_owned());
    Ok(PrometheusBuilder::new()
        .set_buckets_for_metric(buckets("portcullis_store_call_duration_seconds"), &CALL_BUCKETS)?
        .set_buckets_for_metric(buckets("portcullis_store_call_decisions"), &DECISIONS_BUCKETS)?
        .set_buckets_for_metric(buckets("portcullis_wait_seconds"), &WAIT_BUCKETS)?
        .install_recorder()?)
}

/// Metrics, the admin API with its page, and a route that sets a quota.
pub fn router(limiter: &Limiter, exporter: PrometheusHandle, token: String) -> Router {
    let admin = limiter.admin(move |parts: &Parts| {
        if has_bearer_token(parts, &token) {
            Ok(Actor::new("operator"))
        } else {
            Err(Refused::Unauthenticated)
        }
    });
    let scrape = async move |State(limiter): State<Limiter>| {
        limiter.refresh_metrics();
        exporter.render()
    };
    Router::new()
        .route("/metrics", get(scrape))
        .route("/products/quota/{per_second}", post(set_products_quota))
        .nest_service("/limits", admin.into_router())
        .with_state(limiter.clone())
}

async fn set_products_quota(
    limiter: State<Limiter>,
    Path(limit): Path<u64>,
) -> Result<(), (StatusCode, String)> {
    let bad = |error: String| (StatusCode::BAD_REQUEST, error);
    let quota = Quota::new(limit, Duration::from_secs(1), None).map_err(|error| bad(error.to_string()))?;
    limiter.set_quota("products", quota).map_err(|error| bad(error.to_string()))?;
    Ok(())
}
