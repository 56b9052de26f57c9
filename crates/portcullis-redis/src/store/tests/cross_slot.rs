//! Decisions over several slots of a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Wake};
use std::time::{Duration, Instant};

use portcullis_core::store::{Checks, Outcome, Store as _};
use portcullis_core::{Decision, FailureMode, Key, Policy, Quota, Receipt, StoreErrorKind};
use portcullis_memory::Fallback;
use portcullis_servers::{RedisCluster, ServerSetup};
use tokio::task::JoinSet;

use super::{RedisStore, key, patient, policies};
use crate::connection::tests::waiting::until;

pub(super) async fn open(cluster: &RedisCluster) -> RedisStore {
    super::open_url(cluster.url()).await
}

pub(super) async fn remaining(store: &RedisStore, policy: &Policy, key: Key) -> u64 {
    store.check(Checks::one(policy.clone(), key, 0)).await.unwrap().decision().remaining()
}

/// Keys in three different slots.
pub(super) fn keys_in_three_slots() -> [Key; 3] {
    let keys = ["ada", "grace", "barbara"].map(|user| key(&[user]));
    let slots = keys.map(crate::protocol::keys::slot);
    assert!(slots[0] != slots[1] && slots[1] != slots[2] && slots[2] != slots[0]);
    keys
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_by_one_slot_charges_none_under_any_algorithm() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = open(&cluster).await;
    let [ada, grace, barbara] = keys_in_three_slots();
    let door = Policy::fixed_window("door", Quota::per_week(3));
    for policy in policies(Quota::per_week(500)) {
        let most = policy.strategy().limit();
        store.reset(&door, barbara).await.unwrap();
        let all = |cost| {
            Checks::one(policy.clone(), ada, cost)
                .and(policy.clone(), grace, 2 * cost)
                .and_then(|checks| checks.and(door.clone(), barbara, 1))
                .unwrap()
        };
        for charged in 1..=3 {
            let allowed = store.check(all(1)).await.unwrap();
            assert!(allowed.is_allowed(), "{}: {allowed:?}", policy.name());
            let left: Vec<_> = allowed.decisions().iter().map(Decision::remaining).collect();
            assert_eq!(left, [most - charged, most - 2 * charged, 3 - charged], "{}", policy.name());
        }
        let denied = store.check(all(7)).await.unwrap();
        assert_eq!(denied.decision().policy().as_str(), "door");
        let verdicts: Vec<_> = denied
            .decisions()
            .iter()
            .map(|decision| (decision.is_allowed(), decision.remaining(), decision.delay()))
            .collect();
        let fits = |left| (true, left, Duration::ZERO);
        assert_eq!(
            verdicts,
            [fits(most - 3), fits(most - 6), (false, 0, Duration::ZERO)],
            "{}",
            policy.name()
        );
        assert_eq!(remaining(&store, &policy, ada).await, most - 3, "{}", policy.name());
        assert_eq!(remaining(&store, &policy, grace).await, most - 6, "{}", policy.name());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_decision_delays_no_waiting_request() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = open(&cluster).await;
    let [ada, grace, barbara] = keys_in_three_slots();
    let (minute, wait) = (Duration::from_secs(60), Duration::from_secs(3_600));
    let fast = Policy::gcra("fast", Quota::per(1, minute)).wait_at_most(wait);
    let slow = Policy::gcra("slow", Quota::per(1, 2 * minute)).wait_at_most(wait);
    let door = Policy::fixed_window("door", Quota::per_week(2)).wait_at_most(wait);
    let decide = async || {
        let checks = Checks::one(fast.clone(), ada, 1).and(slow.clone(), grace, 1).unwrap();
        store.check(checks.and(door.clone(), barbara, 1).unwrap()).await.unwrap()
    };
    let longest = |outcome: &Outcome| outcome.decisions().iter().map(Decision::delay).max().unwrap();
    assert!(longest(&decide().await).is_zero());
    let second = decide().await;
    assert!(second.is_allowed() && longest(&second) > minute && longest(&second) <= 2 * minute, "{second:?}");
    // The window has no unit left, so that nothing stays charged in the other slots.
    let third = decide().await;
    assert_eq!((third.is_allowed(), third.decision().policy().as_str()), (false, "door"));
    for (policy, key, charged) in [(&fast, ada, 2 * minute), (&slow, grace, 4 * minute)] {
        let peek = store.check(Checks::one(policy.clone(), key, 0)).await.unwrap();
        assert!(peek.decision().reset_after() <= charged, "{peek:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_admit_at_most_each_limit_and_keep_no_other_charge() {
    const TASKS: u64 = 12;
    const EACH: u64 = 25;
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = open(&cluster).await;
    let [ada, grace, barbara] = keys_in_three_slots();
    let wide = Policy::fixed_window("wide", Quota::per_week(90));
    let narrow = Policy::sliding_log("narrow", Quota::per_week(60));
    let both = Checks::one(wide.clone(), ada, 1).and(narrow.clone(), grace, 1).unwrap();
    let other = Checks::one(wide.clone(), ada, 1).and(narrow.clone(), barbara, 1).unwrap();
    let admitted = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (store, admitted) = (store.clone(), Arc::clone(&admitted));
        let questions = [both.clone(), other.clone()];
        tasks.spawn(async move {
            for round in 0..EACH {
                let which = ((task + round) % 2) as usize;
                let outcome = store.check(questions[which].clone()).await.unwrap();
                admitted[which].fetch_add(outcome.is_allowed().into(), Ordering::Relaxed);
            }
        });
    }
    tasks.join_all().await;
    let [of_grace, of_barbara] = [0, 1].map(|which: usize| admitted[which].load(Ordering::Relaxed));
    println!("{of_grace} and {of_barbara} admitted");
    // Units of decisions in progress count as used: at most that many are not admitted, and they remain available.
    assert!(of_grace <= 60 && of_barbara <= 60);
    assert!((90 - TASKS..=90).contains(&(of_grace + of_barbara)));
    assert_eq!(remaining(&store, &wide, ada).await, 90 - of_grace - of_barbara);
    assert_eq!(remaining(&store, &narrow, grace).await, 60 - of_grace);
    assert_eq!(remaining(&store, &narrow, barbara).await, 60 - of_barbara);
    for last in of_grace + of_barbara..90 {
        let fitting = if remaining(&store, &narrow, grace).await > 0 { &both } else { &other };
        assert!(store.check(fitting.clone()).await.unwrap().is_allowed(), "unit {last}");
    }
    assert!(!store.check(both).await.unwrap().is_allowed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_dropped_before_its_answer_is_charged_in_no_slot() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = open(&cluster).await;
    let [ada, grace, barbara] = keys_in_three_slots();
    let all = Policy::fixed_window("all", Quota::per_week(1_000));
    let each = Policy::fixed_window("each", Quota::per_week(1_000));
    let denied = Checks::one(all.clone(), ada, 1).and(each.clone(), grace, 1_000).unwrap();
    let fitting = Checks::one(all.clone(), ada, 1).and(each.clone(), barbara, 1).unwrap();
    assert!(store.check(Checks::one(each.clone(), grace, 1)).await.unwrap().is_allowed());
    let (mut answered, mut gone) = (0, 0);
    for round in 0..200 {
        for (checks, fits) in [(&denied, false), (&fitting, true)] {
            tokio::select! {
                biased;
                outcome = store.check(checks.clone()) => {
                    answered += u64::from(outcome.unwrap().is_allowed() && fits);
                }
                () = yield_times(round * 4) => gone += 1,
            }
        }
    }
    println!("{gone} went away, {answered} were let through");
    assert!(gone > 100);
    let end = Instant::now() + Duration::from_secs(20);
    while remaining(&store, &all, ada).await != 1_000 - answered
        || remaining(&store, &each, barbara).await != 1_000 - answered
    {
        assert!(
            Instant::now() < end,
            "{} of {answered} are charged",
            1_000 - remaining(&store, &all, ada).await
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(remaining(&store, &each, grace).await, 999);
}

/// Records that it was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn outcome_left_unread_is_charged_in_no_slot() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = open(&cluster).await;
    let [ada, grace, _] = keys_in_three_slots();
    let door = Policy::fixed_window("door", Quota::per_week(3));
    let mut check =
        Box::pin(store.check(Checks::one(door.clone(), ada, 1).and(door.clone(), grace, 1).unwrap()));
    let woken = Arc::new(Woken::default());
    assert!(check.as_mut().poll(&mut Context::from_waker(&Arc::clone(&woken).into())).is_pending());
    until(|| woken.0.load(Ordering::SeqCst)).await;
    for key in [ada, grace] {
        assert_eq!(remaining(&store, &door, key).await, 2);
    }
    // The outcome is there, and its caller goes away before it looks.
    drop(check);
    for key in [ada, grace] {
        let started = Instant::now();
        while remaining(&store, &door, key).await != 3 {
            assert!(started.elapsed() < Duration::from_secs(20), "nothing was refunded");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Takes less or more than a round trip.
async fn yield_times(yields: u32) {
    for _ in 0..yields {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_comes_by_the_deadline_despite_slow_refunds() {
    const DEADLINE: Duration = Duration::from_secs(5);
    let cluster = ServerSetup::new().node_timeout(Duration::from_mins(1)).cluster(3, 0).unwrap();
    let store = patient(cluster.url()).deadline(DEADLINE).connect().await.unwrap();
    let [ada, grace, _] = keys_in_three_slots();
    let node_of = |key| &cluster.nodes()[cluster.primary_of(crate::protocol::keys::slot(key)).unwrap()];
    let door = Policy::fixed_window("door", Quota::per_week(3));
    let both = |cost| Checks::one(door.clone(), ada, 1).and(door.clone(), grace, cost).unwrap();
    assert!(store.check(both(3)).await.unwrap().is_allowed());

    let (fast, slow) = (node_of(ada), node_of(grace));
    slow.cli(&["CLIENT", "PAUSE", "60000", "WRITE"]).unwrap();
    let charges = fast.calls("evalsha").unwrap();
    let started = Instant::now();
    let (outcome, denied_after) = tokio::join!(store.check(both(1)), async {
        until(|| fast.calls("evalsha").unwrap() != charges).await;
        fast.signal("STOP").unwrap();
        tokio::time::sleep_until((started + DEADLINE / 2).into()).await;
        let denied_after = started.elapsed();
        slow.cli(&["CLIENT", "UNPAUSE"]).unwrap();
        denied_after
    });
    let took = started.elapsed();
    fast.signal("CONT").unwrap();
    let outcome = outcome.unwrap();
    assert!(!outcome.is_allowed() && outcome.failure().is_none());
    assert!(took >= DEADLINE, "{took:?}: the refund was not slow");
    assert!(took < denied_after + DEADLINE, "{took:?}: a second deadline was waited for");
    while remaining(&store, &door, ada).await != 2 {
        assert!(started.elapsed() < 10 * DEADLINE, "nothing was refunded");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_slots_continue_to_limit_after_a_failure() {
    let setup = ServerSetup::new().arguments(&["--cluster-require-full-coverage", "no"]);
    let mut cluster = setup.cluster(3, 0).unwrap();
    let store = open(&cluster).await;
    let [ada, grace, _] = keys_in_three_slots();
    let dead = cluster.primary_of(crate::protocol::keys::slot(grace)).unwrap();
    assert_ne!(cluster.primary_of(crate::protocol::keys::slot(ada)).unwrap(), dead);
    cluster.kill(dead).unwrap();

    let door = Policy::fixed_window("door", Quota::per_week(3));
    let lost = Policy::gcra("lost", Quota::per_second(1)).on_store_failure(FailureMode::Open);
    let both = |lost: &Policy| Checks::one(lost.clone(), grace, 1).and(door.clone(), ada, 1).unwrap();
    for left in [2, 1, 0] {
        let outcome = store.check(both(&lost)).await.unwrap();
        assert!(outcome.is_allowed() && outcome.failure().is_some());
        let decision = outcome.decision();
        assert_eq!(
            (decision.policy().as_str(), decision.remaining(), decision.is_degraded()),
            ("door", left, false)
        );
        assert!(outcome.decisions()[0].is_degraded() && !outcome.decisions()[0].is_metered());
        let receipts: Vec<_> = outcome.into_receipts().collect();
        assert_eq!(receipts.iter().map(Receipt::key).collect::<Vec<_>>(), [ada]);
    }
    let denied = store.check(both(&lost)).await.unwrap();
    assert!(!denied.is_allowed());
    assert_eq!(denied.decision().policy().as_str(), "door");

    store.reset(&door, ada).await.unwrap();
    let closed = lost.on_store_failure(FailureMode::Closed);
    let error = store.check(both(&closed)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.outage().is_some(), "{error}");
    assert_eq!(remaining(&store, &door, ada).await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_policy_does_not_disable_policies_of_healthy_slots() {
    let setup = ServerSetup::new().arguments(&["--cluster-require-full-coverage", "no"]);
    let mut cluster = setup.cluster(3, 0).unwrap();
    let store = Fallback::new(open(&cluster).await);
    let [ada, grace, _] = keys_in_three_slots();
    cluster.kill(cluster.primary_of(crate::protocol::keys::slot(grace)).unwrap()).unwrap();
    let door = Policy::fixed_window("door", Quota::per_week(3));
    let lost = Policy::gcra("lost", Quota::per_second(1)).on_store_failure(FailureMode::Open);
    let ask = |most| {
        let lost = lost.clone().on_store_failure(FailureMode::OpenFor(most));
        store.check(Checks::one(lost, grace, 1).and(door.clone(), ada, 1).unwrap())
    };
    let mut allowed = Vec::new();
    for _ in 0..5 {
        allowed.push(ask(Duration::from_mins(1)).await.unwrap().is_allowed());
    }
    assert_eq!(allowed, [true, true, true, false, false]);
    store.reset(&door, ada).await.unwrap();
    assert!(ask(Duration::from_millis(1)).await.is_err());
    let left = store.check(Checks::one(door, ada, 0)).await.unwrap().decision().remaining();
    assert_eq!(left, 3);
}

#[tokio::test]
async fn a_single_node_url_fails_at_the_first_key_of_another_node() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let user = cluster.url().replace("redis-cluster://", "redis://");
    let store = super::open_url(user.split('?').next().unwrap()).await;
    let door = Policy::fixed_window("door", Quota::per_week(3));
    let mut errors = Vec::new();
    for name in 0..20 {
        errors.extend(store.check(Checks::one(door.clone(), key(&[&name.to_string()]), 1)).await.err());
    }
    let error = errors.first().unwrap();
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
    assert!(error.to_string().contains("use redis-cluster://"), "{error}");
}
