//! Whatever a limited service shows to its operators has no identity of a client: metrics, the admin API, spans, and the log at its most
//! detailed level. A real server in memory and on a real Redis, with everything on.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request as AxumRequest;
use axum::http::{Request, request::Parts};
use axum::middleware::{Next, from_fn};
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusBuilder;
use portcullis::admin::{Actor, Refused, has_bearer_token};
use portcullis::event::{Event, Observer, SpanFields};
use portcullis::key::{Bearer, Cookie, Header, Lookup, Query, Trust};
use portcullis::layer::{LockOut, Network, RequestPath};
use portcullis::metrics::Metrics;
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer, Secret};
use portcullis_memory::MemoryStore;
use portcullis_servers::RedisServer;
use portcullis_tests::{HttpClient, set_global_subscriber};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tracing::Instrument as _;
use tracing::field::Empty;
use tracing_subscriber::fmt::format::FmtSpan;

const KEY: &str = "key-5ecret-Zq1";
const TOKEN: &str = "tok-5ecret-Zq2";
const ACCOUNT: &str = "acc-5ecret-Zq3";
const SESSION: &str = "ses-5ecret-Zq4";
const QUERY: &str = "qry-5ecret-Zq5";
const ADDRESS: &str = "203.0.113.77";
const DENIED: &str = "198.51.100.66";
const PEER: [u8; 4] = [127, 0, 77, 66];
const SECRET: [u8; 16] = *b"the-s3cret-bytes";
const OPERATOR: &str = "0per4tors-t0ken";

/// What must be nowhere, in lower case.
fn words() -> [String; 7] {
    let hex = format!("{:032x}", u128::from_be_bytes(SECRET));
    let peer = IpAddr::from(PEER).to_string();
    ["5ecret", ADDRESS, DENIED, "the-s3cret-bytes", OPERATOR, &peer, &hex].map(str::to_owned)
}

/// Keeps each event as it is printed, and asks for all that there is.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<String>>);

impl Observer for Events {
    fn on_event(&self, event: &Event<'_>) {
        let mut text = self.0.lock().unwrap();
        write!(text, "{event:?}").unwrap();
        for (policy, fingerprint) in event.fingerprints() {
            write!(text, " {policy} {fingerprint}").unwrap();
        }
        text.push('\n');
    }

    fn wants_fingerprints(&self) -> bool {
        true
    }

    fn wants_charges(&self) -> bool {
        true
    }
}

fn layers(limiter: &Limiter) -> Vec<(&'static str, RateLimitLayer)> {
    let policy = |name| Policy::fixed_window(name, Quota::per_week(2)).allow_overrides();
    let clients = ClientIp::behind(Trust::networks(["127.0.0.0/8"])).x_forwarded_for();
    let account = |parts: &Parts| {
        let is_known = parts.headers.contains_key("x-api-key");
        async move { Ok(if is_known { Lookup::found("account", ACCOUNT) } else { Lookup::missing() }) }
    };
    let rule = LockOut::after(1).within(Duration::from_secs(60)).block_for(Duration::from_secs(60));
    let denied = Network::of(&clients, [format!("{DENIED}/32").as_str()]);
    vec![
        ("/key", limiter.layer(policy("key").by(Header::named("x-api-key")).warn_at(0.5))),
        ("/address", limiter.layer(policy("address").by(clients).lock_out(rule)).deny(denied)),
        ("/peer", limiter.layer(policy("peer").by(ClientIp::peer())).except(RequestPath::exact("/other"))),
        ("/token", limiter.layer(policy("token").by(Bearer))),
        ("/session", limiter.layer(policy("session").by(Cookie::named("sid")).shadow())),
        ("/query", limiter.layer(policy("query").by(Query::named("q")))),
        ("/account", limiter.layer(policy("account").by_async(account))),
    ]
}

