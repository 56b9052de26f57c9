//! Decisions over several slots of a cluster of which one has failed, with a standby.

use std::time::Duration;

use portcullis_core::store::{Checks, Outcome, Store as _};
use portcullis_core::{Decision, FailureMode, Key, Policy, Quota, StoreErrorKind};
use portcullis_memory::Fallback;
use portcullis_servers::{RedisCluster, RedisServer, ServerSetup};

use super::RedisStore;
use super::cross_slot::{keys_in_three_slots, open, remaining};
use crate::connection::tests::waiting::until;
use crate::protocol::keys::slot;
use crate::transport::Transport as _;

/// In a slot of a running node.
const HEALTHY: Policy = Policy::fixed_window("healthy", Quota::per_week(9));
/// In a slot of the stopped node.
const LOST: Policy = Policy::fixed_window("lost", Quota::per_week(2));

/// Grace's node is stopped, and Ada's is running.
struct Fixture {
    cluster: RedisCluster,
    store: RedisStore,
    fallback: Fallback<RedisStore>,
    ada: Key,
    grace: Key,
}

impl Fixture {
    async fn new() -> Self {
        let setup = ServerSetup::new().arguments(&["--cluster-require-full-coverage", "no"]);
        let mut cluster = setup.cluster(3, 0).unwrap();
        let store = open(&cluster).await;
        let [ada, grace, _] = keys_in_three_slots();
        let dead = cluster.primary_of(slot(grace)).unwrap();
        assert_ne!(cluster.primary_of(slot(ada)).unwrap(), dead);
        cluster.kill(dead).unwrap();
        Self { cluster, fallback: Fallback::new(store.clone()), store, ada, grace }
    }

    fn of_ada(&self) -> &RedisServer {
        &self.cluster.nodes()[self.cluster.primary_of(slot(self.ada)).unwrap()]
    }

    fn both(&self, lost: &Policy) -> Checks {
        Checks::one(lost.clone(), self.grace, 1).and(HEALTHY, self.ada, 1).unwrap()
    }

    async fn left_at_healthy(&self) -> u64 {
        remaining(&self.store, &HEALTHY, self.ada).await
    }

    async fn left_locally(&self) -> u64 {
        let peek = Checks::one(LOST, self.grace, 0);
        self.fallback.check(peek).await.unwrap().decision().remaining()
    }
}

