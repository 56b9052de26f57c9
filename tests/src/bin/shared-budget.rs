//! One of several servers that share a budget in Redis, for tests: `shared-budget URL BURST` prints its address.
//!
//! `GET /local`, `GET /open` and `GET /closed` have a budget of BURST each, which refills at one unit per 30 days. They differ
//! in their failure mode: local (the default: this process enforces the whole budget by itself), open and closed. `GET /leased` is
//! closed as well, and this process leases a tenth of the budget, if it is not too small for that. `GET /reserved` is closed
//! too: it reserves 10 units, streams one and does not end.

use std::convert::Infallible;
use std::env;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::routing::get;
use hyper::body::{Body, Frame};
use portcullis::charge::Usage;
use portcullis::key::Global;
use portcullis::{Charge, FailureMode, Limiter, Policy, Quota};
use tokio::net::TcpListener;

const MONTH: Duration = Duration::from_secs(30 * 24 * 3_600);

fn app(limiter: &Limiter, burst: u64) -> anyhow::Result<Router> {
    let quota = Quota::new(1, MONTH)?.try_burst(burst)?;
    let local = Policy::try_gcra("local", quota)?;
    let open = Policy::try_gcra("open", quota)?.on_store_failure(FailureMode::Open);
    let closed = Policy::try_gcra("closed", quota)?.on_store_failure(FailureMode::Closed);
    let reserved = Policy::try_gcra("reserved", quota)?.on_store_failure(FailureMode::Closed);
    let leased = Policy::try_gcra("leased", quota)?.on_store_failure(FailureMode::Closed);
    let leased = leased.clone().try_lease(burst / 10).unwrap_or(leased);
    Ok(Router::new()
        .route("/local", get(show).layer(limiter.layer(local).by(Global)))
        .route("/open", get(show).layer(limiter.layer(open).by(Global)))
        .route("/closed", get(show).layer(limiter.layer(closed).by(Global)))
        .route("/reserved", get(stream).layer(limiter.layer(reserved).by(Global).reserve(|_| 10)))
        .route("/leased", get(show).layer(limiter.layer(leased).by(Global))))
}

async fn show(charge: Charge) -> &'static str {
    if charge.decision().is_degraded() { "degraded" } else { "counted" }
}

/// Counts a unit with its first frame, and has no second one.
struct Endless(Option<Usage>);

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(usage) = self.0.take() else { return Poll::Pending };
        usage.add(1);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"token")))))
    }
}

async fn stream(usage: Usage) -> axum::body::Body {
    axum::body::Body::new(Endless(Some(usage)))
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
