//! Limits on requests in flight.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use portcullis_core::store::{Checks, Renewal, Renewed, Store};
use portcullis_core::{Clock, Concurrency, Policy, Receipt, Retry};
use portcullis_memory::MemoryStore;

use super::overflow::{full, neighbours};
use super::{Hand, allowed, check, key};

fn exports(limit: u64) -> Policy {
    Concurrency::new("exports", limit).policy()
}

fn take<C: Clock>(store: &MemoryStore<C>, policy: &Policy, name: &str, cost: u64) -> Option<Receipt> {
    check(store, Checks::one(policy.clone(), key(name), cost)).into_receipts().next()
}

fn release<C: Clock>(store: &MemoryStore<C>, receipt: Receipt) -> u64 {
    store.refund(receipt).into_ready().unwrap().unwrap().remaining()
}

fn renew<C: Clock>(store: &MemoryStore<C>, receipts: &[&Receipt]) -> Vec<Renewed> {
    let renewals = receipts.iter().map(|receipt| Renewal::of(receipt)).collect();
    store.renew(renewals).into_ready().unwrap().unwrap()
}

#[test]
fn permits_are_held_until_they_are_released_or_expire() {
    let clock = Hand::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let policy = exports(2);
    let (first, second) =
        (take(&store, &policy, "ada", 1).unwrap(), take(&store, &policy, "ada", 1).unwrap());
    let denied = check(&store, Checks::one(policy.clone(), key("ada"), 1));
    assert_eq!(denied.decision().retry(), Some(Retry::Unknown));
    assert_eq!(release(&store, first.copy_for_retry()), 1);
    assert_eq!(release(&store, first), 1, "a permit is released once");
    clock.set(Duration::from_secs(30));
    assert_eq!(release(&store, take(&store, &policy, "ada", 2).unwrap()), 2);
    assert_eq!(release(&store, second), 2);
}

#[test]
fn a_renewal_reports_each_permit_in_order() {
    let clock = Hand::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let policy = exports(3);
    let [ada, eve, released] = [("ada", 1), ("eve", 2), ("ada", 1)]
        .map(|(name, cost)| take(&store, &policy, name, cost).expect("the permits are free"));
    release(&store, released.copy_for_retry());
    clock.set(Duration::from_secs(29));
    let held = |held, lapsed| Renewed { held, lapsed };
    assert_eq!(renew(&store, &[&eve, &released, &ada]), [held(2, 0), held(0, 1), held(1, 0)]);
    clock.set(Duration::from_secs(59));
    assert_eq!(renew(&store, &[&ada, &eve]), [held(0, 1), held(0, 2)]);
    assert_eq!(renew(&store, &[]), []);
}

#[test]
fn never_more_than_the_limit_are_in_flight_under_threads() {
    let (store, policy) = (MemoryStore::new(), exports(3));
    let (in_flight, most, admitted) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    let Some(receipt) = take(&store, &policy, "ada", 1) else { continue };
                    most.fetch_max(in_flight.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    admitted.fetch_add(1, Ordering::Relaxed);
                    let _ = renew(&store, &[&receipt]);
                    in_flight.fetch_sub(1, Ordering::Relaxed);
                    release(&store, receipt);
                }
            });
        }
    });
    assert!(most.into_inner() <= 3 && admitted.into_inner() > 0);
    assert_eq!(check(&store, Checks::one(policy, key("ada"), 0)).decision().remaining(), 3);
}

#[test]
fn a_known_key_takes_and_releases_permits_without_allocations() {
    for limit in [1, 4, 50, 1_000] {
        let clock = Hand::default();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let (policy, user) = (exports(limit), key("ada"));
        let turn = |second| {
            clock.set(Duration::from_secs(second));
            let outcome = check(&store, Checks::one(policy.clone(), user, limit));
            let receipt = outcome.into_receipts().next().expect("all permits are free");
            assert_eq!(release(&store, receipt), limit);
        };
        turn(0);
        let counted = allocation_counter::measure(|| (1..300).for_each(turn));
        assert_eq!(counted.count_total, 0, "{limit}");
    }
}

#[test]
fn permits_of_an_overflow_state_expire_and_are_not_released() {
    let (clock, policy) = (Hand::default(), exports(3));
    let store = full(&clock, &policy);
    let names: Vec<String> = neighbours(&policy).take(5).collect();
    let receipts: Vec<Receipt> = names.iter().filter_map(|name| take(&store, &policy, name, 1)).collect();
    assert_eq!(receipts.len(), 3);
    // Whose permit it is cannot be told from those of other keys in all cases, so none comes back before its lease ends.
    for receipt in &receipts {
        assert_eq!(release(&store, receipt.copy_for_retry()), 0);
    }
    assert!(!allowed(&store, &policy, &names[4]));
    // A request that takes longer than the lease still counts.
    clock.set(Duration::from_secs(20));
    assert_eq!(renew(&store, &[&receipts[0]]), [Renewed { held: 1, lapsed: 0 }]);
    clock.set(Duration::from_secs(30));
    // The key that had occupied the store has expired as well, so a new key has a state of its own.
    assert_eq!(renew(&store, &[&receipts[1]]), [Renewed { held: 0, lapsed: 1 }]);
    assert!(take(&store, &policy, &names[4], 3).is_some());
}

#[test]
fn many_keys_with_high_limits_stay_within_the_bytes() {
    let bytes = 1 << 20;
    let counted = allocation_counter::measure(|| {
        let store = MemoryStore::builder().bytes(bytes).clock(Hand::default()).build();
        let policy = exports(1_000);
        for number in 0..10_000_u32 {
            let _ = take(&store, &policy, &number.to_string(), 3);
        }
        let stats = store.stats();
        assert!(stats.entries > 10 && stats.overflow_states > 0 && stats.bytes <= bytes, "{stats:?}");
    });
    assert!(counted.bytes_max < bytes as u64 * 3 / 2, "{counted:?}");
}

#[test]
fn permits_beyond_the_limit_count_as_bytes() {
    let store = MemoryStore::builder().clock(Hand::default()).build();
    let receipt = take(&store, &exports(100), "ada", 100).expect("all permits are free");
    let before = store.stats().bytes;
    let settled = store.settle(receipt, 250).into_ready().unwrap().unwrap();
    assert_eq!(settled.uncharged, 50);
    assert_eq!(store.stats().bytes - before, 1_600);
}
