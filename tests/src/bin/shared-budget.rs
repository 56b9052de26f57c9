//! One of several servers that share a budget in Redis, for tests: `shared-budget URL BURST` prints its address.
//!
//! `GET /local`, `GET /open` and `GET /closed` have a budget of BURST each, which comes back at one unit in 30 days. They differ
//! in the mode in which the store fails: the default, where this process enforces the whole budget by itself; open; closed.

use std::env;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context as _;
use axum::routing::get;
use axum::{Extension, Router};
use portcullis::{Decision, Global, Limiter, Policy, Quota, StoreFailure};
use tokio::net::TcpListener;

const MONTH: Duration = Duration::from_hours(30 * 24);

fn app(gate: &Limiter, burst: u32) -> anyhow::Result<Router> {
    let quota = Quota::new(1, MONTH)?.try_burst(burst)?;
    let local = Policy::try_gcra("local", quota)?;
    let open = Policy::try_gcra("open", quota)?.when_store_fails(StoreFailure::Open);
    let closed = Policy::try_gcra("closed", quota)?.when_store_fails(StoreFailure::Closed);
    Ok(Router::new()
        .route("/local", get(show).layer(gate.layer(local).by(Global)))
        .route("/open", get(show).layer(gate.layer(open).by(Global)))
        .route("/closed", get(show).layer(gate.layer(closed).by(Global))))
}

async fn show(Extension(decision): Extension<Decision>) -> &'static str {
    if decision.is_degraded() { "degraded" } else { "counted" }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = env::args().skip(1);
    let url = arguments.next().context("the URL of a Redis is missing")?;
    let burst = arguments.next().context("the burst is missing")?.parse()?;
    // Patient: the tests run on machines that are busy with all of them.
    let gate = Limiter::redis(url).deadline(Duration::from_secs(5)).await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app(&gate, burst)?).await?;
    Ok(())
}
