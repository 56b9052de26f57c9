//! The recipe for failed log-ins in rules, with its file.

use std::net::SocketAddr;
use std::path::Path;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, Response};
use portcullis::rules::{Door, Loader, Rules};
use portcullis::testing::{self, ManualClock};
use tower::ServiceExt as _;

/// The statuses of log-ins from an address, for a part of the query, which the service answers with a status.
async fn log_in(app: &Router, address: u8, query: &str, answer: u16, times: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..times {
        let request = Request::post(format!("/login{query}"))
            .header("x-answer", answer.to_string())
            .extension(SocketAddr::from(([192, 0, 2, address], 1024)))
            .body(Body::from("email=ada@example.com&password=guess"));
        statuses.push(app.clone().oneshot(request.unwrap()).await.unwrap().status().as_u16());
    }
    statuses
}

#[tokio::test]
async fn failed_log_ins_are_limited_by_address_and_account() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/rules/log-ins.toml");
    let rules = Rules::load(&Loader::file(path).for_door(Door::Proxy)).unwrap();
    assert!(!rules.warnings().has_warnings(), "{}", rules.warnings());
    let limiter = testing::limiter(&ManualClock::default()).with_rules(rules).unwrap();
    let service = Router::new().fallback(async |headers: HeaderMap| {
        let status: u16 = headers["x-answer"].to_str().unwrap().parse().unwrap();
        Response::builder().status(status).body(Body::empty()).unwrap()
    });
    let app = service.layer(limiter.rules().unwrap().layer());

    let ada = "?email=ada%40example.com";
    assert_eq!(log_in(&app, 1, ada, 200, 9).await, [200; 9]);
    assert_eq!(log_in(&app, 1, ada, 401, 4).await, [401; 4]);
    assert_eq!(log_in(&app, 1, ada, 403, 1).await, [403]);
    // The account is closed for this address, also for the right password, and for no other.
    assert_eq!(log_in(&app, 1, ada, 200, 1).await, [429]);
    assert_eq!(log_in(&app, 2, ada, 200, 1).await, [200]);
    assert_eq!(log_in(&app, 1, "?email=grace%40example.com", 200, 1).await, [200]);
    // Each spelling is an account of its own, and the body is none.
    assert_eq!(log_in(&app, 3, "?email=ADA%40example.com", 401, 1).await, [401]);
    assert_eq!(log_in(&app, 4, "", 401, 20).await, [401; 20]);
    assert_eq!(log_in(&app, 4, "?email=grace%40example.com", 401, 1).await, [429]);
}
