//! Keys that do not fit into the capacity of their policy.

use std::thread;
use std::time::Duration;

use portcullis_core::store::{Checks, Store};
use portcullis_core::{Policy, Quota, Receipt, Retry};
use portcullis_memory::{MemoryStore, MemoryStoreBuilder};

use super::{Hand, MINUTE, SECOND, allowed, check, key};

/// A store that holds one key of each policy, and has bytes for 20 overflow states.
fn tiny(clock: &Hand) -> MemoryStoreBuilder<Hand> {
    MemoryStore::builder().bytes(4_096).capacity(1).clock(clock.clone())
}

/// A tiny store in which a policy is full.
pub(super) fn full(clock: &Hand, policy: &Policy) -> MemoryStore<Hand> {
    let store = tiny(clock).build();
    assert!(allowed(&store, policy, "occupant"));
    store
}

/// Names that share one overflow state under `policy`, when it is full.
pub(super) fn neighbours(policy: &Policy) -> impl Iterator<Item = String> + use<> {
    let store = full(&Hand::default(), policy);
    assert!(check(&store, Checks::one(policy.clone(), key("0"), policy.strategy().limit())).is_allowed());
    let policy = policy.clone();
    (0..).map(|number: u32| number.to_string()).filter(move |name| {
        check(&store, Checks::one(policy.clone(), key(name), 0)).decision().remaining() == 0
    })
}

fn receipt(store: &MemoryStore<Hand>, policy: &Policy, name: &str, cost: u64) -> Receipt {
    let outcome = check(store, Checks::one(policy.clone(), key(name), cost));
    outcome.into_receipts().next().expect("it was admitted")
}

#[test]
fn a_flood_of_new_keys_shares_budgets_and_spares_known_keys() {
    let clock = Hand::default();
    let store = MemoryStore::builder().capacity(100).bytes(32 << 10).clock(clock.clone()).build();
    let names: Vec<String> = (0..100).map(|number| format!("known {number}")).collect();
    assert!(names.iter().all(|name| allowed(&store, &MINUTE, name)));

    let flooded = (0..10_000).filter(|number| allowed(&store, &MINUTE, &format!("fresh {number}"))).count();
    assert_eq!(flooded, 10 * 163);
    assert!(allowed(&store, &SECOND, "another policy has its own capacity"));
    let stats = store.stats();
    assert_eq!((stats.policies, stats.entries), (2, 101));
    assert_eq!(
        (stats.overflowing_policies, stats.overflow_states, stats.overflowed_checks),
        (1, 163, 10_000)
    );

    for name in &names {
        assert_eq!(check(&store, Checks::one(MINUTE, key(name), 0)).decision().remaining(), 9);
    }

    // Once the known keys have expired, new keys fit again.
    clock.set(Duration::from_mins(1));
    assert!(allowed(&store, &MINUTE, "fresh 0"));
    assert_eq!(store.stats().overflowed_checks, 10_000);
}

#[test]
fn a_policy_has_4096_overflow_states() {
    for capacity in [1, 65_536] {
        let store = MemoryStore::builder().capacity(capacity).clock(Hand::default()).build();
        let once = Policy::fixed_window("once", Quota::per_week(1));
        let keys = u32::try_from(capacity).unwrap() + 50_000;
        let admitted = (0..keys).filter(|number| allowed(&store, &once, &number.to_string())).count();
        let stats = store.stats();
        assert_eq!((stats.overflow_states, stats.entries), (4_096, capacity));
        assert_eq!(admitted, capacity + 4_096);
    }
}

#[test]
fn keys_of_one_decision_in_one_overflow_state_add_up() {
    let store = full(&Hand::default(), &MINUTE);
    let mut names = neighbours(&MINUTE);
    let admitted = (0..20)
        .filter(|_| {
            let [one, other] = [names.next().unwrap(), names.next().unwrap()];
            let both = Checks::one(MINUTE, key(&one), 1).and(MINUTE, key(&other), 1).unwrap();
            check(&store, both).is_allowed()
        })
        .count();
    assert_eq!(admitted, 5);
}

