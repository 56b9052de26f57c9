//! A limiter during and after an outage of Redis.

use std::time::{Duration, Instant};

use portcullis::key::Key;
use portcullis::store::{Checks, Outcome};
use portcullis::{Decision, FailureMode, Limiter, Policy, Quota, StoreError};
use portcullis_servers::RedisServer;

const LOCAL: Policy =
    Policy::fixed_window("local", Quota::per_week(40)).on_store_failure(FailureMode::local(4));
const CLOSED: Policy =
    Policy::fixed_window("closed", Quota::per_week(40)).on_store_failure(FailureMode::Closed);
const OPEN_FOR: Policy = Policy::fixed_window("open for", Quota::per_week(40))
    .on_store_failure(FailureMode::OpenFor(Duration::from_secs(6)));

async fn check(limiter: &Limiter, policy: &Policy, key: Key, cost: u64) -> Result<Outcome, StoreError> {
    limiter.store().check(Checks::one(policy.clone(), key, cost)).await
}

/// Checks until the result satisfies `expected`. Panics after a minute.
async fn check_until(
    limiter: &Limiter,
    policy: &Policy,
    key: Key,
    expected: impl Fn(Result<Outcome, StoreError>) -> bool,
) {
    let start = Instant::now();
    while !expected(check(limiter, policy, key, 0).await) {
        assert!(start.elapsed() < Duration::from_secs(60), "not within a minute");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn each_failure_mode_applies_and_receipts_find_their_store() {
    let mut redis = RedisServer::start().unwrap();
    let limiter = Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).await.unwrap();
    let key = limiter.key(|key| key.part("user", b"ada")).unwrap();
    let first = check(&limiter, &LOCAL, key, 7).await.unwrap();
    assert_eq!((first.decision().is_degraded(), first.decision().remaining()), (false, 33));
    let shared = first.into_receipts().next().unwrap();

    redis.kill().unwrap();
    let open = check(&limiter, &OPEN_FOR, key, 1).await.unwrap();
    assert!(open.decision().is_degraded() && !open.decision().is_metered());
    let outcome = check(&limiter, &LOCAL, key, 4).await.unwrap();
    assert!(outcome.failure().is_some() && outcome.decision().is_degraded());
    assert_eq!((outcome.decision().limit(), outcome.decision().remaining()), (10, 6));
    let local = outcome.into_receipts().next().unwrap();
    assert!(!check(&limiter, &LOCAL, key, 7).await.unwrap().is_allowed());
    assert!(check(&limiter, &CLOSED, key, 1).await.is_err());
    check_until(&limiter, &OPEN_FOR, key, |answer| answer.is_err()).await;
    assert!(limiter.refund(shared).await.is_err());

    redis.restart().unwrap();
    check_until(&limiter, &OPEN_FOR, key, |answer| answer.is_ok_and(|outcome| outcome.failure().is_none()))
        .await;
    let back = check(&limiter, &LOCAL, key, 5).await.unwrap().into_decision();
    assert_eq!((back.is_degraded(), back.remaining()), (false, 35));
    // The restarted server is empty, so a refund there would be visible.
    let refunded: Decision = limiter.refund(local).await.unwrap();
    assert_eq!((refunded.is_degraded(), refunded.remaining()), (true, 10));
    assert_eq!(limiter.peek(&LOCAL, key).await.unwrap().remaining(), 35);
}

#[tokio::test]
async fn open_for_expires_on_a_full_redis_while_denials_go_on() {
    let redis = RedisServer::start().unwrap();
    let limiter = Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).await.unwrap();
    let [ada, grace] =
        ["ada", "grace"].map(|user| limiter.key(|key| key.part("user", user.as_bytes())).unwrap());
    // Long enough that a process which stops for a second still makes two checks before its end.
    let brief = Policy::fixed_window("brief", Quota::per_week(1))
        .on_store_failure(FailureMode::OpenFor(Duration::from_secs(3)));
    assert!(check(&limiter, &brief, ada, 1).await.unwrap().is_allowed());
    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let start = Instant::now();
    let mut passed = 0;
    while let Ok(outcome) = check(&limiter, &brief, grace, 1).await {
        assert!(outcome.decision().is_degraded());
        passed += 1;
        let denied = check(&limiter, &brief, ada, 1).await.unwrap();
        assert!(!denied.is_allowed() && !denied.decision().is_degraded());
        assert!(start.elapsed() < Duration::from_secs(60), "not within a minute");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(passed > 1, "{passed}");
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    let outcome = check(&limiter, &brief, grace, 1).await.unwrap();
    assert!(outcome.is_allowed() && outcome.failure().is_none());
}
