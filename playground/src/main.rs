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
use tokio::net::TcpListener;

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
    axum::serve(listener, playground::app()).await?;
    Ok(())
}