#[test]
fn a_reset_or_refund_of_an_overflowing_key_frees_nothing() {
    let store = full(&Hand::default(), &MINUTE);
    let admitted = neighbours(&MINUTE).take(30).filter(|name| {
        store.reset(&MINUTE, key(name)).into_ready().unwrap().unwrap();
        let mine = check(&store, Checks::one(MINUTE, key(name), 1));
        let admitted = mine.is_allowed();
        if let Some(receipt) = mine.into_receipts().next() {
            let _ = store.refund(receipt).into_ready().unwrap().unwrap();
        }
        admitted
    });
    assert_eq!(admitted.count(), 10);
}

#[test]
fn a_settlement_puts_no_overflow_state_into_debt() {
    let quota = Quota::per_minute(10);
    for policy in [
        MINUTE,
        Policy::token_bucket("bucket", quota),
        Policy::gcra("gcra", quota.burst(10)),
        Policy::leaky_bucket("leaky", quota),
        Policy::sliding_window("window", quota),
        Policy::sliding_log("log", quota),
    ] {
        let clock = Hand::default();
        let store = full(&clock, &policy);
        let settle = |receipt, cost| store.settle(receipt, cost).into_ready().unwrap().unwrap();
        let [first, second, third] = [(); 3].map(|()| receipt(&store, &policy, "0", 1));
        let first = settle(first, 4);
        assert_eq!((first.decision.remaining(), first.uncharged), (4, 0), "{policy:?}");
        let second = settle(second, 1_000);
        assert_eq!((second.decision.remaining(), second.uncharged), (0, 995), "{policy:?}");
        let third = settle(third, 1_000);
        assert_eq!((third.decision.remaining(), third.uncharged), (0, 999), "{policy:?}");
        // The state is full, without a debt: one period later, or two for the two counters, it is empty.
        clock.set(Duration::from_mins(if policy.name().as_str() == "window" { 2 } else { 1 }));
        let peek = check(&store, Checks::one(policy.clone(), key("0"), 0));
        assert_eq!(peek.decision().remaining(), 10, "{policy:?}");
    }
}

#[test]
fn a_decision_over_many_keys_stays_within_the_capacity() {
    let store = MemoryStore::builder().capacity(3).clock(Hand::default()).build();
    let mut checks = Checks::one(MINUTE, key("0"), 1);
    for number in 1..Checks::MAX {
        checks = checks.and(MINUTE, key(&number.to_string()), 0).unwrap();
    }
    assert!(check(&store, checks).is_allowed());
    let mut charged = Checks::one(SECOND, key("0"), 1);
    for number in 1..Checks::MAX {
        charged = charged.and(MINUTE, key(&number.to_string()), 1).unwrap();
    }
    let _ = check(&store, charged);
    assert!(store.policy_stats().iter().all(|policy| policy.entries <= 3), "{:?}", store.policy_stats());
}

#[test]
fn the_retry_of_two_overflowing_keys_is_when_both_fit() {
    let policy = Policy::fixed_window("five", Quota::per_minute(5));
    let clock = Hand::default();
    let store = full(&clock, &policy);
    let names: Vec<String> = neighbours(&policy).take(2).collect();
    let both = |one, other| {
        Checks::one(policy.clone(), key(&names[0]), one).and(policy.clone(), key(&names[1]), other).unwrap()
    };
    assert_eq!(check(&store, both(3, 3)).decision().retry(), Some(Retry::Never));
    assert!(check(&store, both(3, 1)).is_allowed());
    assert_eq!(check(&store, both(1, 1)).decision().retry(), Some(Retry::After(Duration::from_mins(1))));
    clock.set(Duration::from_mins(1));
    assert!(check(&store, both(1, 1)).is_allowed());
}

#[test]
fn full_policies_in_either_order_neither_deadlock_nor_leak() {
    let policies = ["one", "other"].map(|name| Policy::fixed_window(name, Quota::per_week(500)));
    let store = tiny(&Hand::default()).build();
    assert!(policies.iter().all(|policy| allowed(&store, policy, "occupant")));
    let admitted = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|turn| {
                let (store, mut policies) = (&store, policies.each_ref());
                policies.rotate_left(turn % 2);
                scope.spawn(move || {
                    let both = |_: &u32| {
                        let checks = Checks::one(policies[0].clone(), key("a"), 1);
                        check(store, checks.and(policies[1].clone(), key("a"), 1).unwrap()).is_allowed()
                    };
                    (0..200).filter(both).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    assert_eq!(admitted, 500);
    for policy in policies {
        assert_eq!(check(&store, Checks::one(policy, key("a"), 0)).decision().remaining(), 0);
    }
}
