//! What changes do, and their audit events.

use std::sync::Arc;

use http::request::Parts;
use http::{Request, Response};
use portcullis_core::{Policy, Quota};
use portcullis_tower::{Header, InstalledPolicy, Mode, PolicyExt as _, QuotaLookup, RateLimitLayer};
use serde_json::json;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::privacy::Captured;
use crate::support::{ADA, Limited, of, search, with};

#[tokio::test]
async fn a_blocked_caller_is_rejected_until_it_is_unblocked() {
    let limited = Limited::new();
    let block = with(of(ADA), &json!({ "duration_seconds": 3_600 }));
    let answer = limited.post("/v1/block", &block).await;
    assert_eq!((answer.status, &answer.json()["policy"]), (200, &json!("search")));
    assert_eq!((limited.request(ADA).await.as_u16(), limited.request("another").await.as_u16()), (429, 200));
    assert_eq!(limited.post("/v1/budget", &of(ADA)).await.json()["blocked"], true);
    assert!(limited.post("/v1/overrides", &of(ADA)).await.json()["block"]["until"].is_u64());
    let snapshot = limited.get("/v1/snapshot").await.json();
    assert_eq!(snapshot["limited_now"][0]["locked_out"], true);
    assert_eq!(
        (&snapshot["recent"][0]["reason"], &snapshot["limited_now"][1]),
        (&json!("blocked"), &json!(null))
    );

    assert_eq!(limited.post("/v1/unblock", &of(ADA)).await.status, 200);
    assert_eq!(limited.get("/v1/snapshot").await.json()["limited_now"], json!([]));
    assert_eq!(limited.request(ADA).await, 200);
    assert_eq!(limited.post("/v1/overrides", &of(ADA)).await.json()["block"], json!(null));
}

#[tokio::test]
async fn block_without_effect_has_a_note() {
    let limited = Limited::new();
    let hour = json!({ "duration_seconds": 3_600 });
    let everywhere = json!({ "identity": of(ADA)["identity"], "everywhere": true });
    for (mode, status) in [(Mode::Enforce, 429), (Mode::Shadow, 200), (Mode::Off, 200)] {
        limited.registry.set_mode(search().name(), mode).unwrap();
        for (body, which) in [(of(ADA), "the policy is"), (everywhere.clone(), "all policies are")] {
            let answer = limited.post("/v1/block", &with(body, &hour)).await.json();
            let note = format!("rejects no request in this instance while {which} in shadow or off");
            assert_eq!(answer["note"], if status == 200 { json!(note) } else { json!(null) }, "{mode}");
            assert_eq!(limited.request(ADA).await.as_u16(), status, "{mode}");
        }
    }
}

#[tokio::test]
async fn a_grant_applies_until_it_is_revoked() {
    let limited = Limited::new();
    let grant = with(of(ADA), &json!({ "quota": "100/w", "duration_seconds": 3_600 }));
    assert_eq!(limited.post("/v1/grant", &grant).await.status, 200);
    for _ in 0..10 {
        assert_eq!(limited.request(ADA).await, 200);
    }
    let overrides = limited.post("/v1/overrides", &of(ADA)).await.json();
    assert_eq!((&overrides["grant"]["quota"], &overrides["block"]), (&json!("100/w"), &json!(null)));
    assert_eq!(limited.post("/v1/budget", &of(ADA)).await.json()["limit"], 100);
    assert_eq!(limited.post("/v1/revoke", &of(ADA)).await.status, 200);
    assert_eq!(limited.request(ADA).await, 429);
}

#[tokio::test]
async fn grants_of_zero_and_unlimited_are_shown() {
    let limited = Limited::new();
    let grant = |quota: &str| with(of(ADA), &json!({ "quota": quota, "duration_seconds": 3_600 }));
    for (quota, status, is_unlimited) in [("unlimited", 200, true), ("0/w", 429, false)] {
        assert_eq!(limited.post("/v1/grant", &grant(quota)).await.status, 200);
        for _ in 0..10 {
            assert_eq!(limited.request(ADA).await.as_u16(), status);
        }
        assert_eq!(limited.post("/v1/overrides", &of(ADA)).await.json()["grant"]["quota"], quota);
        let budget = limited.post("/v1/budget", &of(ADA)).await.json();
        assert_eq!((&budget["unlimited"], budget["limit"] == 0), (&json!(is_unlimited), !is_unlimited));
    }
    assert_eq!(limited.post("/v1/revoke", &of(ADA)).await.status, 200);
    assert_eq!(limited.post("/v1/budget", &of(ADA)).await.json()["remaining"], 3);
}

