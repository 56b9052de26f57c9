//! Compares the transcripts in docs/reference/responses.md with the responses of a real server: every byte except for the lines `date` and
//! `connection: close`.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::http::{Request, Response};
use axum::routing::{any, get};
use portcullis::headers::RateLimitHeaders;
use portcullis::key::{Global, Key};
use portcullis::layer::Concurrency;
use portcullis::store::{Checks, Fallback, MemoryStore, Outcome, Store, StoreErrorKind, StoreFuture};
use portcullis::{
    Decision, FailureMode, Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer, Receipt, Secret,
    Settlement, StoreError, Timestamp,
};
use portcullis_servers::within_a_minute;
use portcullis_testing::ManualClock;
use portcullis_tests::HttpClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer as _, ServiceExt as _, service_fn};

/// A store that is never available.
struct Absent;

impl Store for Absent {
    fn check(&self, _: Checks) -> StoreFuture<Outcome> {
        StoreFuture::ready(Err(StoreError::new(StoreErrorKind::Unavailable, "absent")))
    }

    fn refund(&self, _: Receipt) -> StoreFuture<Decision> {
        unimplemented!("nothing is charged")
    }

    fn settle(&self, _: Receipt, _: u64) -> StoreFuture<Settlement> {
        unimplemented!("nothing is charged")
    }

    fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
        unimplemented!("nothing is charged")
    }
}

/// Starts the server that a comment in the page names, 250 ms after the page's epoch.
async fn server(name: &str) -> SocketAddr {
    let clock = ManualClock::default();
    clock.set(Timestamp::from_micros(1_700_000_000_250_000));
    let memory = || Limiter::new(MemoryStore::builder().clock(clock.clone()).build(), Secret::published());
    let search = Policy::gcra("search", Quota::per_minute(2).burst(2));
    let daily = Policy::fixed_window("daily", Quota::per_day(1_000));
    let (limiter, policy, headers) = match name {
        "failed" => {
            let limiter = Limiter::new(Absent, Secret::published());
            (limiter, search.on_store_failure(FailureMode::Closed), RateLimitHeaders::default())
        }
        "local" => {
            let store = Fallback::builder(Absent).clock(clock.clone()).build();
            let limiter = Limiter::new(store, Secret::published());
            (limiter, search.on_store_failure(FailureMode::local(2)), RateLimitHeaders::default())
        }
        "default" | "refusing" => (memory(), search, RateLimitHeaders::default()),
        "unix time" => (memory(), search, RateLimitHeaders::X_RATELIMIT.reset_as_unix_time()),
        "ietf" => (memory(), search, RateLimitHeaders::IETF),
        "both" | "in flight" => (memory(), search, RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF),
        "shadow" => (memory(), search, RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::SHADOW),
        "by policy" => {
            let requests = Policy::gcra("requests", Quota::per_minute(2).burst(2));
            (memory(), requests, RateLimitHeaders::BY_POLICY)
        }
        "draft 6" => (memory(), search, RateLimitHeaders::IETF_DRAFT_6),
        other => panic!("there is no server {other}"),
    };
    let mut limit = limiter.layer(policy.by(Global)).headers(headers);
    if name == "ietf" {
        limit = limit.and(daily);
    }
    if name == "by policy" {
        let tokens = Policy::token_bucket("tokens", Quota::per_hour(1_000));
        limit = limit.and(tokens.by(Global).reserve(100));
    }
    if name == "in flight" {
        limit = limit.and(Concurrency::new("searches", 1));
        hold(&limit).await;
    }
    if name == "shadow" {
        limit = limit.and(Policy::fixed_window("planned", Quota::per_day(1)).by(Global).shadow());
    }
    let app = Router::new()
        .route("/search", get(async || "found\n"))
        .route("/greeter.Greeter/SayHello", any(async || ""))
        .layer(limit);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, app).into_future());
    let spent = match name {
        "refusing" => 2,
        "shadow" => 1,
        _ => 0,
    };
    for _ in 0..spent {
        portcullis_tests::get(&format!("http://{address}/search")).await;
    }
    address
}

/// Takes a permit for good.
async fn hold(limit: &RateLimitLayer) {
    let service = limit.layer(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(()))));
    let response = service.oneshot(Request::new(String::new())).await.unwrap();
    assert_eq!(response.status(), 200);
    std::mem::forget(response);
}

async fn over_http_1(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = request.replace('\n', "\r\n") + "\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within_a_minute("end of the response", stream.read_to_string(&mut answer)).await.unwrap();
    let is_shown = |line: &&str| !line.starts_with("date: ") && *line != "connection: close";
    let mut shown = answer.split("\r\n").filter(is_shown).collect::<Vec<_>>().join("\n");
    // Without a body there is nothing after the headers.
    if shown.ends_with("\n\n") {
        shown.pop();
    }
    shown
}

async fn over_http_2(address: SocketAddr, request: &str) -> String {
    let mut lines = request.lines();
    let mut words = lines.next().unwrap().split(' ');
    let method = words.next().unwrap();
    let mut call =
        Request::builder().method(method).uri(format!("http://{address}{}", words.next().unwrap()));
    for (name, value) in lines.map(|line| line.split_once(": ").unwrap()) {
        call = call.header(name, value);
    }
    let answer = HttpClient::http_2().send(call, ()).await;
    let mut shown = format!("HTTP/2 {}\n", answer.status().as_u16());
    for (name, value) in answer.headers().iter().filter(|(name, _)| *name != "date") {
        writeln!(shown, "{name}: {}", value.to_str().unwrap()).unwrap();
    }
    let body = String::from_utf8(answer.into_body().to_vec()).unwrap();
    if body.is_empty() { shown } else { shown + "\n" + &body }
}

#[tokio::test]
async fn every_transcript_is_what_a_server_answers() {
    let page = include_str!("../../docs/reference/responses.md");
    let mut address = None;
    let mut transcripts = 0;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("<!-- server: ") {
            address = Some(server(name.trim_end_matches(" -->")).await);
        }
        if line != "```http" {
            continue;
        }
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        let block = block.join("\n") + "\n";
        let (request, expected) = block.split_once("\n\n").unwrap();
        let address = address.expect("a server is named before the first transcript");
        let answer = match request.lines().next() {
            Some(line) if line.ends_with("HTTP/2") => over_http_2(address, request).await,
            _ => over_http_1(address, request).await,
        };
        assert_eq!(answer, expected, "docs/reference/responses.md, in answer to {request}");
        transcripts += 1;
    }
    assert_eq!(transcripts, 16);
}
