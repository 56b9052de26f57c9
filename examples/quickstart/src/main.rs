//! An Axum server with two limited routes: in memory, or in Redis if `REDIS_URL` is set.

use std::env::{self, VarError};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::routing::get;
use portcullis::key::{Header, KeyExtractor as _};
use portcullis::{Charge, ClientIp, Limiter, Policy, PolicyExt as _, Quota};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

fn app(limiter: &Limiter) -> anyhow::Result<Router> {
    let home = Policy::gcra("home", Quota::new(5, Duration::from_secs(10), Some(5))?);
    let search = Policy::gcra("search", Quota::per_second(10).burst(20));

    Ok(Router::new()
        .route("/", get(show).layer(limiter.layer(home.by(ClientIp::peer())).with_charge()))
        .route(
            "/search",
            get(show).layer(
                limiter.layer(search.by(Header::named("x-api-key").or(ClientIp::peer()))).with_charge(),
            ),
        ))
}

/// Shows what the layer has decided about this request.
async fn show(charge: Option<Charge>) -> String {
    // There is no charge if all policies are in shadow mode.
    let Some(charge) = charge else { return "not limited\n".to_owned() };
    let decision = charge.decision();
    let degraded = if decision.is_degraded() {
        " (degraded: the store does not answer, and this process counts on its own)"
    } else {
        ""
    };
    format!("{} of {} left under {}{degraded}\n", decision.remaining(), decision.limit(), decision.policy())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().finish().with("info,fred=error".parse::<Targets>()?).init();

    let limiter = match env::var("REDIS_URL") {
        Ok(url) => Limiter::redis(url).await.context("REDIS_URL")?,
        Err(VarError::NotPresent) => Limiter::memory(),
        Err(error) => return Err(error).context("REDIS_URL"),
    };
    let port =
        env::var("PORT").map_or(Ok(3000), |port| port.parse()).context("PORT must be a port number")?;
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = listener.await.with_context(|| format!("cannot listen on port {port}"))?;
    let address = listener.local_addr()?;

    println!("listening on http://{address}, try");
    println!("  for i in $(seq 6); do curl -i http://{address}/; done          5 pass, the sixth gets 429");
    println!(
        "  curl -si -H 'x-api-key: ada' 'http://{address}/search?[1-25]'   20 at once, then 10 per second"
    );

    let app = app(&limiter)?.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, app).await?;
    Ok(())
}
