//! Three workers call a server that allows ten requests per second. They share a limiter, so that together they send no more, and when the
//! server refuses one of them, all of them wait for as long as it has stated.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use portcullis::key::Global;
use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
use reqwest::{Client, Method, Request};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::{Layer as _, ServiceExt as _};

/// What was agreed: ten requests per second. One too many waits for up to 10 s.
const PARTNER: Policy = Policy::gcra("partner", Quota::per_second(10)).wait_at_most(Duration::from_secs(10));
const WORKERS: usize = 3;
const CALLS: usize = 8;

/// The server of the partner. Its limit is a little higher, because the network brings together what was sent apart.
async fn partner() -> anyhow::Result<String> {
    let limit =
        Limiter::memory().layer(Policy::token_bucket("calls", Quota::per_second(10).burst(5)).by(Global));
    let was_busy = AtomicBool::new(false);
    let was_busy = Arc::new(was_busy);
    let maintenance = async move || {
        if was_busy.swap(true, Ordering::Relaxed) {
            return (StatusCode::OK, [("retry-after", "0")]);
        }
        (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "2")])
    };
    let app =
        Router::new().route("/orders", get(async || "[]").layer(limit)).route("/busy", get(maintenance));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(axum::serve(listener, app).into_future());
    Ok(url)
}

/// Calls the partner from all workers. Returns the status codes.
async fn call(limiter: &Limiter, url: &str, calls: usize) -> anyhow::Result<Vec<StatusCode>> {
    let start = Instant::now();
    let mut workers = JoinSet::new();
    for worker in 1..=WORKERS {
        let client = limiter.outgoing(PARTNER).layer(Client::new());
        let url: reqwest::Url = url.parse()?;
        workers.spawn(async move {
            let mut statuses = Vec::new();
            for _ in 0..calls {
                let response = client.clone().oneshot(Request::new(Method::GET, url.clone())).await?;
                println!("{:>5} ms  worker {worker}: {}", start.elapsed().as_millis(), response.status());
                statuses.push(response.status());
            }
            anyhow::Ok(statuses)
        });
    }
    let mut all = Vec::new();
    while let Some(statuses) = workers.join_next().await {
        all.extend(statuses??);
    }
    Ok(all)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (url, limiter) = (partner().await?, Limiter::memory());
    println!("ten requests per second by {WORKERS} workers together");
    call(&limiter, &format!("{url}/orders"), CALLS).await?;
    println!("the partner refuses the first of these for 2 s, and the others are not sent before");
    call(&limiter, &format!("{url}/busy"), 2).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_partner_refuses_nothing_that_is_paced() {
        let (url, limiter) = (partner().await.unwrap(), Limiter::memory());
        let statuses = call(&limiter, &format!("{url}/orders"), CALLS).await.unwrap();
        assert_eq!(statuses, [StatusCode::OK; WORKERS * CALLS]);
    }
}
