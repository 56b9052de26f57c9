//! The memory of a policy's states, and the maximum number of policies.

use std::time::Duration;

use portcullis_core::store::{Checks, Store};
use portcullis_core::{Policy, PolicyName, Quota, SlidingWindow, StoreErrorKind, Strategy};
use portcullis_memory::{MemoryStore, MemoryStoreBuilder};

use super::{Hand, MINUTE, SECOND, allowed, check, key};

const MEBIBYTE: usize = 1 << 20;

fn log(limit: u64) -> Policy {
    Policy::sliding_log("log", Quota::per_hour(limit))
}

fn slots(count: u32) -> Policy {
    let window = SlidingWindow::with_slots(Quota::per_hour(5), count).unwrap();
    Policy::literal("slots", Strategy::SlidingWindow(window))
}

#[test]
fn a_full_store_takes_the_memory_that_is_documented() {
    let counted = allocation_counter::measure(|| {
        let store = MemoryStore::builder().capacity(1_000_000).clock(Hand::default()).build();
        for number in 0..1_000_000_u32 {
            allowed(&store, &SECOND, &number.to_string());
        }
        // Shards fill up unevenly: the last of a million keys may belong to a full shard.
        assert!(store.stats().entries > 990_000, "{:?}", store.stats());
    });
    let per_key = counted.bytes_max / 1_000_000;
    // An entry has 24 bytes, and a full table a fifth of vacant buckets.
    assert!((28..=38).contains(&per_key), "{per_key} bytes per key");
}

#[test]
fn no_key_takes_more_bytes_than_are_counted() {
    // In one shard: right after its table has grown, and long after that.
    for keys in [1_294, 1_618, 1_900] {
        let mut store = None;
        let counted = allocation_counter::measure(|| {
            let store = store.insert(MemoryStore::builder().capacity(2_000).clock(Hand::default()).build());
            (0..keys).for_each(|number| assert!(allowed(store, &SECOND, &number.to_string())));
        });
        let counts = store.map_or(0, |store| store.stats().bytes);
        assert_eq!(counts, 64 * keys);
        // The slots for policies come in addition.
        assert!(usize::try_from(counted.bytes_current).unwrap() < counts + 32_768, "{counted:?}");
    }
}

/// The maximum bytes that a store holds during `requests` of the same cost, one microsecond apart.
fn peak_bytes(builder: MemoryStoreBuilder, policy: &Policy, requests: u32, keys: u32, cost: u64) -> usize {
    let clock = Hand::default();
    let counted = allocation_counter::measure(|| {
        let store = builder.clock(clock.clone()).build();
        for request in 0..requests {
            clock.set(Duration::from_micros(request.into()));
            let _ = check(&store, Checks::one(policy.clone(), key(&(request % keys).to_string()), cost));
        }
        let stats = store.stats();
        assert!(stats.entries > 0 && stats.bytes <= 66 * MEBIBYTE, "{stats:?}");
    });
    usize::try_from(counted.bytes_max).unwrap()
}

#[test]
fn large_logs_stay_within_the_bytes_of_their_policy() {
    // Requests of 10 000 units at one instant each. With one stamp per unit they took 1.5 GB.
    let taken = peak_bytes(MemoryStore::builder(), &log(100_000), 20_000, 20_000, 10_000);
    assert!(taken < 8 * MEBIBYTE, "{taken}");
    // Requests at different instants, which cannot be joined without loss.
    for keys in [1, 20, 1_000, 60_000] {
        let builder = MemoryStore::builder().bytes(MEBIBYTE);
        let taken = peak_bytes(builder, &log(60_000), 60_000, keys, 1);
        // While a table grows, its old memory is allocated as well.
        assert!(taken < MEBIBYTE * 3 / 2, "{taken} with {keys} keys");
    }
}

#[test]
fn a_sliding_window_of_many_slots_stays_within_the_bytes() {
    let taken = peak_bytes(MemoryStore::builder().bytes(4 * MEBIBYTE), &slots(1_000), 10_000, 10_000, 1);
    assert!(taken < 5 * MEBIBYTE, "{taken}");
}

#[test]
fn a_log_that_cannot_grow_never_exceeds_its_limit() {
    let clock = Hand::default();
    let store = MemoryStore::builder().bytes(64 << 10).clock(clock.clone()).build();
    let policy = Policy::sliding_log("log", Quota::per_second(2_000));
    let mut last_admitted = Vec::new();
    for millis in 0..3_000 {
        clock.set(Duration::from_millis(millis));
        for name in ["a", "b", "c", "d"] {
            let costs = if name == "a" { 4 } else { 1 };
            let admitted = check(&store, Checks::one(policy.clone(), key(name), costs)).is_allowed();
            if name == "a" && admitted {
                last_admitted.push(millis);
            }
        }
        let held = last_admitted.iter().filter(|at| **at + 1_000 > millis).count();
        assert!(4 * held <= 2_000, "at {millis} ms");
    }
    // An exact log admits 1 500 of the 3 000.
    assert!(last_admitted.len() > 1_400, "{}", last_admitted.len());
    assert!(store.stats().bytes <= 64 << 10);
}

#[test]
fn a_log_that_shrinks_frees_its_bytes() {
    let clock = Hand::default();
    let store = MemoryStore::builder().bytes(2 * MEBIBYTE).clock(clock.clone()).build();
    for micros in 0..20_000 {
        clock.set(Duration::from_micros(micros));
        assert!(allowed(&store, &log(50_000), "a"));
    }
    let full = store.stats().bytes;
    clock.set(Duration::from_hours(2));
    assert!(allowed(&store, &log(50_000), "a"));
    assert!(store.stats().bytes < full / 100, "{:?}", store.stats());
}

#[test]
fn the_error_of_a_policy_beyond_the_total_states_the_fix() {
    let store = MemoryStore::builder().capacity(10).total_capacity(20).build();
    assert!(store.register(&MINUTE).is_ok() && store.register(&SECOND).is_ok());
    let third = Policy::gcra("third", Quota::per_second(1));
    let error = store.register(&third).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
    assert!(!error.kind().is_overload());
    assert_eq!(
        error.to_string(),
        "policy third does not fit in memory: each policy takes 10 keys, 2 policies are registered, and the total is 20; \
         raise `total_capacity` to 30 or more, or lower `capacity` (`--memory-keys` of the command)"
    );
    // Without registration the first check returns the same error, and other policies still work.
    let answer = store.check(Checks::one(third, key("ada"), 1)).into_ready().unwrap();
    assert_eq!(answer.unwrap_err(), error);
    assert!(store.register(&MINUTE).is_ok() && allowed(&store, &SECOND, "ada"));

    let bytes = MemoryStore::builder().bytes(MEBIBYTE).total_bytes(MEBIBYTE).build();
    assert!(allowed(&bytes, &MINUTE, "ada"));
    let error = bytes.register(&SECOND).unwrap_err().to_string();
    assert!(error.contains("raise `total_bytes` to 2097152 or more"), "{error}");
}

#[test]
fn a_default_store_holds_64_policies() {
    let store = MemoryStore::new();
    let policy = |number: u32| {
        let name = PolicyName::new(&number.to_string()).unwrap();
        Policy::new(name, *MINUTE.strategy())
    };
    assert!((0..64).all(|number| store.register(&policy(number)).is_ok()));
    assert!(store.register(&policy(64)).is_err());
    assert!((0..64).all(|number| allowed(&store, &policy(number), "ada")));
    assert_eq!((store.stats().policies, store.policy_stats().len()), (64, 64));
}
