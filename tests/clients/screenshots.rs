//! Screenshots of the live page for the docs, over a stream of made-up snapshots, and what it does when the stream ends.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Router, routing::get};
use portcullis::Limiter;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tower::ServiceExt as _;

use crate::admin_page::{admin, sign_in};
use crate::devtools::{Browser, Screen};
use crate::server::Server;

/// 2026-01-15, 09:30 UTC.
const START: u64 = 1_768_469_400_000;
const SECONDS: u64 = 300;

type MadeUp = (&'static str, &'static str, &'static str, &'static [&'static str], &'static str, [u64; 3]);

/// Name, strategy, mode, routes, key, and admitted, rejected and would-be rejected requests in 100 s.
const POLICIES: [MadeUp; 6] = [
    ("api", "gcra 100/s burst 200", "25 %", &["/api/v1/*"], "header x-api-key", [8_800, 110, 620]),
    ("exports", "leaky_bucket 2/min burst 4", "shadow", &["GET /exports/{id}"], "user", [40, 0, 12]),
    (
        "login",
        "sliding_window 5/min",
        "enforce",
        &["POST /login", "POST /login/code"],
        "client_ip",
        [160, 45, 0],
    ),
    ("search", "token_bucket 10/s burst 20", "enforce", &["GET /search"], "client_ip", [1_400, 320, 0]),
    ("uploads", "in_flight 8", "enforce", &["PUT /files/{name}"], "user", [290, 0, 0]),
    ("webhooks", "fixed_window 1000/h", "off", &["POST /hooks"], "global", [0, 0, 0]),
];

/// Policy and route of what is rejected.
const REJECTED: [(&str, &str); 4] =
    [("search", "GET /search"), ("login", "POST /login"), ("search", "GET /search"), ("api", "/api/v1/*")];

/// The number of events of a second, out of `per_100_s`: waves, with a burst each 140 s for what is rejected.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small positive numbers"
)]
fn events(second: u64, policy: u64, kind: u64, per_100_s: u64) -> u64 {
    let phase = |period: f64| (second as f64 / period + (policy * 2 + kind) as f64).sin();
    let burst = if kind > 0 && (60..78).contains(&(second % 140)) { 3.5 } else { 1.0 };
    let events = per_100_s as f64 * burst * (1.0 + 0.35 * phase(23.0) + 0.2 * phase(7.3));
    // The remainder decides by a fixed sequence whether there is one more.
    let events = events.max(0.0) as u64;
    let chance =
        (second * 7_919 + policy * 104_729 + kind * 1_299_709) * 2_654_435_761 % 4_294_967_296 / 42_949_673;
    events / 100 + u64::from(events % 100 > chance)
}