/// The span of a request, with all fields that are recorded.
async fn traced(request: AxumRequest, next: Next) -> axum::response::Response {
    let span = tracing::info_span!(
        "request",
        rate_limit.outcome = Empty,
        rate_limit.policy = Empty,
        rate_limit.remaining = Empty,
        rate_limit.reason = Empty,
        rate_limit.would_reject = Empty,
    );
    next.run(request).instrument(span).await
}

/// A request with all identities, or with all of them broken.
async fn send(url: &str, path: &str, address: &str, is_broken: bool) -> u16 {
    let suffix = if is_broken { "," } else { "" };
    let more = if is_broken { format!("&q={QUERY}") } else { String::new() };
    let mut request = Request::get(format!("{url}{path}?q={QUERY}{more}"))
        .header("x-api-key", KEY)
        .header("authorization", format!("Bearer {TOKEN}{}", if is_broken { " x" } else { "" }))
        .header("cookie", format!("sid={SESSION}"))
        .header("x-forwarded-for", format!("{address}{suffix}{suffix}"));
    if is_broken {
        request = request.header("x-api-key", KEY).header("cookie", format!("sid={SESSION}"));
    }
    HttpClient::from_address(IpAddr::from(PEER)).send(request, ()).await.status().as_u16()
}

/// An operator's request, and everything of its answer.
async fn operate(url: &str, path: &str, body: Option<String>) -> (u16, String) {
    let request = Request::builder().uri(format!("{url}/limits{path}"));
    let request = request.method(if body.is_some() { "POST" } else { "GET" });
    let request = request.header("authorization", format!("Bearer {OPERATOR}"));
    let request = request.header("content-type", "application/json");
    let response = HttpClient::http_1().send(request, body.unwrap_or_default()).await;
    let (head, body) = response.into_parts();
    (head.status.as_u16(), format!("{path}: {:?} {}\n", head.headers, String::from_utf8_lossy(&body)))
}

/// What operators ask for, with the identities of clients in the bodies; and mistakes that they make.
async fn operations(url: &str) -> String {
    let mut answers = String::new();
    let request = json!({ "headers": { "x-api-key": KEY, "x-forwarded-for": ADDRESS }, "peer": "127.0.0.1" });
    for policy in ["key", "address"] {
        for (route, more) in [
            ("budget", json!({})),
            ("grant", json!({ "quota": "5/w", "duration_seconds": 60 })),
            ("block", json!({ "duration_seconds": 60 })),
            ("overrides", json!({})),
            ("unblock", json!({})),
            ("revoke", json!({})),
            ("reset", json!({})),
        ] {
            let mut body = json!({ "policy": policy, "identity": { "request": request } });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let (status, answer) = operate(url, &format!("/v1/{route}"), Some(body.to_string())).await;
            assert_eq!(status, 200, "{answer}");
            answers += &answer;
        }
    }
    let mistakes: [Value; 7] = [
        json!({ "policy": "key", "identity": KEY }),
        json!({ "policy": "key", "identity": { "fingerprint": KEY } }),
        json!({ "policy": "key", "identity": { KEY: 1 } }),
        json!({ "policy": "key", "identity": { "request": { "headers": KEY } } }),
        json!({ "policy": "key", "identity": { "request": { "path": "\n", "headers": { KEY: "\n" } } } }),
        json!({ "policy": "address", "identity": { "request": { "peer": KEY } } }),
        json!({ "policy": "address", "identity": { "request": { "headers": { "x-forwarded-for": KEY }, "peer": "127.0.0.1" } } }),
    ];
    for mistake in mistakes.map(|mistake| mistake.to_string()).into_iter().chain([format!("{{\"{KEY}")]) {
        let (status, answer) = operate(url, "/v1/budget", Some(mistake)).await;
        assert!((400..500).contains(&status), "{answer}");
        answers += &answer;
    }
    for path in ["/v1/snapshot", "/v1/policies", "/v1/layers", "/v1/openapi.json", ""] {
        let (status, answer) = operate(url, path, None).await;
        assert_eq!(status, 200, "{answer}");
        answers += &answer;
    }
    answers
}

