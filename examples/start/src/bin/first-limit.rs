//! A service for notes with one limit: three searches at once, then one every ten seconds.

use std::env;
use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
use tokio::net::TcpListener;

const SEARCH: Policy = Policy::token_bucket("search", Quota::per_minute(6).burst(3));

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt::init();
    let limiter = Limiter::memory();
    let searches = limiter.layer(SEARCH.by(ClientIp::peer()));

    let app: Router = Router::new().route("/search", get(search).layer(searches));

    let port = env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

/// In place of a search in a database.
async fn search() -> &'static str {
    "oil the chain of the gate\n"
}
