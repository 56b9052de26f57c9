//! What each route answers.

use std::sync::Arc;

use axum::Router;
use portcullis_admin::{Admin, HostError, HostList};
use portcullis_core::{ManualClock, Policy, Quota};
use portcullis_memory::MemoryStore;
use portcullis_tower::{ClientIp, Global, Mode, PolicyExt as _, RateLimitLayer};
use serde_json::{Value, json};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::{ADA, Answer, Limited, authorize, get, of, registry, request, secret, with};

#[tokio::test]
async fn a_snapshot_shows_policies_callers_and_rejections() {
    let limited = Limited::new();
    for status in [200, 200, 200, 429] {
        assert_eq!(limited.request(ADA).await, status);
    }
    assert_eq!(limited.request("another").await, 200);
    let snapshot = limited.get("/v1/snapshot").await.json();
    assert_eq!(
        snapshot["policies"],
        json!([{
            "name": "search", "strategy": "fixed_window 3/w", "mode": "enforce", "routes": ["GET /search"], "key": snapshot["policies"][0]["key"],
            "options": ["grants and blocks apply"], "failure_mode": "local, whole limit",
            "allows_overrides": true, "layers": 1, "registered_since": snapshot["policies"][0]["registered_since"], "tried_out_since": null,
            "counted": true, "admitted": 4, "rejected": 1, "would_reject": 0, "exempt": 0, "charged_units": 4,
        }])
    );
    assert!(snapshot["policies"][0]["key"].as_str().unwrap().contains("x-user"));
    let top = &snapshot["top"];
    assert_eq!(
        (&top[0]["requests"], &top[0]["rejected"], &top[0]["error"]),
        (&json!(4), &json!(1), &json!(0))
    );
    assert_eq!((&top[1]["requests"], &top[2]), (&json!(1), &json!(null)));
    let fingerprint = top[0]["fingerprint"].as_str().unwrap();
    assert_eq!(fingerprint.split('-').next().map(str::len), Some(32));
    let limited_now = &snapshot["limited_now"][0];
    assert_eq!(
        (&limited_now["fingerprint"], &limited_now["locked_out"]),
        (&json!(fingerprint), &json!(false))
    );
    assert!(limited_now["until"].as_u64() > snapshot["time"].as_u64());
    let recent = &snapshot["recent"][0];
    assert_eq!((&recent["reason"], &recent["route"]), (&json!("limited"), &json!("GET /search")));
    assert_eq!((&snapshot["waiting"], &snapshot["in_flight"]), (&json!(0), &json!(0)));
    assert_eq!((&snapshot["store"]["kind"], &snapshot["store"]["healthy"]), (&json!("memory"), &json!(true)));
    assert_eq!(snapshot["generation"], json!(null));
}

