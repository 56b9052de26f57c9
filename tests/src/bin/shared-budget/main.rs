//! One of several servers that share a budget in Redis, for tests: `shared-budget URL BURST` prints its address.
//!
//! `GET /local`, `GET /open` and `GET /closed` have a budget of BURST each, which refills at one unit per 30 days. They differ
//! in their failure mode: local (the default: this process enforces the whole budget by itself), open and closed. `GET /leased` is
//! closed as well, and this process leases a tenth of the budget, if it is not too small for that. `GET /reserved` is closed
//! too: it reserves 10 units, streams one and ends when the server is stopped. At most 100 requests for `GET /in-flight`, which end then
//! as well, run at a time, with a lease of four seconds.
//!
//! The routes of the modules `reported` and `operated` report what they have charged. The route of `calling` calls another server.
//!
//! `POST /stop` ends the streams and the server. Then it settles what is left and prints the settlements that are not made:
//! `drained LEFT LOST`.

mod calling;
mod operated;
mod reported;
mod stream;

use std::env;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::routing::{get, post};
use portcullis::charge::Usage;
use portcullis::key::Global;
use portcullis::layer::Concurrency;
use portcullis::store::Gcra;
use portcullis::{Charge, FailureMode, Limiter, Policy, PolicyExt as _, PolicySettings, Quota};
use tokio::net::TcpListener;

use crate::stream::{Stop, Stream};

const MONTH: Duration = Duration::from_secs(30 * 24 * 3_600);

fn app(limiter: &Limiter, burst: u64, stop: &Stop) -> anyhow::Result<Router> {
    let quota = Quota::new(1, MONTH, Some(burst))?;
    let policy = |name, failure_mode| {
        let settings = PolicySettings { failure_mode, ..PolicySettings::default() };
        Policy::try_new(name, Gcra::new(quota), settings)
    };
    let local = policy("local", FailureMode::default())?;
    let open = policy("open", FailureMode::Open)?;
    let closed = policy("closed", FailureMode::Closed)?;
    let reserved = policy("reserved", FailureMode::Closed)?;
    let leased = policy("leased", FailureMode::Closed)?;
    // A small burst cannot be leased.
    let leased = if burst < Policy::MIN_LEASED_BURST { leased } else { leased.lease(burst / 10) };
    let in_flight = Concurrency::new("in-flight", 100).lease(Duration::from_secs(4));
    let in_flight = in_flight.on_store_failure(FailureMode::Closed).policy();
    let (streams, stopped) = (stop.clone(), stop.clone());
    let server = stop.clone();
    let hold = async move || Stream::empty_until(server.stopped());
    let stream = async move |usage: Usage| Stream::until(streams.stopped(), usage, 1);
    let stop_server = async move || stopped.stop();
    Ok(Router::new()
        .route("/local", get(show).layer(limiter.layer(local.by(Global)).with_charge()))
        .route("/open", get(show).layer(limiter.layer(open.by(Global)).with_charge()))
        .route("/closed", get(show).layer(limiter.layer(closed.by(Global)).with_charge()))
        .route("/reserved", get(stream).layer(limiter.layer(reserved.by(Global).reserve(10))))
        .route("/in-flight", get(hold).layer(limiter.layer(in_flight.by(Global))))
        .route("/leased", get(show).layer(limiter.layer(leased.by(Global)).with_charge()))
        .route("/stop", post(stop_server))
        .merge(reported::routes(limiter, burst, stop)?)
        .merge(calling::routes(limiter, quota)?)
        .merge(operated::routes(limiter, burst, stop)?))
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
    let stop = Stop::default();
    let app = app(&limiter, burst, &stop)?;
    axum::serve(listener, app).with_graceful_shutdown(stop.stopped()).await?;
    let drained = limiter.drain(Duration::from_secs(60)).await;
    println!("drained {} {}", drained.left, drained.lost);
    Ok(())
}
