//! An Axum server with limits, and their metrics for Prometheus.
//!
//! ```text
//! cargo run -p metrics-example                                    # with state in memory
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p metrics-example   # in Redis
//! curl http://127.0.0.1:3000/search
//! curl http://127.0.0.1:3000/metrics
//! ```
//!
//! `docs/prometheus/prometheus.yml` scrapes it.

use std::env::{self, VarError};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::routing::get;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use portcullis::layer::Concurrency;
use portcullis::metrics::{CALL_BUCKETS, DECISIONS_BUCKETS, WAIT_BUCKETS};
use portcullis::{ClientIp, Limit, Limiter, Policy, PolicyExt as _, Quota};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

const SEARCH: Policy = Policy::token_bucket("search", Quota::per_minute(10).burst(20));
const LOGIN: Policy = Policy::sliding_window("login", Quota::per_hour(5));
/// Tried out: it never rejects.
const STRICT: Policy = Policy::sliding_window("search strict", Quota::per_hour(10));
const EXPORTS: Policy = Policy::leaky_bucket("exports", Quota::per_second(2).burst(5));

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().finish().with("info,fred=error".parse::<Targets>()?).init();

    // Before the limiter: it takes the recorder that is installed.
    let exporter = install_exporter()?;
    let limiter = match env::var("REDIS_URL") {
        Ok(url) => Limiter::redis(url).await.context("REDIS_URL")?,
        Err(VarError::NotPresent) => Limiter::memory(),
        Err(error) => return Err(error).context("REDIS_URL"),
    }
    .metrics();

    let clients = ClientIp::peer();
    let search = limiter.layer(SEARCH.by(clients.clone())).and(Limit::new(STRICT).shadow());
    let login = limiter.layer(LOGIN.by(clients.clone()));
    let exports = limiter.layer(EXPORTS.by(clients)).and(Concurrency::new("exports in flight", 4));
    let app = Router::new()
        .route("/search", get(async || "found\n").layer(search))
        .route("/login", get(async || "welcome\n").layer(login))
        .route("/exports", get(async || "exported\n").layer(exports))
        .route("/metrics", get(move || async move { metrics(&limiter, &exporter) }));

    let port =
        env::var("PORT").map_or(Ok(3000), |port| port.parse()).context("PORT must be a port number")?;
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = listener.await.with_context(|| format!("cannot listen on port {port}"))?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}, try");
    println!("  curl http://{address}/search");
    println!("  curl http://{address}/metrics");
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

fn install_exporter() -> anyhow::Result<PrometheusHandle> {
    let buckets = |name: &str| Matcher::Full(name.to_owned());
    let exporter = PrometheusBuilder::new()
        .set_buckets_for_metric(buckets("portcullis_store_call_duration_seconds"), &CALL_BUCKETS)?
        .set_buckets_for_metric(buckets("portcullis_store_call_decisions"), &DECISIONS_BUCKETS)?
        .set_buckets_for_metric(buckets("portcullis_wait_seconds"), &WAIT_BUCKETS)?
        .install_recorder()?;
    // Otherwise histograms would grow while no server scrapes them.
    let upkeep = exporter.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            upkeep.run_upkeep();
        }
    });
    Ok(exporter)
}

/// The answer to a scrape. It belongs on an address that clients do not reach.
fn metrics(limiter: &Limiter, exporter: &PrometheusHandle) -> String {
    limiter.refresh_metrics();
    exporter.render()
}
