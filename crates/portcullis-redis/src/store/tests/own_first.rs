//! What a caller whose own limit denies it can hold of a limit that all share.

use std::time::Duration;

use portcullis_core::{Checks, Decision, Key, Outcome, Policy, Quota, Secret, Store as _};
use portcullis_testing::{RedisCluster, RedisServer};
use tokio::task::JoinSet;

use super::cross_slot::remaining;
use super::{RedisStore, key};
use crate::keys::slot;

const OWN: Policy = Policy::fixed_window("own", Quota::per_week(10));
const ALL: Policy = Policy::fixed_window("all", Quota::per_week(1_000));

fn everybody() -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().shared_part("everybody", b"");
    hasher.finish().unwrap()
}

struct Scene {
    cluster: RedisCluster,
    store: RedisStore,
    caller: Key,
}

impl Scene {
    /// With a memory of so many denials.
    async fn new(denials: usize) -> Self {
        let cluster = RedisCluster::start(3, 0).unwrap();
        let store =
            RedisStore::builder(cluster.url()).deadline(Duration::from_secs(5)).denial_memory(denials);
        let store = store.connect().await.unwrap();
        let of = |key| cluster.primary_of(slot(key)).unwrap();
        let callers = (0..100).map(|user| key(&[&user.to_string()]));
        let caller = callers.into_iter().find(|caller| of(*caller) != of(everybody())).unwrap();
        Self { cluster, store, caller }
    }

    fn shared_node(&self) -> &RedisServer {
        &self.cluster.nodes()[self.cluster.primary_of(slot(everybody())).unwrap()]
    }

    /// The calls that the node of the shared limit has run.
    fn shared_calls(&self) -> u64 {
        self.shared_node().calls("evalsha").unwrap()
    }

    fn both(&self) -> Checks {
        Checks::one(ALL, everybody(), 1).and(OWN, self.caller, 1).unwrap()
    }

    async fn ask(&self) -> Outcome {
        self.store.check(self.both()).await.unwrap()
    }
}

fn peek(checks: &Checks) -> Checks {
    let mut checks = checks.iter().map(|check| (check.policy.clone(), check.key));
    let (policy, key) = checks.next().unwrap();
    checks.fold(Checks::one(policy, key, 0), |all, (policy, key)| all.and(policy, key, 0).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_denied_lately_does_not_reach_a_shared_slot() {
    let scene = Scene::new(0).await;
    for left in (0..10).rev() {
        let outcome = scene.ask().await;
        assert!(outcome.is_allowed());
        assert_eq!(
            (outcome.decisions()[0].remaining(), outcome.decisions()[1].remaining()),
            (990 + left, left)
        );
    }
    // The first denial is found out by both slots, with all figures.
    let first = scene.ask().await;
    assert_eq!((first.is_allowed(), first.decisions()[0].remaining()), (false, 990));
    let before = scene.shared_calls();
    for _ in 0..100 {
        let outcome = scene.ask().await;
        assert_eq!((outcome.is_allowed(), outcome.decision().policy().as_str()), (false, "own"));
        assert!(outcome.failure().is_none() && outcome.decision().retry().is_some());
        let unasked = &outcome.decisions()[0];
        assert!(unasked.is_allowed() && !unasked.is_metered() && !unasked.is_degraded());
    }
    assert_eq!(scene.shared_calls(), before);
    // As soon as its own limit admits it, the others are asked again.
    scene.store.reset(&OWN, scene.caller).await.unwrap();
    let outcome = scene.ask().await;
    assert_eq!((outcome.is_allowed(), outcome.decisions()[0].remaining()), (true, 989));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_holds_no_more_than_was_under_way_at_its_first_denial() {
    const UNDER_WAY: usize = 50;
    let scene = Scene::new(0).await;
    // The first calls load the script.
    assert_eq!(scene.store.check(peek(&scene.both())).await.unwrap().decisions().len(), 2);
    let before = scene.shared_calls();
    let mut tasks = JoinSet::new();
    for _ in 0..UNDER_WAY {
        let (store, both) = (scene.store.clone(), scene.both());
        tasks.spawn(async move {
            let mut admitted = 0;
            for _ in 0..40 {
                admitted += u64::from(store.check(both.clone()).await.unwrap().is_allowed());
            }
            admitted
        });
    }
    let admitted: u64 = tasks.join_all().await.into_iter().sum();
    assert_eq!(admitted, 10);
    // Each of the calls that were under way may have charged once, and given back once.
    let calls = scene.shared_calls() - before;
    println!("{calls} calls for 2 000 requests");
    assert!(calls <= admitted + 2 * u64::try_from(UNDER_WAY).unwrap(), "{calls}");
    let start = std::time::Instant::now();
    while remaining(&scene.store, &ALL, everybody()).await != 990 {
        assert!(start.elapsed() < Duration::from_secs(20), "nothing was given back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shared_limit_that_denies_keeps_its_callers_slots_at_once() {
    let scene = Scene::new(0).await;
    let none = Policy::fixed_window("none", Quota::per_week(1));
    let both = || Checks::one(none.clone(), everybody(), 1).and(OWN, scene.caller, 1).unwrap();
    assert!(scene.store.check(both()).await.unwrap().is_allowed());
    for _ in 0..5 {
        let outcome = scene.store.check(both()).await.unwrap();
        assert_eq!((outcome.is_allowed(), outcome.decision().policy().as_str()), (false, "none"));
        assert!(outcome.decisions().iter().all(Decision::is_metered), "nobody is asked first");
    }
    assert_eq!(remaining(&scene.store, &OWN, scene.caller).await, 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_by_an_own_key_is_remembered_and_no_other() {
    let scene = Scene::new(1_000).await;
    for _ in 0..10 {
        assert!(scene.ask().await.is_allowed());
    }
    assert!(!scene.ask().await.is_remembered());
    let outcome = scene.ask().await;
    assert_eq!((outcome.is_remembered(), outcome.decision().policy().as_str()), (true, "own"));
    assert_eq!(outcome.checks().len(), 1, "of the shared limit nothing is known");
    // What all callers share is asked each time.
    let none = Policy::fixed_window("none", Quota::per_week(1));
    let caller = key(&["grace"]);
    let both = || Checks::one(none.clone(), everybody(), 1).and(OWN, caller, 1).unwrap();
    assert!(scene.store.check(both()).await.unwrap().is_allowed());
    for _ in 0..3 {
        let outcome = scene.store.check(both()).await.unwrap();
        assert!(!outcome.is_allowed() && !outcome.is_remembered());
    }
}
