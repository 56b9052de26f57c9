//! One of several servers that share a budget in Redis, for tests: `shared-budget URL BURST` prints its address.
//!
//! `GET /local`, `GET /open` and `GET /closed` have a budget of BURST each, which refills at one unit per 30 days. They differ
//! in their failure mode: local (the default: this process enforces the whole budget by itself), open and closed. `GET /leased` is
//! closed as well, and this process leases a tenth of the budget, if it is not too small for that.

use std::env;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::routing::get;
use portcullis::key::Global;
use portcullis::{Charge, FailureMode, Limiter, Policy, Quota};
use tokio::net::TcpListener;

const MONTH: Duration = Duration::from_secs(30 * 24 * 3_600);

fn app(limiter: &Limiter, burst: u64) -> anyhow::Result<Router> {
    let quota = Quota::new(1, MONTH)?.try_burst(burst)?;
    let local = Policy::try_gcra("local", quota)?;
    let open = Policy::try_gcra("open", quota)?.on_store_failure(FailureMode::Open);
    let closed = Policy::try_gcra("closed", quota)?.on_store_failure(FailureMode::Closed);
    let leased = Policy::try_gcra("leased", quota)?.on_store_failure(FailureMode::Closed);
    let leased = leased.clone().try_lease(burst / 10).unwrap_or(leased);
    Ok(Router::new()
        .route("/local", get(show).layer(limiter.layer(local).by(Global)))
        .route("/open", get(show).layer(limiter.layer(open).by(Global)))
        .route("/closed", get(show).layer(limiter.layer(closed).by(Global)))
        .route("/leased", get(show).layer(limiter.layer(leased).by(Global))))
}

async fn show(charge: Charge) -> &'static str {
    if charge.decision().is_degraded() { "degraded" } else { "counted" }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = env::args().skip(1);
    let url = arguments.next().context("the URL of a Redis is missing")?;
    let burst = arguments.next().context("the burst is missing")?.parse()?;
    // A long deadline, because all tests run at once on the same machine.
    let limiter = Limiter::redis(url).deadline(Duration::from_secs(5)).await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app(&limiter, burst)?).await?;
    Ok(())
}
