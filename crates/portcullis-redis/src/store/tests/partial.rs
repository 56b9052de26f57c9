//! Decisions over several slots of a cluster, one of which has failed, with a standby behind the store.

use std::time::{Duration, Instant};

use portcullis_core::{
    Checks, Decision, FailureMode, Key, Outcome, Policy, Quota, Store as _, StoreErrorKind,
};
use portcullis_memory::Fallback;
use portcullis_testing::{RedisCluster, RedisServer, ServerSetup};

use super::RedisStore;
use super::cross_slot::{apart, open, remaining};
use crate::keys::slot;

const DOOR: Policy = Policy::fixed_window("door", Quota::per_week(9));
/// In a slot whose node is gone.
const LOST: Policy = Policy::fixed_window("lost", Quota::per_week(2));

/// Grace's node is gone, and Ada's answers.
struct Scene {
    cluster: RedisCluster,
    store: RedisStore,
    behind: Fallback<RedisStore>,
    ada: Key,
    grace: Key,
}

impl Scene {
    async fn new() -> Self {
        let setup = ServerSetup::new().arguments(&["--cluster-require-full-coverage", "no"]);
        let mut cluster = setup.cluster(3, 0).unwrap();
        let store = open(&cluster).await;
        let [ada, grace, _] = apart();
        let dead = cluster.primary_of(slot(grace)).unwrap();
        assert_ne!(cluster.primary_of(slot(ada)).unwrap(), dead);
        cluster.kill(dead).unwrap();
        Self { cluster, behind: Fallback::new(store.clone()), store, ada, grace }
    }

    fn of_ada(&self) -> &RedisServer {
        &self.cluster.nodes()[self.cluster.primary_of(slot(self.ada)).unwrap()]
    }

    fn both(&self, lost: &Policy) -> Checks {
        Checks::one(lost.clone(), self.grace, 1).and(DOOR, self.ada, 1).unwrap()
    }

    async fn left_at_the_door(&self) -> u32 {
        remaining(&self.store, &DOOR, self.ada).await
    }

    async fn left_locally(&self) -> u32 {
        let peek = Checks::one(LOST, self.grace, 0);
        self.behind.check(peek).await.unwrap().decision().remaining()
    }
}

fn figures(outcome: &Outcome) -> Vec<(bool, bool, u32)> {
    let of = |decision: &Decision| (decision.is_allowed(), decision.is_degraded(), decision.remaining());
    outcome.decisions().iter().map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_slot_is_decided_locally_and_all_or_none_are_charged() {
    let scene = Scene::new().await;
    let mut receipts = Vec::new();
    for used in [1, 2] {
        let outcome = scene.behind.check(scene.both(&LOST)).await.unwrap();
        assert_eq!(figures(&outcome), [(true, true, 2 - used), (true, false, 9 - used)]);
        assert_eq!((outcome.decision().policy().as_str(), outcome.failure().is_some()), ("lost", true));
        receipts.extend(outcome.into_receipts());
    }
    // The local part denies: what the other slot has charged is given back.
    for _ in 0..5 {
        let outcome = scene.behind.check(scene.both(&LOST)).await.unwrap();
        assert_eq!((outcome.is_allowed(), outcome.decision().policy().as_str()), (false, "lost"));
        assert!(outcome.decision().is_degraded());
        assert_eq!(scene.left_at_the_door().await, 7);
    }
    // Each receipt goes back to where it was charged.
    let charged: Vec<_> = receipts.iter().map(|receipt| receipt.stand_in().is_some()).collect();
    assert_eq!(charged, [true, false, true, false]);
    for receipt in receipts {
        let after = scene.behind.refund(receipt).await.unwrap();
        assert_eq!(after.is_degraded(), *after.policy() == *LOST.name());
    }
    assert_eq!((scene.left_locally().await, scene.left_at_the_door().await), (2, 9));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_of_a_server_stands_and_charges_nothing_locally() {
    let scene = Scene::new().await;
    let all = Checks::one(DOOR, scene.ada, 9);
    assert!(scene.behind.check(all).await.unwrap().is_allowed());
    for mode in [FailureMode::default(), FailureMode::Open, FailureMode::Closed] {
        let outcome = scene.behind.check(scene.both(&LOST.on_store_failure(mode))).await.unwrap();
        assert_eq!((outcome.is_allowed(), outcome.decision().policy().as_str()), (false, "door"), "{mode}");
        assert!(!outcome.decision().is_degraded());
    }
    assert_eq!(scene.left_locally().await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mode_decides_for_its_own_slot_alone() {
    let scene = Scene::new().await;
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
        scene.behind.reset(&DOOR, scene.ada).await.unwrap();
        drop(scene.behind.reset(&LOST, scene.grace).await);
        // The door's own mode applies to its own slot, which answers.
        let door = DOOR.on_store_failure(FailureMode::Closed);
        let both = Checks::one(LOST.on_store_failure(mode), scene.grace, 1).and(door, scene.ada, 1).unwrap();
        let answer = scene.behind.check(both).await;
        match answer {
            Ok(outcome) => assert!(passes && outcome.is_allowed(), "{mode}"),
            Err(error) => assert_eq!((passes, error.kind()), (false, StoreErrorKind::Unavailable), "{mode}"),
        }
        assert_eq!(scene.left_at_the_door().await, if passes { 8 } else { 9 }, "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_goes_away_is_charged_neither_locally_nor_at_a_slot() {
    let scene = Scene::new().await;
    assert!(scene.behind.check(scene.both(&LOST)).await.unwrap().is_allowed());
    let before = scene.of_ada().calls("evalsha").unwrap();
    assert_eq!(scene.of_ada().cli(&["CLIENT", "PAUSE", "1000", "WRITE"]).unwrap(), "OK");
    let check = tokio::spawn(scene.behind.check(scene.both(&LOST)));
    tokio::time::sleep(Duration::from_millis(100)).await;
    check.abort();
    assert!(check.await.unwrap_err().is_cancelled());
    assert_eq!(scene.of_ada().cli(&["CLIENT", "UNPAUSE"]).unwrap(), "OK");
    // The charge, and its refund.
    let start = Instant::now();
    while scene.of_ada().calls("evalsha").unwrap() < before + 2 {
        assert!(start.elapsed() < Duration::from_secs(20), "nothing was given back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!((scene.left_at_the_door().await, scene.left_locally().await), (8, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_denied_locally_lately_holds_nothing_at_other_slots() {
    let scene = Scene::new().await;
    for _ in 0..3 {
        let _ = scene.behind.check(scene.both(&LOST)).await.unwrap();
    }
    let before = scene.of_ada().calls("evalsha").unwrap();
    for _ in 0..50 {
        let outcome = scene.behind.check(scene.both(&LOST)).await.unwrap();
        assert_eq!((outcome.is_allowed(), outcome.decision().policy().as_str()), (false, "lost"));
    }
    assert_eq!(scene.of_ada().calls("evalsha").unwrap(), before);
    // What is charged locally first is given back if another slot denies.
    let all = Checks::one(DOOR, scene.ada, 7);
    assert!(scene.behind.check(all).await.unwrap().is_allowed());
    let other = Policy::fixed_window("other", Quota::per_week(5));
    let outcome = scene.behind.check(scene.both(&other)).await.unwrap();
    assert_eq!((outcome.is_allowed(), outcome.decision().policy().as_str()), (false, "door"));
    assert_eq!(outcome.decisions()[0].remaining(), 5);
    let peek = Checks::one(other, scene.grace, 0);
    assert_eq!(scene.behind.check(peek).await.unwrap().decision().remaining(), 5);
}
