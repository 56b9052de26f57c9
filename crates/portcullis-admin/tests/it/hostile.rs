//! Requests and services that are made to cause harm.

use axum::body::Body;
use http::Request;
use http::request::Parts;
use portcullis_admin::{Actor, Admin, Refused};
use portcullis_core::{Policy, Quota, StoreErrorKind};
use portcullis_tower::{Global, PolicyExt as _, RateLimitLayer};
use serde_json::json;
use tower::{Layer as _, ServiceExt as _};

use crate::privacy::Captured;
use crate::stores::{Failing, Unasked};
use crate::support::{ADA, Answer, Limited, get, of, registry, request, secret};

async fn send(limited: &Limited, path: &str, body: impl Into<Body>) -> Answer {
    let sent = request("POST", path).header("content-type", "application/json").body(body.into()).unwrap();
    limited.send(sent).await
}

/// What another reader of the body, such as a proxy that logs changes, takes to be meant.
#[tokio::test]
async fn a_field_that_is_given_twice_is_refused() {
    let limited = Limited::new();
    for body in [
        r#"{"policy":"search","policy":"search","identity":{"request":{"headers":{"x-user":"a"}}}}"#,
        r#"{"policy":"search","identity":{"request":{"headers":{"x-user":"a","x-user":"b"}}}}"#,
        r#"{"policy":"search","polic\u0079":"search","identity":{"request":{"headers":{"x-user":"a"}}}}"#,
        r#"{"policy":"search","identity":[[{"a":0,"a":1}]]}"#,
    ] {
        let answer = send(&limited, "/v1/reset", body).await;
        assert_eq!(answer.problem(), (400, None), "{body}");
        assert!(answer.text.contains("twice") && !answer.text.contains("x-user"), "{answer:?}");
    }
}

#[tokio::test]
async fn bodies_that_are_no_json_are_refused() {
    let limited = Limited::new();
    let deep = |open: &str, shut: &str| format!("{}1{}", open.repeat(1_000), shut.repeat(1_000)).into_bytes();
    for body in [
        deep("[", "]"),
        deep("{\"a\":", "}"),
        b"{\"policy\":\"\xff\"}".to_vec(),
        b"{\"policy\":\"\\ud800\"}".to_vec(),
        b"{\"policy\":NaN}".to_vec(),
        b"\xef\xbb\xbf{}".to_vec(),
        b"{\"policy\":\"search\"}\0".to_vec(),
    ] {
        assert_eq!(send(&limited, "/v1/reset", body.clone()).await.problem(), (400, None), "{body:?}");
    }
}

#[tokio::test]
async fn lengths_of_time_at_the_limits_are_refused() {
    let limited = Limited::new();
    let lengths = [
        "0",
        "-1",
        "-0",
        "1e308",
        "1e3",
        "18446744073709551616",
        "18446744073709551615",
        "null",
        "\"60\"",
        "[]",
    ];
    for length in lengths {
        let body = of("a").to_string().replacen('{', &format!("{{\"duration_seconds\":{length},"), 1);
        let answer = send(&limited, "/v1/block", body).await;
        assert_eq!(answer.problem(), (422, Some("duration_seconds".to_owned())), "{length}");
    }
    assert_eq!(limited.request("a").await, 200);
}

#[tokio::test]
async fn no_mistake_is_repeated() {
    let limited = Limited::new();
    for body in [
        json!({ "policy": "search", "identity": { "fingerprint": "0".repeat(32) }, "quota": ADA, "duration_seconds": 60 }),
        json!({ "policy": "search", "identity": { "fingerprint": "0".repeat(32) }, "quota": format!("5/{ADA}"), "duration_seconds": 60 }),
        json!({ "policy": "search", "identity": { "request": { "path": format!("{ADA}") } } }),
        json!({ "policy": "search", "identity": { "request": { "route": ADA } } }),
        json!({ "policy": "search", "identity": { "request": { "peer": ADA } } }),
        json!({ "policy": "search", ADA: "" }),
    ] {
        let answer = send(&limited, "/v1/grant", body.to_string()).await;
        assert!(answer.status == 422 && !answer.text.contains(ADA), "{body} {answer:?}");
    }
}