async fn nothing_shows_an_identity(limiter: Limiter, log: &Log) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let (exporter, events) = (recorder.handle(), Events::default());
    let limiter = limiter.metrics_with(&Metrics::with_recorder(recorder));
    let limiter = limiter.observe(events.clone()).observe(SpanFields::new());
    let admin = limiter.admin(|parts: &Parts| {
        if has_bearer_token(parts, OPERATOR) {
            Ok(Actor::new("grace"))
        } else {
            Err(Refused::Unauthenticated)
        }
    });
    let mut app = Router::new();
    let mut paths = Vec::new();
    for (path, layer) in layers(&limiter) {
        paths.push(path);
        app = app.route(path, get(async || "here").layer(layer.route(format!("GET {path}"))));
    }
    let app = app.layer(from_fn(traced)).nest("/limits", admin.into_router());
    let listener = TcpListener::bind((IpAddr::from([127, 0, 0, 1]), 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(
        axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).into_future(),
    );

    for path in paths {
        let mut statuses = Vec::new();
        for is_broken in [false, false, false, false, true] {
            statuses.push(send(&url, path, ADDRESS, is_broken).await);
        }
        let expected: &[u16] = match path {
            "/session" => &[200; 5],
            "/peer" | "/account" => &[200, 200, 429, 429, 429],
            "/token" => &[200, 200, 429, 429, 401],
            _ => &[200, 200, 429, 429, 400],
        };
        assert_eq!(statuses, expected, "{path}");
    }
    assert_eq!(send(&url, "/address", DENIED, false).await, 403);
    let answers = operations(&url).await;
    limiter.refresh_metrics();
    let (metrics, events) = (exporter.render(), events.0.lock().unwrap().clone());
    let log = log.take();

    // The searched texts are those that are meant.
    let parts = ["recent", "fingerprint", "<!doctype html>"];
    assert!(parts.iter().all(|part| answers.to_lowercase().contains(part)), "{answers}");
    assert!(metrics.contains("portcullis_decisions_total{") && metrics.contains(r#"policy="session""#));
    for kind in ["SoftLimitReached", "LockedOut", "IdentityMalformed", "ShadowWouldReject", "Charged"] {
        assert!(events.contains(kind), "{kind} {events}");
    }
    for part in [
        "a layer of the rate limiter limits requests",
        "rate_limit.outcome=\"rejected\"",
        "rate_limit.would_reject=\"session\"",
        "portcullis::audit",
        "malformed identity",
    ] {
        assert!(log.contains(part), "{part} {log}");
    }

    let places =
        [("the metrics", metrics), ("the admin API", answers), ("an event", events), ("the log", log)];
    for (place, text) in places {
        for line in text.lines() {
            let word = words().into_iter().find(|word| line.to_lowercase().contains(word.as_str()));
            assert_eq!(word, None, "in {place}: {line}");
        }
    }
}

#[tokio::test]
async fn nothing_shows_an_identity_in_memory() {
    let (log, _guard) = Log::start();
    let limiter = Limiter::new(MemoryStore::new(), Secret::new("2026", &SECRET).unwrap());
    nothing_shows_an_identity(limiter, &log).await;
}

#[tokio::test]
async fn nothing_shows_an_identity_on_redis() {
    let (log, _guard) = Log::start();
    let redis = RedisServer::start().unwrap();
    let limiter = Limiter::redis(redis.url()).secret("2026", &SECRET).deadline(Duration::from_secs(5));
    nothing_shows_an_identity(limiter.await.unwrap(), &log).await;
}

/// The log of this thread at its most detailed level, with the fields of spans when they end.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        set_global_subscriber();
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
            .with_span_events(FmtSpan::CLOSE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
