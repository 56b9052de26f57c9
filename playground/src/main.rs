//! Serves the playground on loopback.
//!
//! ```text
//! cargo run -p playground
//! ```
//!
//! `PORT` chooses another port than 8090; 0 is any free one. The page needs nothing else: it may be served by any server of files.

use std::env::{self, VarError};
use std::net::Ipv4Addr;

use anyhow::Context as _;
use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::routing::get;
use tokio::net::TcpListener;

/// The files of the page, by their paths.
const FILES: [(&str, &str, &[u8]); 3] = [
    ("/", "text/html; charset=utf-8", include_bytes!("../page/index.html")),
    ("/playground.js", "text/javascript; charset=utf-8", include_bytes!("../page/playground.js")),
    ("/playground.wasm.gz", "application/gzip", include_bytes!("../page/playground.wasm.gz")),
];

/// The page loads nothing from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn app() -> Router {
    FILES.into_iter().fold(Router::new(), |app, (path, kind, bytes)| {
        let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache"), (CONTENT_SECURITY_POLICY, POLICY)];
        app.route(path, get(async move || (headers, bytes)))
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let port = match env::var("PORT") {
        Ok(port) => {
            port.parse().with_context(|| format!("PORT is {port:?}: it must be a number from 0 to 65535"))?
        }
        Err(VarError::NotPresent) => 8_090_u16,
        Err(error) => return Err(error).context("PORT"),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    let listener =
        listener.with_context(|| format!("cannot listen on port {port}: set PORT to another one"))?;
    println!("the playground is at http://{}/", listener.local_addr()?);
    axum::serve(listener, app()).await?;
    Ok(())
}
