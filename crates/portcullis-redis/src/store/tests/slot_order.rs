//! The units of a shared limit that a client can hold while its own limit denies it.

use std::time::Duration;

use portcullis_core::store::{Checks, Outcome, Store as _};
use portcullis_core::{Decision, Key, Policy, Quota, Secret};
use portcullis_servers::{RedisCluster, RedisServer};
use tokio::task::JoinSet;

use super::cross_slot::remaining;
use super::{RedisStore, key, patient, remembered};
use crate::protocol::keys::slot;

const OWN: Policy = Policy::fixed_window("own", Quota::per_week(10));
const ALL: Policy = Policy::fixed_window("all", Quota::per_week(1_000));

fn shared_key() -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().shared_part("everybody", b"");
    hasher.finish().unwrap()
}

struct Fixture {
    cluster: RedisCluster,
    store: RedisStore,
    client: Key,
}

impl Fixture {
    /// Makes a fixture with a memory of `denials` denials.
    async fn new(denials: usize) -> Self {
        let cluster = RedisCluster::start(3, 0).unwrap();
        let store = patient(cluster.url()).denial_memory(denials).connect().await.unwrap();
        let of = |key| cluster.primary_of(slot(key)).unwrap();
        let clients = (0..100).map(|user| key(&[&user.to_string()]));
        let client = clients.into_iter().find(|client| of(*client) != of(shared_key())).unwrap();
        Self { cluster, store, client }
    }

    fn shared_node(&self) -> &RedisServer {
        &self.cluster.nodes()[self.cluster.primary_of(slot(shared_key())).unwrap()]
    }

    /// The number of calls that the node of the shared limit has run.
    fn shared_calls(&self) -> u64 {
        self.shared_node().calls("evalsha").unwrap()
    }

    fn both(&self) -> Checks {
        Checks::one(ALL, shared_key(), 1).and(OWN, self.client, 1).unwrap()
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
async fn a_recently_denied_client_does_not_reach_a_shared_slot() {
    let fixture = Fixture::new(0).await;
    for left in (0..10).rev() {
        let outcome = fixture.ask().await;
        assert!(outcome.is_allowed());
        assert_eq!(
            (outcome.decisions()[0].remaining(), outcome.decisions()[1].remaining()),
            (990 + left, left)
        );
    }
    // At the first denial both slots are queried, so that all figures are known.
    let first = fixture.ask().await;
    assert_eq!((first.is_allowed(), first.decisions()[0].remaining()), (false, 990));
    let before = fixture.shared_calls();
    for _ in 0..100 {
        let outcome = fixture.ask().await;
        assert_eq!((outcome.is_allowed(), outcome.decision().policy().as_str()), (false, "own"));
        assert!(outcome.failure().is_none() && outcome.decision().retry().is_some());
        let not_asked = &outcome.decisions()[0];
        assert!(not_asked.is_allowed() && !not_asked.is_metered() && !not_asked.is_degraded());
    }
    assert_eq!(fixture.shared_calls(), before);
    // As soon as its own limit admits, the others are queried again.
    fixture.store.reset(&OWN, fixture.client).await.unwrap();
    let outcome = fixture.ask().await;
    assert_eq!((outcome.is_allowed(), outcome.decisions()[0].remaining()), (true, 989));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denied_client_holds_only_units_of_calls_in_flight() {
    const IN_FLIGHT: usize = 50;
    let fixture = Fixture::new(0).await;
    // The first calls load the script.
    assert_eq!(fixture.store.check(peek(&fixture.both())).await.unwrap().decisions().len(), 2);
    let before = fixture.shared_calls();
    let mut tasks = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (store, both) = (fixture.store.clone(), fixture.both());
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
    // Each of the calls in progress may have charged once and refunded once.
    let calls = fixture.shared_calls() - before;
    println!("{calls} calls for 2 000 requests");
    assert!(calls <= admitted + 2 * u64::try_from(IN_FLIGHT).unwrap(), "{calls}");
    let start = std::time::Instant::now();
    while remaining(&fixture.store, &ALL, shared_key()).await != 990 {
        assert!(start.elapsed() < Duration::from_secs(20), "nothing was refunded");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denying_shared_limit_does_not_change_the_query_order() {
    let fixture = Fixture::new(0).await;
    let none = Policy::fixed_window("none", Quota::per_week(1));
    let both = || Checks::one(none.clone(), shared_key(), 1).and(OWN, fixture.client, 1).unwrap();
    assert!(fixture.store.check(both()).await.unwrap().is_allowed());
    for _ in 0..5 {
        let outcome = fixture.store.check(both()).await.unwrap();
        assert_eq!((outcome.is_allowed(), outcome.decision().policy().as_str()), (false, "none"));
        assert!(outcome.decisions().iter().all(Decision::is_metered), "all slots are queried at once");
    }
    assert_eq!(remaining(&fixture.store, &OWN, fixture.client).await, 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_denial_by_an_own_key_is_remembered() {
    let fixture = Fixture::new(1_000).await;
    for _ in 0..10 {
        assert!(fixture.ask().await.is_allowed());
    }
    assert!(!fixture.ask().await.is_remembered());
    let outcome = remembered(&fixture.store, || fixture.both()).await;
    assert_eq!(outcome.decision().policy().as_str(), "own");
    assert_eq!(outcome.checks().len(), 1, "the shared limit is not known");
    // Shared keys are queried each time.
    let none = Policy::fixed_window("none", Quota::per_week(1));
    let client = key(&["grace"]);
    let both = || Checks::one(none.clone(), shared_key(), 1).and(OWN, client, 1).unwrap();
    assert!(fixture.store.check(both()).await.unwrap().is_allowed());
    for _ in 0..3 {
        let outcome = fixture.store.check(both()).await.unwrap();
        assert!(!outcome.is_allowed() && !outcome.is_remembered());
    }
}
