//! Services whose limits are in a file, which operators change while clients call.

mod denied_bodies;
mod functions;
mod generation;
mod routers;
mod versions;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::http::Request;
use axum::routing::get;
use axum::{Extension, Router};
use portcullis::check::Limited;
use portcullis::rules::{ReloadError, Rules};
use portcullis::{Charge, Limiter};
use portcullis_servers::RedisServer;
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::Code;
use tonic::transport::Server;
use tonic_health::pb::HealthCheckRequest;
use tower::Layer as _;

use crate::grpc::{connect, listen};

/// The file of one test.
struct Limits(PathBuf);

impl Limits {
    fn new(name: &str, text: &str) -> Self {
        let limits = Self(std::env::temp_dir().join(format!("limits-{}-{name}.toml", std::process::id())));
        limits.write(text);
        limits
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn write(&self, text: &str) {
        fs::write(&self.0, text).unwrap();
    }

    fn rules(&self) -> Rules {
        Rules::from_file(self.path()).unwrap_or_else(|findings| panic!("{findings}"))
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// All weekly, so that no window ends during a test.
fn limits(search: u64) -> String {
    format!(
        r#"
        [layer]
        show_generation = "x-rules"
        with_charge = true

        [policy.search]
        strategy = "fixed_window"
        quota = "{search}/w"
        key = "global"
        match = {{ path = "/search" }}

        [policy.mails]
        strategy = "fixed_window"
        quota = "3/w"
        key = "global"
        match = {{ path = "/only/in/the/handler" }}
        "#
    )
}

/// A handler that limits mails by their recipient.
async fn send_mail(limiter: Extension<Limiter>) -> Result<String, Limited> {
    let mails = limiter.rules().unwrap().policy("mails").expect("the file has the rule");
    let charge = limiter.check(&mails).by(|key| key.part("email", b"ada@example.com")).await?;
    Ok(charge.decision().remaining().to_string())
}

async fn serve(limiter: &Limiter) -> String {
    let app = Router::new()
        .route("/search", get(async |charge: Charge| charge.decision().remaining().to_string()))
        .route("/health", get(async || "ok"))
        .layer(limiter.rules().unwrap().layer())
        .route("/mail", get(send_mail))
        .layer(Extension(limiter.clone()));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, app).into_future());
    url
}

/// What a response shows: the status, the limit, what remains, and the generation of the rules.
async fn call(client: &HttpClient, url: &str) -> (u16, u64, u64, u64) {
    let response = client.send(Request::get(url).header("x-rules", "?"), ()).await;
    let number = |name: &str| -> u64 { response.headers()[name].to_str().unwrap().parse().unwrap() };
    let (limit, remaining) = (number("x-ratelimit-limit"), number("x-ratelimit-remaining"));
    if response.status() == 200 {
        assert_eq!(response.body(), &remaining.to_string(), "the handler has the same decision");
    }
    (response.status().as_u16(), limit, remaining, number("x-rules"))
}

async fn operators_change_limits(limits_file: &Limits, limiter: Limiter) {
    let live = limiter.rules().unwrap();
    let url = serve(&limiter).await;
    let (client, search) = (HttpClient::http_1(), format!("{url}/search"));
    for remaining in (6..10).rev() {
        assert_eq!(call(&client, &search).await, (200, 10, remaining, 1));
    }
    let health = client.send(Request::get(format!("{url}/health")), ()).await;
    assert!(!health.headers().contains_key("x-ratelimit-limit"));

    // The next request meets the new limit, and what was charged under the old one counts.
    limits_file.write(&limits(20));
    assert_eq!(live.reload().unwrap(), 2);
    assert_eq!(call(&client, &search).await, (200, 20, 15, 2));

    // A bad file changes nothing. The error has the place.
    limits_file.write(&limits(20).replace("20/w", "twenty"));
    let Err(ReloadError::Invalid(findings)) = live.reload() else { panic!("twenty is no quota") };
    let place = format!("{}:8:", limits_file.path().display());
    assert!(findings.to_string().contains(&place), "{findings}");
    assert_eq!(call(&client, &search).await, (200, 20, 14, 2));

    limits_file.write(&limits(5));
    assert_eq!(live.reload().unwrap(), 3);
    assert_eq!(call(&client, &search).await, (429, 5, 0, 3));

    let mail = format!("{url}/mail");
    for (status, body) in [(200, "2"), (200, "1"), (200, "0")] {
        let response = client.send(Request::get(&mail), ()).await;
        assert_eq!((response.status().as_u16(), &response.body()[..]), (status, body.as_bytes()));
    }
    assert_eq!(client.send(Request::get(&mail), ()).await.status(), 429);
}

/// Four clients call without a pause while the file changes.
async fn clients_call_while_limits_change(limits_file: &Limits, limiter: Limiter) {
    let url = format!("{}/search", serve(&limiter).await);
    let (is_over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (url, is_over, calls) = (url.clone(), Arc::clone(&is_over), Arc::clone(&calls));
            tokio::spawn(async move {
                let client = HttpClient::http_1();
                while !is_over.load(Ordering::Relaxed) {
                    let (status, limit, _, generation) = call(&client, &url).await;
                    assert_eq!((status, limit), (200, 100_000 + generation % 2));
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let live = limiter.rules().unwrap();
    for generation in 2..=101 {
        limits_file.write(&limits(100_000 + generation % 2));
        assert_eq!(live.reload().unwrap(), generation);
        let before = calls.load(Ordering::Relaxed);
        while calls.load(Ordering::Relaxed) < before + 2 && !clients.iter().any(JoinHandle::is_finished) {
            tokio::task::yield_now().await;
        }
    }
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    let used = calls.load(Ordering::Relaxed) + 1;
    assert_eq!(call(&HttpClient::http_1(), &url).await, (200, 100_001, 100_001 - used, 101));
}

async fn on_redis(redis: &RedisServer, rules: Rules) -> Limiter {
    Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).with_rules(rules).await.unwrap()
}

#[tokio::test]
async fn operators_change_limits_in_memory() {
    let file = Limits::new("memory", &limits(10));
    let limiter = Limiter::memory().with_rules(file.rules()).unwrap();
    operators_change_limits(&file, limiter).await;
}

#[tokio::test]
async fn operators_change_limits_on_redis() {
    let (redis, file) = (RedisServer::start().unwrap(), Limits::new("redis", &limits(10)));
    let limiter = on_redis(&redis, file.rules()).await;
    operators_change_limits(&file, limiter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_call_while_limits_change_in_memory() {
    let file = Limits::new("load-memory", &limits(100_001));
    let limiter = Limiter::memory().with_rules(file.rules()).unwrap();
    clients_call_while_limits_change(&file, limiter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_call_while_limits_change_on_redis() {
    let (redis, file) = (RedisServer::start().unwrap(), Limits::new("load-redis", &limits(100_001)));
    let limiter = on_redis(&redis, file.rules()).await;
    clients_call_while_limits_change(&file, limiter).await;
}

#[tokio::test]
async fn a_name_that_the_file_lacks_is_an_error_at_the_start() {
    let file = Limits::new("names", &limits(10));
    let limiter = Limiter::memory().with_rules(file.rules()).unwrap();
    let error = limiter.rules().unwrap().layer_of("serach").unwrap_err();
    assert_eq!(error.to_string(), "there is no rule serach: the rules are mails, search");
    assert!(Limiter::memory().rules().is_err());
}

fn grpc_limits(calls: u64) -> String {
    format!(
        r#"
        [policy.calls]
        strategy = "fixed_window"
        quota = "{calls}/w"
        key = "client_ip"
        match = {{ grpc = "grpc.health.v1.Health/Check" }}
        "#
    )
}

/// A Tonic server under all rules, and another one of which one service has one rule.
#[tokio::test]
async fn grpc_calls_meet_the_limits_of_the_file() {
    let file = Limits::new("grpc", &grpc_limits(1));
    let limiter = Limiter::memory().with_rules(file.rules()).unwrap();
    let (all, url) = listen().await;
    let server = Server::builder()
        .layer(limiter.rules().unwrap().layer())
        .add_service(tonic_health::server::health_reporter().1);
    tokio::spawn(server.serve_with_incoming(all));
    let (one, other_url) = listen().await;
    let service =
        limiter.rules().unwrap().layer_of("calls").unwrap().layer(tonic_health::server::health_reporter().1);
    tokio::spawn(Server::builder().add_service(service).serve_with_incoming(one));

    let mut clients = [connect(url).await, connect(other_url).await];
    let mut calls = Vec::new();
    for limit in [1, 3, 2] {
        file.write(&grpc_limits(limit));
        limiter.rules().unwrap().reload().unwrap();
        for client in &mut clients {
            calls.push(match client.check(HealthCheckRequest::default()).await {
                Ok(_) => Code::Ok,
                Err(status) => status.code(),
            });
        }
    }
    let (ok, refused) = (Code::Ok, Code::ResourceExhausted);
    assert_eq!(calls, [ok, refused, ok, ok, refused, refused]);
}