fn fingerprint(caller: u64) -> String {
    format!(
        "{:016x}{:016x}",
        (caller + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        (caller + 7).wrapping_mul(0xd6e8_feb8_6659_fd93)
    )
}

/// The snapshots of five minutes.
fn snapshots() -> Vec<Value> {
    let mut counts = [[0; 3]; POLICIES.len()];
    (0..SECONDS).map(|second| snapshot(second, &mut counts)).collect()
}

fn snapshot(second: u64, counts: &mut [[u64; 3]; POLICIES.len()]) -> Value {
    let time = START + second * 1_000;
    let policies: Vec<_> = (0..)
        .zip(POLICIES.iter().zip(counts))
        .map(|(i, ((name, strategy, mode, routes, key, rates), counts))| {
            for (kind, (count, rate)) in (0..).zip(counts.iter_mut().zip(rates)) {
                *count += events(second, i, kind, *rate);
            }
            let [admitted, rejected, would_reject] = *counts;
            json!({
                "name": name, "strategy": strategy, "mode": mode, "routes": routes, "key": key, "admitted": admitted,
                "rejected": rejected, "would_reject": would_reject, "exempt": 0, "charged_units": admitted,
            })
        })
        .collect();
    let figure = |name: &str, policy: Option<&str>, value: u64, unit: &str| json!({ "name": name, "policy": policy, "value": value, "unit": unit });
    let callers = || (0..6_u64).zip(REJECTED.iter().cycle());
    let top = |(i, (policy, _)): (u64, &(&str, &str))| json!({ "policy": policy, "fingerprint": fingerprint(i), "requests": 9_120 / (i + 1), "rejected": 1_240 / (i * i + 1), "error": 0 });
    let recent = |(i, (policy, route)): (u64, &(&str, &str))| json!({ "time": time - i * 730, "policy": policy, "fingerprint": fingerprint(i % 3), "reason": "limited", "route": route });
    json!({
        "time": time, "generation": 7, "policies": policies, "waiting": 2, "in_flight": 17,
        "store": { "kind": "redis", "healthy": true, "figures": [
            figure("calls_in_flight", None, 2, "count"), figure("calls_waiting", None, 0, "count"), figure("connections", None, 1, "count"),
            figure("breaker_open", None, 0, "count"), figure("degraded", None, 1_234_567, "microseconds"),
            figure("remembered_denials", None, 312, "count"), figure("leased_units", Some("api"), 12_000, "count"),
        ] },
        "top": callers().map(top).collect::<Vec<_>>(),
        "recent": callers().map(recent).collect::<Vec<_>>(),
        "limited_now": [
            { "policy": "login", "fingerprint": fingerprint(1), "until": time + 754_000, "locked_out": true },
            { "policy": "search", "fingerprint": fingerprint(0), "until": time + 900, "locked_out": false },
            { "policy": "search", "fingerprint": fingerprint(2), "until": time + 400, "locked_out": false },
        ],
    })
}

/// All snapshots at once, and then the last of them each second, until the page has gone: so the figures stand still.
fn stream() -> Response {
    let lines: Vec<_> = snapshots().iter().map(|snapshot| Bytes::from(format!("{snapshot}\n"))).collect();
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let last = lines.last().unwrap().clone();
        for line in lines {
            if sender.send(line).await.is_err() {
                return;
            }
        }
        while sender.send(last.clone()).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    Body::from_stream(ReceiverStream::new(receiver).map(Ok::<_, Infallible>)).into_response()
}

/// The page as the API serves it, over another stream.
async fn with_stream(stream: impl Fn() -> Response + Clone + Send + Sync + 'static) -> Server {
    let request = Request::get("/").header("host", "localhost").body(Body::empty()).unwrap();
    let (head, body) = admin(&Limiter::memory()).oneshot(request).await.unwrap().into_parts();
    assert_eq!(head.status, StatusCode::OK);
    let page = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let page = get(async move || (head.headers, page));
    let stream = get(async move |parts: axum::http::request::Parts| {
        if parts.headers.contains_key("authorization") {
            stream()
        } else {
            StatusCode::UNAUTHORIZED.into_response()
        }
    });
    Server::start(Router::new().route("/", page).route("/v1/stream", stream)).await
}

#[tokio::test]
async fn screenshots_for_the_docs() {
    let server = with_stream(stream).await;
    let mut browser = Browser::start("screenshots").await;
    sign_in(&mut browser, &format!("http://{}/", server.address)).await;
    let ready = format!("latest.time === {}", START + (SECONDS - 1) * 1_000);
    browser.wait_for(&ready).await;
    for (name, screen) in [
        ("light", Screen { width: 1280, height: 2160, scale: 1, scheme: "light" }),
        ("top", Screen { width: 1280, height: 900, scale: 1, scheme: "light" }),
        ("dark", Screen { width: 1280, height: 900, scale: 1, scheme: "dark" }),
        ("phone", Screen { width: 390, height: 844, scale: 2, scheme: "light" }),
    ] {
        browser.resize(screen).await;
        // Two frames: in the first one, cards that came into view are drawn.
        browser.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 100))))").await;
        let png = browser.screenshot().await;
        assert_eq!(
            png[16..24],
            [screen.width * screen.scale, screen.height * screen.scale].map(u32::to_be_bytes).concat()[..]
        );
        let colours = browser.colours(&png).await;
        assert!(colours > 30, "{name}: a blank page has few colours, not {colours}");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/images/live-page-{name}.png"));
        if std::env::var_os("UPDATE_SCREENSHOTS").is_some() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, png).unwrap();
        } else {
            let committed = std::fs::read(&file).unwrap();
            assert_eq!(
                committed[16..24],
                png[16..24],
                "{}: set UPDATE_SCREENSHOTS=1 to replace it",
                file.display()
            );
        }
    }
    assert_eq!(browser.complaints, [""; 0]);
}

