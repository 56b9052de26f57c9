//! Two services on one Redis server.

use std::time::Duration;

use portcullis::Limiter;
use portcullis_servers::RedisServer;
use tokio::task::JoinSet;

use super::*;
use crate::ChargeDeniedHits;

const LIMITS: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 50 }
  - key: all
    rate_limit: { unit: year, requests_per_unit: 70 }
";

pub(super) async fn limiter(redis: &RedisServer) -> Limiter {
    let limiter = Limiter::redis(redis.url()).deadline(Duration::from_secs(5));
    limiter.secret("2026", b"sixteen-bytes-ok").await.unwrap()
}

#[tokio::test]
async fn services_on_one_server_admit_one_budget_exactly() {
    let redis = RedisServer::start().unwrap();
    let mut services = Vec::new();
    for _ in 0..2 {
        services.push(RateLimitService::envoy(limiter(&redis).await, descriptors(LIMITS)));
    }
    let mut calls = JoinSet::new();
    for index in 0..160 {
        let service = services[index % 2].clone();
        // Of two users, who share a limit.
        let user = if index % 4 < 2 { "ada" } else { "bob" };
        calls.spawn(async move { outcome(&service, &call(&[&[("user", user)], &[("all", "x")]])).await.0 });
    }
    let admitted = calls.join_all().await.into_iter().filter(|admitted| *admitted).count();
    assert_eq!(admitted, 70);
    // A denied call has charged neither limit: what the users have left is what was not admitted.
    let mut left = 0;
    for user in ["ada", "bob"] {
        let asks = of([hits(&[("user", user)], 0)]);
        let [one, other] = [outcome(&services[0], &asks).await.1, outcome(&services[1], &asks).await.1];
        assert_eq!(one, other);
        left += one[0];
    }
    assert_eq!(left, 30);
    // The other instance may remember its denial for up to a second.
    assert!(outcome(&services[0], &of([refund(&[("all", "x")], 1)])).await.0);
    assert!(outcome(&services[0], &call(&[&[("all", "x")]])).await.0);
    assert!(!outcome(&services[1], &call(&[&[("all", "x")]])).await.0);
}

/// The second denial is remembered.
#[tokio::test]
async fn remembered_denial_shows_all_limits() {
    const BOTH: &str = "
domain: shop
descriptors:
  - key: a
    rate_limit: { unit: year, requests_per_unit: 20 }
  - key: b
    rate_limit: { unit: year, requests_per_unit: 1 }
  - key: c
    rate_limit: { unit: year, requests_per_unit: 3 }
";
    let redis = RedisServer::start().unwrap();
    for limiter in [Limiter::memory(), limiter(&redis).await] {
        let service =
            RateLimitService::envoy(limiter, descriptors(BOTH)).charge_denied_hits(ChargeDeniedHits::Reports);
        let both = [descriptor(&[("a", "x")]), descriptor(&[("b", "x")])];
        assert_eq!(outcome(&service, &of(both.clone())).await, (true, vec![19, 0]));
        for _ in 0..3 {
            let denied = decide(&service, &of(both.clone())).await;
            assert_eq!(codes(&denied), [Code::Ok, Code::OverLimit]);
            assert_eq!(
                denied.statuses.iter().map(|status| status.limit_remaining).collect::<Vec<_>>(),
                [19, 0]
            );
            for (status, name) in denied.statuses.iter().zip([20, 1]) {
                assert_eq!(status.current_limit.as_ref().map(|limit| limit.requests_per_unit), Some(name));
                assert!(status.duration_until_reset.is_some());
            }
        }
        // What is left out and too little for the hits is over, and used up like the limit whose denial is remembered.
        let call = of([descriptor(&[("b", "x")]), hits(&[("c", "x")], 4)]);
        for left in [3, 0] {
            let denied = decide(&service, &call).await;
            assert_eq!(codes(&denied), [Code::OverLimit; 2]);
            assert_eq!(denied.statuses[1].limit_remaining, left);
        }
    }
}
