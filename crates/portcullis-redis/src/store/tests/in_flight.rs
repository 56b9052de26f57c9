//! Limits on requests in flight, on the server's own clock.

use std::time::{Duration, Instant};

use portcullis_core::store::{Checks, Outcome, Store as _};
use portcullis_core::{Concurrency, Decision, Policy, Quota, Receipt, Retry, StoreErrorKind};
use portcullis_servers::{Fault, FaultProxy, RedisCluster};

use super::cross_slot::{keys_in_three_slots, remaining};
use super::{BURST, RedisStore, Server, check, in_flight, key, name, open, open_url, receipt};
use crate::protocol::keys::slot;

async fn take(store: &RedisStore, policy: &Policy) -> Option<Receipt> {
    check(store, policy, 1).await.into_receipts().next()
}

/// Asks until a permit is granted.
async fn take_at_last(store: &RedisStore, policy: &Policy) -> Outcome {
    let started = Instant::now();
    loop {
        match store.check(Checks::one(policy.clone(), key(&["ada"]), 1)).await {
            Ok(outcome) if outcome.is_allowed() => return outcome,
            other => assert!(started.elapsed() < Duration::from_secs(20), "no permit: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn permits_are_shared_by_processes_and_taken_once() {
    let server = Server::start(&[]);
    let (one, other) = (open(&server).await, open(&server).await);
    let exports = in_flight("exports", 2);
    let first = take(&one, &exports).await.unwrap();
    let _second = take(&other, &exports).await.unwrap();
    let denied = check(&one, &exports, 1).await;
    assert_eq!((denied.is_allowed(), denied.decision().retry()), (false, Some(Retry::Unknown)));
    // The denial is not remembered, and a release by any process makes room at once.
    assert_eq!(other.refund(first).await.unwrap().remaining(), 1);
    assert!(take(&one, &exports).await.is_some());
}

#[tokio::test]
async fn permits_of_a_lost_process_come_back_after_their_lease() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let lease = Duration::from_secs(1);
    let exports = Concurrency::new("exports", 2).lease(lease).policy();
    let lost = {
        let process = open(&server).await;
        receipt(&process, &exports, 2).await
    };
    let outcome = take_at_last(&store, &exports).await;
    assert!(outcome.decision().at() >= lost.at().saturating_add(lease), "{outcome:?}");
}

#[tokio::test]
async fn released_key_is_kept_until_leases_end() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let exports = in_flight("exports", 2);
    let first = receipt(&store, &exports, 2).await;
    assert_eq!(store.refund(first.copy_for_retry()).await.unwrap().remaining(), 2);
    assert_eq!(server.cli(&["STRLEN", &name(&exports)]).trim(), "24");
    let left: u64 = server.cli(&["PTTL", &name(&exports)]).trim().parse().unwrap();
    assert!((1..=1_800_002).contains(&left), "{left}");
    // So that the numbers of its permits do not begin anew.
    let _second = receipt(&store, &exports, 2).await;
    assert_eq!(store.refund(first).await.unwrap().remaining(), 0);
}

#[tokio::test]
async fn unknown_release_is_repeated_harmlessly() {
    let server = Server::start(&[]);
    let proxy = FaultProxy::start(server.port).unwrap();
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let store = open_url(url).await;
    let exports = in_flight("exports", 2);
    let first = take(&store, &exports).await.unwrap();
    let _second = take(&store, &exports).await.unwrap();
    let again = first.copy_for_retry();
    proxy.set_fault(Fault::CutReply);
    let error = store.refund(first).await.unwrap_err();
    assert!(error.kind().is_fate_unknown(), "{error}");
    proxy.set_fault(Fault::None);
    // It was made. The permit has another holder when it is repeated.
    assert!(take_at_last(&store, &exports).await.is_allowed());
    assert_eq!(store.refund(again).await.unwrap().remaining(), 0);
    assert!(take(&store, &exports).await.is_none());
}

#[tokio::test]
async fn permits_and_units_of_one_slot_are_charged_together() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let exports = in_flight("exports", 2);
    let both = |permits, units| {
        let checks = Checks::one(exports.clone(), key(&["ada"]), permits);
        store.check(checks.and(BURST, key(&["ada"]), units).unwrap())
    };
    let denied = both(3, 1).await.unwrap();
    assert_eq!((denied.is_allowed(), denied.decision().retry()), (false, Some(Retry::Never)));
    assert_eq!(check(&store, &BURST, 0).await.decision().remaining(), 5);
    assert!(!both(2, 6).await.unwrap().is_allowed());
    assert_eq!(check(&store, &exports, 0).await.decision().remaining(), 2);
    assert!(both(2, 5).await.unwrap().is_allowed());
    assert!(!both(1, 0).await.unwrap().is_allowed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_of_another_slot_are_taken_after_all_rates_admit() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = super::cross_slot::open(&cluster).await;
    let [ada, grace, barbara] = keys_in_three_slots();
    let (exports, door) = (in_flight("exports", 2), Policy::fixed_window("door", Quota::per_week(1)));
    let stored = || {
        let node = &cluster.nodes()[cluster.primary_of(slot(ada)).unwrap()];
        node.cli(&["EXISTS", &name(&exports)]).unwrap() == "1"
    };
    let both = Checks::one(exports.clone(), ada, 1).and(door.clone(), grace, 1).unwrap();
    assert!(store.check(Checks::one(door.clone(), grace, 1)).await.unwrap().is_allowed());
    let denied = store.check(both.clone()).await.unwrap();
    assert_eq!((denied.is_allowed(), denied.decision().policy().as_str()), (false, "door"));
    assert!(!denied.decisions()[0].is_metered() && !stored(), "{denied:?}");

    store.reset(&door, grace).await.unwrap();
    let allowed = store.check(both).await.unwrap();
    assert!(allowed.is_allowed() && allowed.decisions().iter().all(Decision::is_metered));
    assert_eq!(remaining(&store, &exports, ada).await, 1);
    for receipt in allowed.into_receipts() {
        let _ = store.refund(receipt).await.unwrap();
    }

    // If one of two limits on requests in flight denies, the one that admits releases what it has taken, and so does a rate.
    let full = store.check(Checks::one(exports.clone(), barbara, 2)).await.unwrap();
    let all = Checks::one(exports.clone(), ada, 2).and(exports.clone(), barbara, 1).unwrap();
    let denied = store.check(all.and(door.clone(), grace, 1).unwrap()).await.unwrap();
    assert!(!denied.is_allowed() && full.is_allowed());
    assert_eq!(remaining(&store, &exports, ada).await, 2);
    assert_eq!(remaining(&store, &door, grace).await, 1);
}

#[tokio::test]
async fn release_without_a_server_is_an_error() {
    let mut server = Server::start(&[]);
    let store = open(&server).await;
    let exports = in_flight("exports", 2);
    let first = take(&store, &exports).await.unwrap();
    server.kill();
    let error = store.refund(first).await.unwrap_err();
    assert!(matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::TimedOut), "{error}");
}