/// A store addresses its state by the first part of a key as well, which the first digits do not tell.
#[tokio::test]
async fn the_first_digits_of_a_fingerprint_are_refused() {
    let limited = Limited::new();
    limited.request(ADA).await;
    let whole =
        limited.get("/v1/snapshot").await.json()["top"][0]["fingerprint"].as_str().unwrap().to_owned();
    let by = |text: &str| json!({ "policy": "search", "identity": { "fingerprint": text } }).to_string();
    let (digits, parts) = whole.rsplit_once('-').unwrap();
    for text in [&whole[..32], digits, &format!("{whole}-1"), &format!("{whole} "), &format!("{digits}-256")]
    {
        for path in ["/v1/reset", "/v1/unblock", "/v1/budget"] {
            let answer = send(&limited, path, by(text)).await;
            assert_eq!(answer.problem(), (422, Some("identity.fingerprint".to_owned())), "{text}");
        }
    }
    assert!(parts.parse::<u8>().is_ok());
    assert_eq!(send(&limited, "/v1/budget", by(&whole)).await.json()["remaining"], 2);
    assert_eq!(send(&limited, "/v1/budget", by(&whole.to_ascii_uppercase())).await.json()["remaining"], 2);
}

#[tokio::test]
async fn a_panic_of_authorize_lets_nobody_in() {
    let registry = Limited::new().registry;
    let sync = Admin::new(registry.clone(), |_: &Parts| -> Result<Actor, Refused> { panic!("no session") });
    let at_once = Admin::new_async(registry.clone(), |_| {
        assert!(!std::hint::black_box(true), "no session");
        std::future::ready(Ok(Actor::new("eve")))
    });
    let later = Admin::new_async(registry, async |_| -> Result<Actor, Refused> {
        tokio::task::yield_now().await;
        panic!("no session")
    });
    for api in [sync.into_router(), at_once.into_router(), later.into_router()] {
        let answer = Answer::of(api.oneshot(get("/v1/policies")).await.unwrap()).await;
        assert_eq!(answer.problem(), (500, None));
        assert!(!answer.text.contains("session") && !answer.text.contains("search"));
    }
}

#[tokio::test]
async fn an_actor_cannot_forge_fields_of_its_audit_event() {
    let captured = Captured::start();
    let name = "eve\u{2028} action=\"none\" outcome=\"failed\"\u{202e}";
    let limited = Limited::new();
    let api = Admin::new(limited.registry.clone(), move |_: &Parts| Ok(Actor::new(name))).into_router();
    let mode = request("POST", "/v1/mode").header("content-type", "application/json");
    let mode = mode.body(json!({ "policy": "search", "mode": "off" }).to_string()).unwrap().map(Body::from);
    assert_eq!(api.oneshot(mode).await.unwrap().status(), 200);
    let line = captured.take_line("portcullis::audit");
    assert!(line.contains(r#"actor="eve? action=\"none\" outcome=\"failed\"?""#), "{line}");
}

/// Rules files name routes as they like.
#[tokio::test]
async fn answers_are_bounded_whatever_routes_are_called() {
    let failing = Failing(Some(StoreErrorKind::Unavailable));
    let limited = Limited::on(registry(failing, secret()));
    let mut services = Vec::new();
    for number in 0..1_000 {
        let name: &str = format!("{number:0>64}").leak();
        for other in 0..9 {
            let policy = Policy::fixed_window(name, Quota::per_day(3));
            let layer = RateLimitLayer::new(limited.registry.clone(), policy.by(Global));
            let route = format!("{number} {other} \u{1}<script>{}", "\u{1}".repeat(2_000));
            services.push(layer.route(route).layer(()));
        }
    }
    for path in ["/v1/snapshot", "/v1/policies", "/v1/layers"] {
        let answer = limited.get(path).await;
        // What the page and the command line read.
        assert!(answer.status == 200 && answer.text.len() < 8 << 20, "{path} {}", answer.text.len());
    }
    let first =
        limited.get("/v1/policies").await.json()["policies"][0]["routes"][0].as_str().unwrap().to_owned();
    assert!(first.ends_with('…') && first.chars().count() < 300);
    // What is listed names the layer.
    let body = json!({ "policy": "0".repeat(64), "identity": { "request": { "route": first } } });
    assert_eq!(send(&limited, "/v1/budget", body.to_string()).await.status, 503);
}

#[tokio::test]
async fn refused_requests_cost_no_call_of_the_store() {
    let limited = Limited::on(registry(Unasked, secret()));
    let forged = |name: &str, value: &str| {
        let forged = request("POST", "/v1/reset").header("content-type", "application/json");
        forged.header(name, value).body(of(ADA).to_string().into()).unwrap()
    };
    for (name, value) in [("origin", "null"), ("sec-fetch-site", "cross-site"), ("host", "evil.example")] {
        let status = limited.send(forged(name, value)).await.status;
        assert!(matches!(status, 403 | 421), "{name}");
    }
    let anonymous = Request::post("/v1/reset").header("host", "localhost").body(Body::empty()).unwrap();
    assert_eq!(limited.send(anonymous).await.status, 401);
}
