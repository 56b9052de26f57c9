//! A gateway in front of a language model: budgets of requests and tokens for each API key, and a page that shows them.
//!
//! ```text
//! cargo run -p llm-gateway
//! ```
//!
//! It prints what to try with curl. `portcullis proxy` with the limits in `limits.toml` is the same in front of a model of your own.
//! `PORT` chooses another port than 8080; the page has the next one.

mod model;

use std::env;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use axum::Router;
use axum::http::request::Parts;
use portcullis::Limiter;
use portcullis::admin::Actor;
use portcullis::rules::{Format, Loader, Rules};
use portcullis_proxy::{ReverseProxy, Upstream};
use tokio::net::TcpListener;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().finish().with("info".parse::<Targets>()?).init();
    let port: u16 =
        env::var("PORT").map_or(Ok(8080), |port| port.parse()).context("PORT must be a port number")?;

    let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, include_str!("../limits.toml")))?;
    let limiter = Limiter::memory().with_rules(rules)?;

    let model = serve(model::app(), 0).await?;
    let proxy = ReverseProxy::new(&limiter, Upstream::new(&format!("http://{model}"))?)?;
    let proxy =
        proxy.bind(on_loopback(port)).await.with_context(|| format!("cannot listen on port {port}"))?;

    // Whoever uses this machine may look. Elsewhere the page asks for a token.
    let operators = limiter.admin(|_: &Parts| Ok(Actor::new("operator")));
    let page = serve(operators.into_router(), if port == 0 { 0 } else { port.saturating_add(1) }).await?;

    let address = proxy.local_addr();
    println!("listening on http://{address}, try some times");
    println!(
        "  curl -iN http://{address}/v1/chat/completions -H 'authorization: Bearer ada' -d 'Why a portcullis?'"
    );
    println!("and with the key grace, which has a budget of its own. Open");
    println!("  http://{page}    the live page");
    proxy.serve(std::future::pending()).await;
    Ok(())
}

/// Serves a router in the background. Port 0 is any free port.
async fn serve(app: Router, port: u16) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(on_loopback(port)).await;
    let listener = listener.with_context(|| format!("cannot listen on port {port}"))?;
    let address = listener.local_addr()?;
    tokio::spawn(axum::serve(listener, app).into_future());
    Ok(address)
}

fn on_loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