#[tokio::test]
async fn budget_has_the_quota_that_was_looked_up() {
    let limited = Limited::new();
    let (free, pro) = (Quota::per_week(3), Quota::per_week(1_000));
    let plans = Policy::fixed_window("plans", free).caller_quotas(free, pro).allow_overrides();
    let is_pro = |parts: &Parts| parts.headers["x-user"] == ADA;
    let look_up = QuotaLookup::new(move |parts: &Parts| std::future::ready(Ok(is_pro(parts).then_some(pro))));
    let layer = RateLimitLayer::new(
        Arc::clone(&limited.registry),
        plans.by(Header::named("x-user")).quota_by_async(look_up),
    );
    let service = layer.layer(service_fn(async |_: Request<String>| {
        Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    }));
    let budget = async |user: &str| {
        let body = with(of(user), &json!({ "policy": "plans" }));
        let answer = limited.post("/v1/budget", &body).await.json();
        (answer["limit"].as_u64(), answer["remaining"].as_u64(), answer["note"].is_string())
    };
    assert_eq!(budget(ADA).await, (Some(3), Some(3), true), "nothing was looked up so far");
    for user in [ADA, "another"] {
        for _ in 0..3 {
            let request = Request::builder().header("x-user", user).body(String::new()).unwrap();
            assert_eq!(service.clone().oneshot(request).await.unwrap().status(), 200);
        }
    }
    assert_eq!(budget(ADA).await, (Some(1_000), Some(997), false));
    assert_eq!(budget("another").await, (Some(3), Some(0), false), "it has the quota of the policy");
    assert_eq!(budget("unseen").await, (Some(3), Some(3), true));

    let grant = json!({ "policy": "plans", "quota": "50/w", "duration_seconds": 3_600 });
    limited.post("/v1/grant", &with(of("unseen"), &grant)).await;
    assert_eq!(budget("unseen").await, (Some(50), Some(50), false));
    // A policy without quotas of callers.
    assert!(limited.post("/v1/budget", &of(ADA)).await.json()["note"].is_null());
}

#[tokio::test]
async fn a_reset_makes_the_full_limit_available() {
    let limited = Limited::new();
    for _ in 0..4 {
        limited.request(ADA).await;
    }
    assert_eq!(limited.post("/v1/reset", &of(ADA)).await.status, 200);
    assert_eq!(limited.post("/v1/budget", &of(ADA)).await.json()["remaining"], 3);
    assert_eq!(limited.get("/v1/snapshot").await.json()["limited_now"], json!([]));
}