/// The first stream breaks off; the next attempt finds as many streams as there may be; the third one is served.
#[tokio::test]
async fn a_lost_stream_is_opened_again() {
    let attempts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&attempts);
    let server = with_stream(move || match counted.fetch_add(1, Ordering::Relaxed) {
        0 => Body::from(format!("{}\n", snapshots()[0])).into_response(),
        1 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        _ => stream(),
    })
    .await;
    let mut browser = Browser::start("lost").await;
    // Before the page's own script runs.
    let seen = "seen = []; addEventListener('DOMContentLoaded', () => new MutationObserver(() => seen.push(
        `${document.getElementById('state').textContent}: ${document.getElementById('notice-text').textContent}`
    )).observe(document.getElementById('notice-text'), { childList: true }))";
    browser.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": seen })).await;
    browser.open(&format!("http://{}/", server.address)).await;
    browser.wait_for("document.activeElement.id === 'token'").await;
    browser.type_text("any").await;
    browser.press("Enter").await;
    let ready = format!("state === 'live' && latest.time === {}", START + (SECONDS - 1) * 1_000);
    browser.wait_for(&ready).await;
    assert_eq!(attempts.load(Ordering::Relaxed), 3);
    let seen: Vec<String> = serde_json::from_value(browser.eval("seen").await).unwrap();
    let says = |text: &str| seen.iter().any(|one| one.contains(text));
    assert!(says("The server ended the stream. Trying again in "), "{seen:?}");
    assert!(says("The server already serves as many live pages as it may. Trying again in "), "{seen:?}");
    assert!(says("The figures are those of 09:30:00."), "{seen:?}");
    assert_eq!(browser.eval("document.getElementById('notice').hidden").await, true);
    assert_eq!(browser.complaints, [""; 0]);
}

/// As many policies as one likes: those that the search finds are shown, and no more than a page can bear.
#[tokio::test]
async fn many_policies_are_searched() {
    let policy = |i: u32| {
        json!({ "name": format!("policy-{i}"), "strategy": "gcra 1/s", "mode": "enforce", "routes": [format!("/r{i}")], "key": "client_ip",
            "admitted": u64::MAX, "rejected": 0, "would_reject": 0, "exempt": 0, "charged_units": 0 })
    };
    let snapshot =
        json!({ "time": START, "policies": (0..1_500).map(policy).collect::<Vec<_>>(), "store": null });
    let line = Bytes::from(format!("{snapshot}\n"));
    let server = with_stream(move || {
        let lines = tokio_stream::iter([Ok::<_, Infallible>(line.clone())]).chain(tokio_stream::pending());
        Body::from_stream(lines).into_response()
    })
    .await;
    let mut browser = Browser::start("many").await;
    sign_in(&mut browser, &format!("http://{}/", server.address)).await;
    assert_eq!(browser.eval("document.querySelectorAll('.card').length").await, 120);
    assert!(browser.eval("drawn.size").await.as_u64().unwrap() < 60, "only those in view are drawn");
    browser.eval("document.getElementById('find').focus()").await;
    browser.type_text("/R1499").await;
    browser.wait_for("document.querySelectorAll('.card').length === 1").await;
    assert_eq!(browser.text("document.querySelector('.card h3').textContent").await, "policy-1499");
    assert_eq!(browser.text("document.getElementById('count').textContent").await, "1 of 1500");
    assert_eq!(browser.complaints, [""; 0]);
}