fn figures(outcome: &Outcome) -> Vec<(bool, bool, u64)> {
    let of = |decision: &Decision| (decision.is_allowed(), decision.is_degraded(), decision.remaining());
    outcome.decisions().iter().map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_slot_is_decided_locally_and_all_or_none_are_charged() {
    let fixture = Fixture::new().await;
    let mut receipts = Vec::new();
    for used in [1, 2] {
        let outcome = fixture.fallback.check(fixture.both(&LOST)).await.unwrap();
        assert_eq!(figures(&outcome), [(true, true, 2 - used), (true, false, 9 - used)]);
        assert_eq!((outcome.decision().policy().as_str(), outcome.failure().is_some()), ("lost", true));
        receipts.extend(outcome.into_receipts());
    }
    // The local part denies: the charge of the other slot is refunded.
    for _ in 0..5 {
        let outcome = fixture.fallback.check(fixture.both(&LOST)).await.unwrap();
        assert_eq!((outcome.is_allowed(), outcome.decision().policy().as_str()), (false, "lost"));
        assert!(outcome.decision().is_degraded());
        assert_eq!(fixture.left_at_healthy().await, 7);
    }
    // Each receipt is refunded where it was charged.
    let charged: Vec<_> = receipts.iter().map(|receipt| receipt.fallback_id().is_some()).collect();
    assert_eq!(charged, [true, false, true, false]);
    for receipt in receipts {
        let after = fixture.fallback.refund(receipt).await.unwrap();
        assert_eq!(after.is_degraded(), *after.policy() == *LOST.name());
    }
    assert_eq!((fixture.left_locally().await, fixture.left_at_healthy().await), (2, 9));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_of_a_server_stands_and_charges_nothing_locally() {
    let fixture = Fixture::new().await;
    let all = Checks::one(HEALTHY, fixture.ada, 9);
    assert!(fixture.fallback.check(all).await.unwrap().is_allowed());
    for mode in [FailureMode::default(), FailureMode::Open, FailureMode::Closed] {
        let outcome = fixture.fallback.check(fixture.both(&LOST.on_store_failure(mode))).await.unwrap();
        assert_eq!(
            (outcome.is_allowed(), outcome.decision().policy().as_str()),
            (false, "healthy"),
            "{mode}"
        );
        assert!(!outcome.decision().is_degraded());
    }
    assert_eq!(fixture.left_locally().await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mode_decides_for_its_own_slot_alone() {
    let fixture = Fixture::new().await;
    let long = FailureMode::OpenFor(Duration::from_hours(1));
    let short = FailureMode::OpenFor(Duration::from_millis(1));
    for (mode, passes) in [
        (FailureMode::local(1), true),
        (FailureMode::local(2), true),
        (FailureMode::Open, true),
        (long, true),
        (short, false),
        (FailureMode::Closed, false),
    ] {
        fixture.fallback.reset(&HEALTHY, fixture.ada).await.unwrap();
        drop(fixture.fallback.reset(&LOST, fixture.grace).await);
        // The mode of `HEALTHY` applies to its own slot, which answers.
        let healthy = HEALTHY.on_store_failure(FailureMode::Closed);
        let both =
            Checks::one(LOST.on_store_failure(mode), fixture.grace, 1).and(healthy, fixture.ada, 1).unwrap();
        let answer = fixture.fallback.check(both).await;
        match answer {
            Ok(outcome) => assert!(passes && outcome.is_allowed(), "{mode}"),
            Err(error) => assert_eq!((passes, error.kind()), (false, StoreErrorKind::Unavailable), "{mode}"),
        }
        assert_eq!(fixture.left_at_healthy().await, if passes { 8 } else { 9 }, "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_check_is_charged_neither_locally_nor_at_a_slot() {
    let fixture = Fixture::new().await;
    assert!(fixture.fallback.check(fixture.both(&LOST)).await.unwrap().is_allowed());
    let before = fixture.of_ada().calls("evalsha").unwrap();
    assert_eq!(fixture.of_ada().cli(&["CLIENT", "PAUSE", "60000", "WRITE"]).unwrap(), "OK");
    let check = tokio::spawn(fixture.fallback.check(fixture.both(&LOST)));
    // The charge has arrived, and its reply has not been sent.
    until(|| fixture.of_ada().cli(&["INFO", "clients"]).unwrap().contains("blocked_clients:1")).await;
    check.abort();
    assert!(check.await.unwrap_err().is_cancelled());
    assert_eq!(fixture.of_ada().cli(&["CLIENT", "UNPAUSE"]).unwrap(), "OK");
    // The charge, and its refund.
    until(|| fixture.of_ada().calls("evalsha").unwrap() >= before + 2).await;
    assert_eq!((fixture.left_at_healthy().await, fixture.left_locally().await), (8, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_denied_locally_holds_nothing_at_other_slots() {
    let fixture = Fixture::new().await;
    for _ in 0..3 {
        let _ = fixture.fallback.check(fixture.both(&LOST)).await.unwrap();
    }
    let before = fixture.of_ada().calls("evalsha").unwrap();
    for _ in 0..50 {
        let outcome = fixture.fallback.check(fixture.both(&LOST)).await.unwrap();
        assert_eq!((outcome.is_allowed(), outcome.decision().policy().as_str()), (false, "lost"));
    }
    assert_eq!(fixture.of_ada().calls("evalsha").unwrap(), before);
    // A charge that is made locally first is refunded if another slot denies.
    let all = Checks::one(HEALTHY, fixture.ada, 7);
    assert!(fixture.fallback.check(all).await.unwrap().is_allowed());
    let other = Policy::fixed_window("other", Quota::per_week(5));
    let outcome = fixture.fallback.check(fixture.both(&other)).await.unwrap();
    assert_eq!((outcome.is_allowed(), outcome.decision().policy().as_str()), (false, "healthy"));
    assert_eq!(outcome.decisions()[0].remaining(), 5);
    let peek = Checks::one(other, fixture.grace, 0);
    assert_eq!(fixture.fallback.check(peek).await.unwrap().decision().remaining(), 5);
}

/// The denial is held beyond the second in which every check is answered by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_denial_takes_no_units_elsewhere() {
    let setup = ServerSetup::new().arguments(&["--cluster-require-full-coverage", "no"]);
    let mut cluster = setup.cluster(3, 0).unwrap();
    let store = open(&cluster).await;
    let [ada, grace, _] = keys_in_three_slots();
    let [healthy, dead] = [ada, grace].map(|key| cluster.primary_of(slot(key)).unwrap());
    let lost = Checks::one(LOST, grace, 1);
    for is_allowed in [true, true, false] {
        assert_eq!(store.check(lost.clone()).await.unwrap().is_allowed(), is_allowed);
    }
    let both = lost.clone().and(HEALTHY, ada, 1).unwrap();
    // In a breaker that is open a probe may be due, and without a connection none is.
    cluster.kill(dead).unwrap();
    until(|| {
        let rejects = store.0.connection.availability(Some(slot(grace))).rejects();
        rejects && !store.0.denials.denies(&lost)
    })
    .await;
    let calls = || cluster.nodes()[healthy].calls("evalsha").unwrap();
    let before = calls();
    for _ in 0..20 {
        let outcome = Fallback::new(store.clone()).check(both.clone()).await.unwrap();
        assert!(outcome.is_remembered() && !outcome.is_allowed());
    }
    assert_eq!(calls(), before);
    assert!(store.0.recently_denied.contains(grace));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_healthy_slot_decides_while_it_is_asked_for_a_lease() {
    let fixture = Fixture::new().await;
    let [lost, healthy] =
        ["lost", "healthy"].map(|name| Policy::fixed_window(name, Quota::per_week(100_000)));
    let healthy = healthy.lease(100);
    let before = fixture.of_ada().calls("evalsha").unwrap();
    for _ in 0..500 {
        let both = Checks::one(lost.clone(), fixture.grace, 1).and(healthy.clone(), fixture.ada, 1).unwrap();
        let outcome = fixture.fallback.check(both).await.unwrap();
        let degraded: Vec<_> = outcome.decisions().iter().map(Decision::is_degraded).collect();
        assert_eq!((outcome.is_allowed(), degraded), (true, vec![true, false]));
    }
    let calls = fixture.of_ada().calls("evalsha").unwrap() - before;
    println!("{calls} calls for 500 decisions");
    assert!(calls < 500, "nothing is leased");
}
