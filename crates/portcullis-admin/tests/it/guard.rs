//! Which requests are refused.

use axum::body::Body;
use http::Request;
use portcullis_admin::{Actor, Admin, Refused};
use serde_json::json;
use tower::ServiceExt as _;

use crate::support::{ADA, Answer, Limited, TOKEN, get, of, request};

#[tokio::test]
async fn unauthorized_requests_learn_nothing() {
    let limited = Limited::new();
    let paths =
        ["/v1/snapshot", "/v1/stream", "/v1/openapi.json", "/v1/budget", "/v1/no-such-route", "/v1/reset"];
    for (token, status) in [(None, 401), (Some("wrong"), 401), (Some(""), 401), (Some("a-guest"), 403)] {
        for (method, path) in
            paths.iter().flat_map(|path| ["GET", "POST", "OPTIONS"].map(|method| (method, *path)))
        {
            // Nor whether anything else about the request is wrong.
            let mut request = Request::builder().method(method).uri(path).header("host", "evil.example");
            if let Some(token) = token {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            let answer = limited.send(request.body("{".into()).unwrap()).await;
            assert_eq!(answer.problem(), (status, None), "{method} {path} {token:?}");
            assert!(!answer.text.contains("search"));
            assert_eq!(answer.headers.contains_key("www-authenticate"), status == 401);
        }
    }
    let twice = request("GET", "/v1/policies").header("authorization", format!("Bearer {TOKEN}"));
    assert_eq!(limited.send(twice.body(Body::empty()).unwrap()).await.status, 401);
}

#[tokio::test]
async fn an_asynchronous_function_authorizes_as_well() {
    let authorize = async |parts: http::request::Parts| {
        tokio::task::yield_now().await;
        if parts.headers.contains_key("x-session") {
            Ok(Actor::new("grace"))
        } else {
            Err(Refused::Unauthenticated)
        }
    };
    let api =
        Admin::new_async(Limited::new().registry, move |parts| Box::pin(authorize(parts)) as SendFuture)
            .into_router();
    let with_session = request("GET", "/v1/policies").header("x-session", "1").body(Body::empty()).unwrap();
    assert_eq!(api.clone().oneshot(with_session).await.unwrap().status(), 200);
    assert_eq!(api.oneshot(get("/v1/policies")).await.unwrap().status(), 401);
}

type SendFuture = std::pin::Pin<Box<dyn Future<Output = Result<Actor, Refused>> + Send>>;

/// Another name for this server, as an attacker sets it up whose page then has the "same" origin.
#[tokio::test]
async fn a_rebound_host_is_refused_on_loopback_too() {
    let limited = Limited::new();
    for host in ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "169.254.169.254"] {
        for path in ["/v1/snapshot", "/"] {
            let rebound =
                Request::get(path).header("host", host).header("authorization", format!("Bearer {TOKEN}"));
            let rebound = rebound.header("sec-fetch-site", "same-origin").body(Body::empty()).unwrap();
            assert_eq!(
                limited.send(rebound).await.problem(),
                (421, Some("host".to_owned())),
                "{host} {path}"
            );
        }
    }
    let nameless = Request::get("/v1/snapshot").header("authorization", format!("Bearer {TOKEN}"));
    assert_eq!(limited.send(nameless.body(Body::empty()).unwrap()).await.status, 421);
    let api =
        Admin::new(limited.registry, crate::support::authorize).hosts(["admin.example.com"]).into_router();
    assert_eq!(api.clone().oneshot(get("/v1/snapshot")).await.unwrap().status(), 421);
    let named = Request::get("/v1/snapshot")
        .header("host", "admin.example.com")
        .header("authorization", format!("Bearer {TOKEN}"));
    assert_eq!(api.oneshot(named.body(Body::empty()).unwrap()).await.unwrap().status(), 200);
}

#[tokio::test]
async fn pages_of_other_sites_cause_no_change() {
    let limited = Limited::new();
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "http://localhost:3000"),
        ("origin", "http://localhost"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "SAME-ORIGIN"),
    ] {
        for path in ["/v1/reset", "/v1/block", "/v1/mode", "/v1/budget"] {
            let forged = request("POST", path).header("content-type", "application/json").header(name, value);
            let answer = limited.send(forged.body(of(ADA).to_string().into()).unwrap()).await;
            assert_eq!(answer.problem(), (403, Some(name.to_owned())), "{path} {value}");
        }
        let read = request("GET", "/v1/stream").header(name, value).body(Body::empty()).unwrap();
        assert_eq!(limited.send(read).await.status, 403, "{value}");
    }
    for headers in [
        [("origin", "http://localhost:8080"), ("sec-fetch-site", "same-origin")],
        [("origin", "http://localhost:8080"), ("sec-fetch-site", "none")],
        [("x-origin", ""), ("sec-fetch-site", "same-origin")],
        // A program that is no browser.
        [("x-origin", ""), ("user-agent", "curl")],
    ] {
        let own = headers
            .iter()
            .fold(request("POST", "/v1/budget"), |own, (name, value)| own.header(*name, *value));
        let own = own
            .header("content-type", "application/json; charset=utf-8")
            .body(of(ADA).to_string().into())
            .unwrap();
        assert_eq!(limited.send(own).await.status, 200, "{headers:?}");
    }
    let both = request("POST", "/v1/reset").header("content-type", "application/json");
    let both = both.header("sec-fetch-site", "same-origin").header("origin", "https://evil.example");
    assert_eq!(limited.send(both.body(of(ADA).to_string().into()).unwrap()).await.status, 403);
}

#[tokio::test]
async fn bodies_that_a_form_can_send_are_refused() {
    let limited = Limited::new();
    for types in [
        &["text/plain"][..],
        &["application/x-www-form-urlencoded"],
        &["multipart/form-data; boundary=application/json"],
        &["application/json", "text/plain"],
        &["application/jsonp"],
        &[],
    ] {
        let form =
            types.iter().fold(request("POST", "/v1/reset"), |form, one| form.header("content-type", *one));
        let answer = limited.send(form.body(of(ADA).to_string().into()).unwrap()).await;
        assert_eq!(answer.problem(), (415, Some("content-type".to_owned())), "{types:?}");
    }
}

#[tokio::test]
async fn targets_in_absolute_form_name_their_host() {
    let limited = Limited::new();
    let absolute = |target: &str| {
        let request = Request::get(target).header("authorization", format!("Bearer {TOKEN}"));
        request.body(Body::empty()).unwrap()
    };
    assert_eq!(limited.send(absolute("http://localhost/v1/policies")).await.status, 200);
    assert_eq!(limited.send(absolute("http://evil.example/v1/policies")).await.status, 421);
    assert_eq!(Answer::json(&limited.get("/v1/policies").await)["policies"][0]["name"], json!("search"));
}
