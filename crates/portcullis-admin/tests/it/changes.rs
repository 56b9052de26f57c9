//! What changes do, and their audit events.

use serde_json::json;

use crate::privacy::Captured;
use crate::support::{ADA, Limited, of, with};

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
    assert!(captured.take_line("portcullis::audit").contains("outcome=\"failed\""));
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
