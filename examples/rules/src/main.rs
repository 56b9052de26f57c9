//! An Axum server whose limits are in a file, which it reads again when the file changes.
//!
//! ```text
//! cargo run -p rules                                 # with the limits in examples/rules/limits.toml
//! RULES=my.toml cargo run -p rules                   # with those of another file
//! ```

use std::env::{self, VarError};
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use axum::Router;
use axum::routing::get;
use portcullis::rules::{Rules, Watch, WatchOptions};
use portcullis::{Charge, Limiter};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().finish().with("info,fred=error".parse::<Targets>()?).init();

    let file = env::var("RULES").unwrap_or_else(|_| LIMITS.to_owned());
    let rules = Rules::from_file(&file)?;
    let limiter = match env::var("REDIS_URL") {
        Ok(url) => Limiter::redis(url).with_rules(rules).await.context("REDIS_URL")?,
        Err(VarError::NotPresent) => Limiter::memory().with_rules(rules)?,
        Err(error) => return Err(error).context("REDIS_URL"),
    };
    let live = limiter.rules()?;
    // Reads the file again when it changes, and on SIGHUP, for as long as the handle exists.
    let _watch = Watch::start(live, WatchOptions::default())?;

    let app = Router::new()
        .route("/", get(show))
        .route("/search", get(show))
        .route("/health", get(async || "fine\n"))
        .layer(limiter.rules()?.layer());

    let port =
        env::var("PORT").map_or(Ok(3000), |port| port.parse()).context("PORT must be a port number")?;
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = listener.await.with_context(|| format!("cannot listen on port {port}"))?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}, try");
    println!("  curl -i http://{address}/");
    println!("and change a quota in {file}");
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

/// Shows the decision about this request, if a rule matches it.
async fn show(charge: Option<Charge>) -> String {
    let Some(charge) = charge else { return "not limited\n".to_owned() };
    let decision = charge.decision();
    format!("{} of {} left under {}\n", decision.remaining(), decision.limit(), decision.policy())
}

/// The file beside this program.
const LIMITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/limits.toml");
