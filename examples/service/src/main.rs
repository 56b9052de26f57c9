//! The shop, on port 3000, and what its operators reach, on port 3001.
//!
//! ```text
//! PORTCULLIS_ADMIN_TOKEN=a-long-random-token cargo run -p service
//! ```
//!
//! `REDIS_URL` shares the limits of several instances, and `RATE_LIMIT=off` runs without any. `RULES` is another file than
//! `examples/service/limits.toml`, which may change while the service runs.

use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use portcullis::Limiter;
use portcullis::rules::{Watch, WatchOptions};
use service::limits::Limits;
use service::{operators, public};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let token = env::var("PORTCULLIS_ADMIN_TOKEN").context("PORTCULLIS_ADMIN_TOKEN")?;
    let exporter = operators::install_exporter()?;
    let limiter = limiter().await?.metrics();
    let rules = env::var("RULES").unwrap_or_else(|_| "examples/service/limits.toml".to_owned());
    let limits = Limits::new(limiter, Path::new(&rules))?;
    let _watch = Watch::start(limits.limiter().rules()?, WatchOptions::default())?;

    let operators = operators::router(limits.limiter(), exporter, token);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port("ADMIN_PORT", 3001)?)).await?;
    tokio::spawn(async move { axum::serve(listener, operators).await });

    let service = public::router(&limits)?.into_make_service_with_connect_info::<SocketAddr>();
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port("PORT", 3000)?)).await?;
    let stop = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    axum::serve(listener, service).with_graceful_shutdown(stop).await?;
    let drained = limits.limiter().drain(Duration::from_secs(5)).await;
    tracing::info!(left = drained.left, "stopped");
    Ok(())
}

async fn limiter() -> anyhow::Result<Limiter> {
    if env::var("RATE_LIMIT").is_ok_and(|setting| setting == "off") {
        return Ok(Limiter::off());
    }
    let Ok(url) = env::var("REDIS_URL") else { return Ok(Limiter::memory()) };
    Limiter::redis(url).await.context("REDIS_URL")
}

fn port(name: &str, default: u16) -> anyhow::Result<u16> {
    env::var(name).map_or(Ok(default), |port| port.parse()).with_context(|| format!("{name} is no port"))
}