#[tokio::test]
async fn policies_and_layers_are_listed() {
    let limited = Limited::new();
    let shadow = Policy::token_bucket("burst", Quota::per_second(10).burst(20));
    let layer = RateLimitLayer::new(limited.registry.clone(), shadow.by(Global).shadow());
    let service = layer.layer(service_fn(async |_: http::Request<String>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
    }));
    let policies = limited.get("/v1/policies").await.json();
    let names: Vec<_> =
        policies["policies"].as_array().unwrap().iter().map(|policy| &policy["name"]).collect();
    assert_eq!(names, ["burst", "search"]);
    assert_eq!(policies["policies"][0]["strategy"], "token_bucket 10/s burst 20");
    assert_eq!(policies["policies"][0]["mode"], "shadow");
    // Its layer was built with this mode.
    assert_eq!(policies["policies"][0]["tried_out_since"], policies["policies"][0]["registered_since"]);
    let layers = limited.get("/v1/layers").await.json();
    assert_eq!(layers["layers"][0]["route"], "GET /search");
    assert_eq!(
        (&layers["layers"][1]["route"], &layers["layers"][1]["policies"][0]["mode"]),
        (&json!(null), &json!("shadow"))
    );
    drop(service);
    assert_eq!(limited.get("/v1/layers").await.json()["layers"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn unused_policies_are_shown_as_such() {
    let limited = Limited::new();
    let layer = |name| {
        let daily = Policy::fixed_window(name, Quota::per_day(9));
        RateLimitLayer::new(Arc::clone(&limited.registry), daily.by(ClientIp::peer()))
    };
    let _never_applied = layer("built");
    limited.registry.register(&Policy::fixed_window("kept", Quota::per_day(9))).unwrap();
    // Its requests have no address, so that none has a key.
    let orders = layer("orders").layer(service_fn(async |_: http::Request<String>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
    }));
    assert_eq!(orders.clone().oneshot(http::Request::new(String::new())).await.unwrap().status(), 500);
    let shown = async || {
        let policies = limited.get("/v1/policies").await.json()["policies"].take();
        let of = |policy: &Value| [&policy["name"], &policy["layers"], &policy["counted"]].map(Value::clone);
        policies.as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    let mut expected = [("built", 0, false), ("kept", 0, false), ("orders", 1, false), ("search", 1, false)];
    assert_eq!(json!(shown().await), json!(expected));
    limited.request(ADA).await;
    expected[3].2 = true;
    assert_eq!(json!(shown().await), json!(expected));
}

#[tokio::test]
async fn trial_start_is_shown() {
    let limited = Limited::new();
    let policy = async || limited.get("/v1/policies").await.json()["policies"][0].take();
    let enforced = policy().await;
    assert!(enforced["registered_since"].is_u64() && enforced["tried_out_since"].is_null(), "{enforced}");
    let mode = async |mode: &str| {
        let body = json!({ "policy": "search", "mode": mode });
        assert_eq!(limited.post("/v1/mode", &body).await.status, 200);
        policy().await
    };
    let shadow = mode("shadow").await;
    assert!(shadow["tried_out_since"].is_u64(), "{shadow}");
    assert_eq!(mode("shadow").await, shadow);
    assert_eq!(mode("enforce").await, enforced);
}

#[tokio::test]
async fn a_budget_is_looked_up_by_request_or_fingerprint() {
    // Times are compared below.
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    let limited = Limited::on(registry(store, secret()));
    limited.request(ADA).await;
    let by_request = limited.post("/v1/budget", &of(ADA)).await.json();
    assert_eq!((&by_request["limit"], &by_request["remaining"]), (&json!(3), &json!(2)));
    assert_eq!((&by_request["blocked"], &by_request["degraded"]), (&json!(false), &json!(false)));
    let identity = json!({ "fingerprint": by_request["fingerprint"] });
    let by_fingerprint =
        limited.post("/v1/budget", &json!({ "policy": "search", "identity": identity })).await.json();
    assert_eq!(
        (&by_fingerprint["fingerprint"], &by_fingerprint["remaining"]),
        (&by_request["fingerprint"], &json!(2))
    );
    // A look-up charges nothing.
    assert_eq!(limited.post("/v1/budget", &of(ADA)).await.json()["remaining"], 2);
}

#[tokio::test]
async fn an_ipv4_mapped_peer_is_the_same_caller() {
    let limited = Limited::new();
    let pages = Policy::gcra("pages", Quota::per_second(1));
    let layer = RateLimitLayer::new(Arc::clone(&limited.registry), pages.by(ClientIp::peer()));
    let _service = layer.layer(service_fn(async |_: http::Request<String>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
    }));
    let nobody = json!({ "policy": "pages", "identity": { "request": {} } });
    let answer = limited.post("/v1/budget", &nobody).await;
    assert_eq!(answer.problem(), (422, Some("identity.request.peer".to_owned())));
    assert!(!answer.json()["detail"].as_str().unwrap().contains("into_make_service"), "{:?}", answer.json());
    let fingerprint = async |peer: &str| {
        let identity = json!({ "request": { "peer": peer } });
        let budget = json!({ "policy": "pages", "identity": identity });
        limited.post("/v1/budget", &budget).await.json()["fingerprint"].clone()
    };
    let caller = fingerprint("203.0.113.9").await;
    assert!(caller.is_string(), "{caller}");
    assert_eq!(fingerprint("::ffff:203.0.113.9").await, caller);
    assert_ne!(fingerprint("203.0.113.8").await, caller);
}

#[tokio::test]
async fn mistakes_are_problems_that_name_the_field() {
    let limited = Limited::new();
    let cases = [
        ("/v1/budget", json!({}), 422, "policy"),
        ("/v1/budget", json!({ "policy": 7 }), 422, "policy"),
        ("/v1/budget", json!({ "policy": "serach" }), 404, "policy"),
        ("/v1/budget", json!({ "policy": "" }), 404, "policy"),
        ("/v1/budget", json!({ "policy": "search" }), 422, "identity"),
        ("/v1/budget", json!({ "policy": "search", "identity": {} }), 422, "identity"),
        ("/v1/budget", json!({ "policy": "search", "identity": { "user": "a" } }), 422, "identity"),
        ("/v1/budget", json!({ "policy": "search", "identity": ["0".repeat(32), null] }), 422, "identity"),
        (
            "/v1/budget",
            json!({ "policy": "search", "identity": { "request": ["GET", "/", {}, null, null] } }),
            422,
            "identity.request",
        ),
        (
            "/v1/budget",
            json!({ "policy": "search", "identity": { "fingerprint": "x" } }),
            422,
            "identity.fingerprint",
        ),
        ("/v1/budget", json!({ "policy": "search", "identity": { "request": {} } }), 422, "identity.request"),
        (
            "/v1/budget",
            json!({ "policy": "search", "identity": { "request": { "paht": "/" } } }),
            422,
            "identity.request",
        ),
        (
            "/v1/budget",
            json!({ "policy": "search", "identity": { "request": { "path": "x" } } }),
            422,
            "identity.request.path",
        ),
        (
            "/v1/budget",
            json!({ "policy": "search", "identity": { "request": { "method": "" } } }),
            422,
            "identity.request.method",
        ),
        (
            "/v1/budget",
            json!({ "policy": "search", "identity": { "request": { "peer": "x" } } }),
            422,
            "identity.request.peer",
        ),
        (
            "/v1/budget",
            json!({ "policy": "search", "identity": { "request": { "headers": { "a": 1 } } } }),
            422,
            "identity.request.headers",
        ),
        (
            "/v1/budget",
            json!({ "policy": "search", "identity": { "request": { "headers": { "a b": "" } } } }),
            422,
            "identity.request.headers",
        ),
        (
            "/v1/budget",
            json!({ "policy": "search", "identity": { "request": { "route": "GET /" } } }),
            422,
            "identity.request.route",
        ),
        ("/v1/grant", of("a"), 422, "quota"),
        ("/v1/grant", with(of("a"), &json!({ "quota": "many" })), 422, "quota"),
        ("/v1/grant", with(of("a"), &json!({ "quota": "5/w" })), 422, "duration_seconds"),
        ("/v1/grant", with(of("a"), &json!({ "quota": "5/s", "duration_seconds": 60 })), 422, "quota"),
        ("/v1/block", with(of("a"), &json!({ "duration_seconds": 0 })), 422, "duration_seconds"),
        ("/v1/block", with(of("a"), &json!({ "duration_seconds": 1.5 })), 422, "duration_seconds"),
        ("/v1/block", with(of("a"), &json!({ "duration_seconds": u64::MAX })), 422, "duration_seconds"),
        ("/v1/mode", json!({ "policy": "search", "mode": "on" }), 422, "mode"),
        ("/v1/mode", json!({ "policy": "search", "mode": "101 %" }), 422, "mode"),
        ("/v1/mode", json!({ "policy": "search", "mode": "0.55 %" }), 422, "mode"),
        // Clients choose the key, and would leave the share.
        ("/v1/mode", json!({ "policy": "search", "mode": "10 %" }), 422, "mode"),
    ];
    for (path, body, status, field) in cases {
        let answer = limited.post(path, &body).await;
        assert_eq!(answer.problem(), (status, Some(field.to_owned())), "{path} {body} {answer:?}");
    }
    let unknown = limited.post("/v1/budget", &json!({ "policy": "serach" })).await.json();
    assert_eq!(unknown["policies"], json!(["search"]));
    for body in ["", "[]", "{", "{} {}"] {
        let sent = request("POST", "/v1/budget")
            .header("content-type", "application/json")
            .body(body.into())
            .unwrap();
        assert_eq!(limited.send(sent).await.problem(), (400, None), "{body}");
    }
    let large = json!({ "policy": "x".repeat(16 * 1_024) });
    assert_eq!(limited.post("/v1/budget", &large).await.problem(), (413, None));
}

#[tokio::test]
async fn mistakes_name_what_is_expected() {
    let limited = Limited::new();
    let request = |request: Value| json!({ "policy": "search", "identity": { "request": request } });
    for (path, body, detail) in [
        ("/v1/budget", json!({}), "is missing"),
        ("/v1/budget", json!({ "policy": null }), "must be a string"),
        ("/v1/budget", json!({ "policy": "search", "identity": [] }), "must be an object"),
        (
            "/v1/budget",
            json!({ "policy": "search" }),
            "must have one of `fingerprint`, `request` and `parts`",
        ),
        (
            "/v1/budget",
            json!({ "policy": "search", ", expected ": 1 }),
            "has an unknown field, expected `policy` or `identity`",
        ),
        ("/v1/budget", request(json!({ "peer": ", expected " })), "is no address"),
        ("/v1/budget", request(json!({ "headers": ", expected " })), "must be a map"),
        ("/v1/budget", request(json!({ "headers": { "a": 1 } })), "must have a string as each value"),
        ("/v1/grant", with(of("a"), &json!({ "quota": 5 })), "must be a string"),
        (
            "/v1/grant",
            with(of("a"), &json!({ "quota": "5 expected " })),
            "must be a quota such as `100/min burst 20`",
        ),
        (
            "/v1/block",
            with(of("a"), &json!({ "duration_seconds": -1 })),
            "must be a whole number of seconds, 1 or more",
        ),
    ] {
        assert_eq!(limited.post(path, &body).await.json()["detail"], detail, "{path} {body}");
    }
}

#[tokio::test]
async fn other_routes_and_methods_are_problems() {
    let limited = Limited::new();
    for path in ["/v1/policy", "/v1/", "/v2", "/v1/budget/"] {
        assert_eq!(limited.get(path).await.problem(), (404, None), "{path}");
    }
    for (method, path, allowed) in [
        ("GET", "/v1/budget", "POST"),
        ("OPTIONS", "/v1/reset", "POST"),
        ("DELETE", "/v1/policies", "GET,HEAD"),
    ] {
        let answer = limited.send(request(method, path).body("".into()).unwrap()).await;
        assert_eq!(answer.problem(), (405, None), "{method} {path}");
        assert_eq!(answer.headers["allow"], allowed);
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
    let head = limited.send(request("HEAD", "/v1/policies").body("".into()).unwrap()).await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
}

#[tokio::test]
async fn no_answer_is_cached_or_sniffed() {
    let limited = Limited::new();
    for answer in [
        limited.get("/v1/policies").await,
        limited.get("/v1/x").await,
        limited.send(http::Request::default()).await,
    ] {
        assert_eq!(answer.headers["cache-control"], "no-store");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    }
}

#[tokio::test]
async fn the_router_can_be_nested() {
    let limited = Limited::new();
    let app: Router =
        Router::new().nest("/limits", limited.api.clone()).nest_service("/other", limited.api.clone());
    for prefix in ["/limits", "/other"] {
        let answer = async |path: String| Answer::of(app.clone().oneshot(get(&path)).await.unwrap()).await;
        assert_eq!(answer(format!("{prefix}/v1/policies")).await.status, 200);
        assert_eq!(answer(format!("{prefix}/v1/x")).await.problem(), (404, None));
    }
}

#[tokio::test]
async fn a_mode_is_set_in_all_layers() {
    let limited = Limited::new();
    let answer = limited.post("/v1/mode", &json!({ "policy": "search", "mode": "shadow" })).await;
    let reach = "this instance, until it restarts or its rules change the mode";
    let expected = json!({ "action": "mode", "policy": "search", "fingerprint": null, "reach": reach });
    assert_eq!(answer.json(), expected);
    assert_eq!(
        limited.registry.mode(portcullis_core::Policy::name(&crate::support::search())),
        Some(Mode::Shadow)
    );
    for _ in 0..5 {
        assert_eq!(limited.request(ADA).await, 200);
    }
    let snapshot = limited.get("/v1/snapshot").await.json();
    let policy = &snapshot["policies"][0];
    assert_eq!(
        (&policy["mode"], &policy["admitted"], &policy["would_reject"]),
        (&json!("shadow"), &json!(5), &json!(2))
    );
}

#[test]
fn all_texts_that_are_no_hosts_are_returned() {
    let mistakes = HostList::new(["https://admin.example.com", "admin.example.com", ""]).unwrap_err();
    assert!(mistakes.iter().map(HostError::host).eq(["https://admin.example.com", ""]));
}

#[test]
#[should_panic(expected = "\"https://admin.example.com\" is no host")]
fn literal_that_is_no_host_panics() {
    let _ = Admin::new(Limited::new().registry, authorize).hosts(["https://admin.example.com"]);
}