#[tokio::test]
async fn each_change_is_an_audit_event_with_its_actor() {
    let captured = Captured::start();
    let limited = Limited::new();
    let day = json!({ "duration_seconds": 86_400 });
    for (path, body) in [
        ("/v1/reset", of(ADA)),
        ("/v1/grant", with(with(of(ADA), &day), &json!({ "quota": "9/w" }))),
        ("/v1/revoke", of(ADA)),
        ("/v1/block", with(of(ADA), &day)),
        ("/v1/unblock", of(ADA)),
        ("/v1/mode", json!({ "policy": "search", "mode": "off" })),
    ] {
        assert_eq!(limited.post(path, &body).await.status, 200, "{path}");
        let action = path.trim_start_matches("/v1/");
        let line = captured.take_line("portcullis::audit");
        for part in ["actor=\"grace\"", &format!("action=\"{action}\""), "policy=search", "outcome=\"done\""]
        {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }
    // Nothing was changed by those.
    limited.post("/v1/budget", &of(ADA)).await;
    limited.post("/v1/reset", &json!({ "policy": "search" })).await;
    assert!(!captured.text().contains("portcullis::audit"));
    let too_long = with(of(ADA), &json!({ "duration_seconds": 1_u64 << 40 }));
    limited.post("/v1/block", &too_long).await;
    let line = captured.take_line("portcullis::audit");
    assert!(
        line.contains("a limit was not changed code=PC903 ") && line.contains("outcome=\"failed\""),
        "{line}"
    );
}

#[tokio::test]
async fn block_everywhere_is_one_audit_event() {
    let captured = Captured::start();
    let limited = Limited::new();
    let of_ada = |more: &serde_json::Value| {
        let identity = json!({ "request": { "headers": { "x-user": ADA } } });
        with(json!({ "identity": identity, "everywhere": true }), more)
    };
    let hour = json!({ "duration_seconds": 3_600 });
    let answer = limited.post("/v1/block", &of_ada(&hour)).await;
    assert_eq!((answer.status, &answer.json()["action"]), (200, &json!("block everywhere")));
    assert!(answer.json()["reach"].as_str().unwrap().starts_with("this instance"));
    let line = captured.take_line("portcullis::audit");
    for part in
        ["actor=\"grace\"", "action=\"block everywhere\"", "detail=\"for 3600 s\"", "outcome=\"done\""]
    {
        assert!(line.contains(part) && !line.contains(ADA), "{part} is not in {line}");
    }
    assert_eq!((limited.request(ADA).await.as_u16(), limited.request("grace").await.as_u16()), (429, 200));
    assert_eq!(limited.post("/v1/budget", &of(ADA)).await.json()["blocked"], true);
    let snapshot = limited.get("/v1/snapshot").await.json();
    assert_eq!(snapshot["blocked_everywhere"][0]["fingerprint"], answer.json()["fingerprint"]);
    assert_eq!(snapshot["recent"][0]["reason"], "blocked");

    assert_eq!(limited.post("/v1/unblock", &of_ada(&json!({}))).await.status, 200);
    assert!(captured.take_line("portcullis::audit").contains("action=\"unblock everywhere\""));
    assert_eq!(limited.request(ADA).await, 200);
    for (body, field) in [
        (with(of(ADA), &json!({ "everywhere": true, "duration_seconds": 60 })), "policy"),
        (json!({ "identity": {}, "duration_seconds": 60 }), "policy"),
        (json!({ "everywhere": true, "duration_seconds": 60 }), "identity"),
        (
            json!({ "everywhere": true, "identity": { "parts": { "route": "/" } }, "duration_seconds": 60 }),
            "identity",
        ),
        (of_ada(&json!({ "duration_seconds": 1_u64 << 40 })), "duration_seconds"),
    ] {
        assert_eq!(limited.post("/v1/block", &body).await.problem(), (422, Some(field.to_owned())), "{body}");
    }
}

#[tokio::test]
async fn quota_of_a_policy_is_set_alone() {
    let captured = Captured::start();
    let limited = Limited::new();
    let rules = |are_changed| {
        let policy = InstalledPolicy::new(search()).of_changed_rules(are_changed);
        limited.registry.install(&[policy], || {}).unwrap()
    };
    let _first = rules(false);
    assert_eq!(limited.request(ADA).await, 200);
    let answer = limited.post("/v1/quota", &json!({ "policy": "search", "quota": "2/w" })).await;
    let reach = "this instance, until it restarts or its rules change";
    let expected = json!({ "action": "quota", "policy": "search", "before": "fixed_window 3/w", "now": "fixed_window 2/w", "reach": reach });
    assert_eq!((answer.status, answer.json()), (200, expected));
    assert!(captured.text().contains("before=fixed_window 3/w now=fixed_window 2/w"), "{}", captured.text());
    let line = captured.take_line("portcullis::audit");
    for part in [
        "action=\"quota\"",
        "policy=search",
        "detail=\"fixed_window 3/w to fixed_window 2/w\"",
        "outcome=\"done\"",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    // The state stays, and so do overrides.
    assert_eq!((limited.request(ADA).await.as_u16(), limited.request(ADA).await.as_u16()), (200, 429));
    assert!(limited.registry.policy(search().name()).unwrap().reads_overrides());

    for (body, status, field) in [
        (json!({ "policy": "search", "quota": "2/d" }), 422, "quota"),
        (json!({ "policy": "search", "quota": "2/w burst 3" }), 422, "quota"),
        (json!({ "policy": "search", "quota": "0/w" }), 422, "quota"),
        (json!({ "policy": "search", "quota": "gcra 2/w" }), 422, "quota"),
        (json!({ "policy": "serach", "quota": "2/w" }), 404, "policy"),
    ] {
        let answer = limited.post("/v1/quota", &body).await;
        assert_eq!(answer.problem(), (status, Some(field.to_owned())), "{body}");
    }

    let _second = rules(false);
    assert_eq!(limited.request(ADA).await, 429);
    captured.take_all();
    let _third = rules(true);
    assert_eq!(limited.request(ADA).await, 200);
    let log = captured.text();
    assert!(log.contains("policy=search by_hand=fixed_window 2/w now=fixed_window 3/w"), "{log}");
}
