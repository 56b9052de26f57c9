//! An Axum server that queues the requests beyond the limit and answers them with 202 instead of rejecting them.
//!
//! The policy is in shadow mode: it decides, and the handler acts on the decision.

use std::env::{self, VarError};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota, Shadow};
use tokio::sync::mpsc;

/// The interval between two jobs, for each address and for the queue.
const INTERVAL: Duration = Duration::from_secs(1);
/// The length of the queue. An unbounded queue would only move the overload into memory.
const QUEUE_LENGTH: usize = 4;

#[derive(Clone)]
struct Jobs {
    waiting: mpsc::Sender<String>,
    done: Arc<AtomicU64>,
}

fn app(limiter: &Limiter, jobs: Jobs) -> anyhow::Result<Router> {
    let policy = Policy::gcra("jobs", Quota::new(1, INTERVAL, Some(3))?);
    let limit = limiter.layer(policy.by(ClientIp::peer()).shadow());
    Ok(Router::new()
        .route("/jobs", post(submit).layer(limit))
        .route("/done", get(async |State(jobs): State<Jobs>| jobs.done.load(Ordering::Relaxed).to_string()))
        .with_state(jobs))
}

async fn submit(State(jobs): State<Jobs>, shadow: Shadow, job: String) -> Response {
    if shadow.denial().is_none() {
        work(&jobs.done, &job);
        return (StatusCode::OK, "done\n").into_response();
    }
    let position = QUEUE_LENGTH - jobs.waiting.capacity() + 1;
    if jobs.waiting.try_send(job).is_ok() {
        return (StatusCode::ACCEPTED, format!("queued at position {position}\n")).into_response();
    }
    let wait = [(header::RETRY_AFTER, INTERVAL.as_secs().to_string())];
    (StatusCode::SERVICE_UNAVAILABLE, wait, "the queue is full\n").into_response()
}

fn work(done: &AtomicU64, _job: &str) {
    done.fetch_add(1, Ordering::Relaxed);
}

/// Starts a task that takes one job per interval from the queue.
fn jobs() -> Jobs {
    let (waiting, mut queue) = mpsc::channel::<String>(QUEUE_LENGTH);
    let jobs = Jobs { waiting, done: Arc::default() };
    let done = Arc::clone(&jobs.done);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let Some(job) = queue.recv().await else { break };
            work(&done, &job);
        }
    });
    jobs
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let port = match env::var("PORT") {
        Err(VarError::NotPresent) => 3000,
        port => port?.parse().context("PORT must be a port number")?,
    };
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = listener.await.with_context(|| format!("cannot listen on port {port}"))?;
    let address = listener.local_addr()?;

    println!("listening on http://{address}, try");
    println!(
        "  for i in $(seq 9); do curl -d job http://{address}/jobs; done    3 are done at once, 4 queued"
    );
    println!(
        "  curl http://{address}/done                                       all seven, a few seconds later"
    );

    let app = app(&Limiter::memory(), jobs())?.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, app).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::extract::connect_info::MockConnectInfo;
    use axum::http::Request;
    use tower::ServiceExt as _;

    use super::*;

    async fn send(app: &Router, method: &str, path: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).body(Body::from("job")).expect("a request");
        let answer = app.clone().oneshot(request).await.expect("an answer");
        let status = answer.status().as_u16();
        let text = to_bytes(answer.into_body(), 1_000).await.expect("a body");
        (status, String::from_utf8_lossy(&text).trim().to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_beyond_the_limit_are_queued_and_done_later() {
        let peer = SocketAddr::from(([192, 0, 2, 1], 1));
        let app = app(&Limiter::memory(), jobs()).expect("a policy").layer(MockConnectInfo(peer));
        for _ in 0..3 {
            assert_eq!(send(&app, "POST", "/jobs").await, (200, "done".to_owned()));
        }
        for position in 1..=QUEUE_LENGTH {
            assert_eq!(send(&app, "POST", "/jobs").await, (202, format!("queued at position {position}")));
        }
        assert_eq!(send(&app, "POST", "/jobs").await, (503, "the queue is full".to_owned()));
        assert_eq!(send(&app, "GET", "/done").await.1, "3");
        tokio::time::sleep(INTERVAL * 5).await;
        assert_eq!(send(&app, "GET", "/done").await.1, "7");
    }
}
