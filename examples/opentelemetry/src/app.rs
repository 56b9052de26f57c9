//! The limited server. The tests of the workspace include this file, and read its spans in memory.

use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use axum::routing::get;
use portcullis::event::SpanFields;
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
use tower_http::trace::TraceLayer;
use tracing::field::Empty;
use tracing::{Span, info_span};

pub(crate) const SEARCH: Policy = Policy::token_bucket("search", Quota::per_hour(3));
/// Tried out: it never rejects.
pub(crate) const TRIAL: Policy = Policy::token_bucket("trial", Quota::per_hour(1));

pub(crate) fn app(limiter: Limiter) -> Router {
    let limiter = limiter.observe(SpanFields::new());
    let search = limiter.layer(SEARCH.by(ClientIp::peer()));
    let trial = limiter.layer(TRIAL.by(ClientIp::peer()).shadow());
    Router::new()
        .route("/search", get(async || "found\n").layer(search))
        .route("/trial", get(async || "tried\n").layer(trial))
        // Outside of the limits, so that their decisions are made in its span.
        .layer(TraceLayer::new_for_http().make_span_with(request_span).on_response(record_status))
}

/// Declares the fields that `SpanFields` fills. The span gets no others.
fn request_span(request: &Request) -> Span {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    info_span!(
        "request",
        otel.name = format!("{} {route}", request.method()),
        otel.kind = "server",
        http.request.method = %request.method(),
        http.route = route,
        http.response.status_code = Empty,
        rate_limit.outcome = Empty,
        rate_limit.policy = Empty,
        rate_limit.remaining = Empty,
        rate_limit.reason = Empty,
        rate_limit.would_reject = Empty,
    )
}

fn record_status(response: &Response, _: Duration, span: &Span) {
    span.record("http.response.status_code", i64::from(response.status().as_u16()));
}
