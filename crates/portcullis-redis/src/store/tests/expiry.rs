//! Keys expire with their states.

use std::time::{Duration, Instant, SystemTime};

use portcullis_core::store::Store as _;
use portcullis_core::{Policy, Quota, Timestamp, WindowTable};

use super::{BURST, MONTHLY, RedisStore, Server, check, name, open, policies, policies_and_permits, receipt};

#[tokio::test]
async fn every_key_expires_within_two_milliseconds_after_its_state() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    for policy in policies_and_permits(Quota::per_week(500)).into_iter().chain([BURST, MONTHLY]) {
        // A log of 300 stamps is charged in place.
        for cost in [3, 297.min(policy.strategy().limit() - 3), 1] {
            let started = Instant::now();
            let _ = check(&store, &policy, cost).await;
            expires_with_its_state(&server, &store, &policy, started).await;
        }
    }
}

#[tokio::test]
async fn a_corrected_state_expires_like_a_charged_one() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    for policy in policies(Quota::per_week(500)).into_iter().chain([BURST, MONTHLY]) {
        let _ = check(&store, &policy, policy.strategy().limit() / 5).await;
        for instead in [0, 1, 3] {
            let charged = receipt(&store, &policy, 2).await;
            let started = Instant::now();
            store.settle(charged, instead).await.unwrap();
            expires_with_its_state(&server, &store, &policy, started).await;
        }
    }
}

/// Compares the expiries. A server whose clock advances during a script measures the expiry from the write, at most the time
/// since `started` later.
async fn expires_with_its_state(server: &Server, store: &RedisStore, policy: &Policy, started: Instant) {
    let late = u64::try_from(started.elapsed().as_micros()).unwrap();
    let expires: u64 = server.cli(&["PEXPIRETIME", &name(policy)]).trim().parse().unwrap();
    let peek = check(store, policy, 0).await;
    let left = expires.saturating_mul(1_000).saturating_sub(peek.decision().at().as_micros());
    let needed = u64::try_from(peek.decision().reset_after().as_micros()).unwrap();
    assert!((needed..=needed + 2_000 + late).contains(&left), "{}: {left} {needed}", policy.name());
}

#[tokio::test]
async fn a_key_is_gone_when_its_state_ends_on_the_server_clock() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let all = policies(Quota::new(70, Duration::from_millis(300), None).unwrap()).into_iter();
    let soon = all.filter(|policy| policy.strategy().window() < Duration::from_mins(1));
    for policy in soon.chain([Policy::calendar_window("calendar", 70, short_windows())]) {
        // Units that are replenished between the two checks are charged as well.
        let _ = check(&store, &policy, 70).await;
        let _ = check(&store, &policy, 1).await;
        let peek = check(&store, &policy, 0).await;
        let wait = peek.decision().reset_after();
        assert!(wait <= Duration::from_millis(600) || peek.decision().remaining() == 0, "{wait:?}");
        tokio::time::sleep(wait + Duration::from_millis(5)).await;
        assert_eq!(server.cli(&["EXISTS", &name(&policy)]).trim(), "0", "{}", policy.name());
        assert!(check(&store, &policy, 70).await.is_allowed(), "{}", policy.name());
    }
}

/// Windows of 300 milliseconds for two minutes from now.
fn short_windows() -> &'static WindowTable {
    let now = Timestamp::from(SystemTime::now());
    let starts: Vec<_> =
        (0..400).map(|number| now.saturating_add(Duration::from_millis(300) * number)).collect();
    Box::leak(Box::new(WindowTable::new("short windows", 1, starts.leak()).unwrap()))
}

#[tokio::test]
async fn a_removed_expiry_is_set_again_by_the_next_charge() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    for policy in policies_and_permits(Quota::per_week(500)) {
        for cost in [3, 100, 1] {
            let _ = check(&store, &policy, cost).await;
            server.cli(&["PERSIST", &name(&policy)]);
            let _ = check(&store, &policy, 1).await;
            assert_ne!(server.cli(&["PTTL", &name(&policy)]).trim(), "-1", "{}", policy.name());
        }
    }
}
