//! An Axum server with limits, their metrics, the admin API and its live page.
//!
//! ```text
//! export PORTCULLIS_ADMIN_TOKEN=a-long-random-token
//! cargo run -p admin-example -- --traffic      # with clients that it makes up
//! ```
//!
//! Open <http://127.0.0.1:3000/limits> and enter the token. `portcullis admin http://127.0.0.1:3000/limits top` shows the busiest clients
//! in another terminal. `REDIS_URL` keeps the limits in Redis, and `PORT` chooses another port.

mod traffic;

use std::env::{self, VarError};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::http::request::Parts;
use axum::routing::get;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use portcullis::admin::{Actor, Refused, has_bearer_token};
use portcullis::metrics::{CALL_BUCKETS, DECISIONS_BUCKETS, WAIT_BUCKETS};
use portcullis::{ClientIp, Limit, Limiter, Policy, PolicyExt as _, Quota};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

// Grantable, so that operators can block clients and give them other quotas.
const SEARCH: Policy = Policy::token_bucket("search", Quota::per_second(5).burst(10)).allow_overrides();
const LOGIN: Policy = Policy::sliding_window("login", Quota::per_minute(5)).allow_overrides();
/// Tried out: it never rejects.
const STRICT: Policy = Policy::sliding_window("search strict", Quota::per_minute(20));

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().finish().with("info,fred=error".parse::<Targets>()?).init();
    let makes_traffic = match env::args().nth(1).as_deref() {
        None => false,
        Some("--traffic") => true,
        Some(other) => anyhow::bail!("unknown argument {other:?}: the only one is --traffic"),
    };
    let token =
        env::var("PORTCULLIS_ADMIN_TOKEN").context("set PORTCULLIS_ADMIN_TOKEN to a token of your choice")?;
    anyhow::ensure!(!token.is_empty(), "PORTCULLIS_ADMIN_TOKEN is empty");

    // Before the limiter: it takes the recorder that is installed.
    let exporter = install_exporter()?;
    let limiter = match env::var("REDIS_URL") {
        Ok(url) => Limiter::redis(url).await.context("REDIS_URL")?,
        Err(VarError::NotPresent) => Limiter::memory(),
        Err(error) => return Err(error).context("REDIS_URL"),
    }
    .metrics();
    let app = app(&limiter, token).route(
        "/metrics",
        get(move || async move {
            limiter.refresh_metrics();
            exporter.render()
        }),
    );

    let port =
        env::var("PORT").map_or(Ok(3000), |port| port.parse()).context("PORT must be a port number")?;
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = listener.await.with_context(|| format!("cannot listen on port {port}"))?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}, open");
    println!("  http://{address}/limits     the live page, which asks for the token");
    println!("  http://{address}/metrics    for Prometheus");
    if makes_traffic {
        tokio::spawn(traffic::send_to(app.clone()));
    }
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

/// In production, metrics and the API belong on an address that clients do not reach.
fn app(limiter: &Limiter, token: String) -> Router {
    let clients = ClientIp::peer();
    let search = limiter.layer(SEARCH.by(clients.clone())).and(Limit::new(STRICT).shadow());
    let login = limiter.layer(LOGIN.by(clients));
    let admin = limiter.admin(move |parts: &Parts| {
        if has_bearer_token(parts, &token) {
            Ok(Actor::new("operator"))
        } else {
            Err(Refused::Unauthenticated)
        }
    });
    Router::new()
        .route("/search", get(async || "found\n").layer(search.route("GET /search")))
        .route("/login", get(async || "welcome\n").layer(login.route("GET /login")))
        .nest("/limits", admin.into_router())
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
