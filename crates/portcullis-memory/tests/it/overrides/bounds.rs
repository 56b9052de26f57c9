//! The bounds of what a store keeps.

use super::*;

fn record_denials(memory: &Memory, name: &str, denials: u32, lock_out: &LockOut) -> Result<bool, StoreError> {
    ready(memory.store.record_denials(&API, key(name), denials, lock_out)).map(|block| block.is_some())
}

/// A store with few keys has one shard.
fn small(overrides: usize) -> Memory {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(3_600_000_000)));
    let builder = MemoryStore::builder().capacity(100).override_capacity(overrides);
    Memory { store: builder.clock(Arc::clone(&clock)).build(), clock }
}

#[test]
fn a_grant_beyond_the_capacity_is_an_error_and_loses_nothing() {
    let memory = small(2);
    memory.grant(&API, "ada", Quota::per_hour(5), 2 * MINUTE);
    memory.block(&API, "bob", MINUTE);
    let grant = || memory.store.set_grant(&API, key("eve"), Some((Quota::per_hour(5), MINUTE)));
    let error = ready(grant()).unwrap_err().to_string();
    assert!(error.contains("policy api") && error.contains("override_capacity"), "{error}");
    assert!(ready(memory.store.block(&API, key("eve"), MINUTE)).is_err());
    assert_eq!(memory.check(&API, "ada", 0).decision().limit(), 5);
    assert!(memory.check(&API, "bob", 0).decision().is_blocked());
    // A change of a known key needs no room, and what has ended makes some.
    memory.grant(&API, "bob", Quota::per_hour(6), MINUTE);
    memory.advance(MINUTE);
    ready(grant()).unwrap();
    assert_eq!(memory.store.stats().overrides, 2);
}

#[test]
fn few_overrides_all_fit_into_a_store_of_several_shards() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(3_600_000_000)));
    let builder = MemoryStore::builder().capacity(20_000).override_capacity(100);
    let memory = Memory { store: builder.clock(Arc::clone(&clock)).build(), clock };
    for number in 0..100 {
        ready(memory.store.block(&API, key(&number.to_string()), MINUTE)).unwrap();
    }
    assert!(ready(memory.store.block(&API, key("one too many"), MINUTE)).is_err());
}

#[test]
fn operators_displace_counted_denials_alone() {
    let memory = small(2);
    let lock_out = LockOut::after(2);
    assert_eq!(record_denials(&memory, "counted", 1, &lock_out), Ok(false));
    assert_eq!(record_denials(&memory, "blocked", 2, &lock_out), Ok(true));
    memory.grant(&API, "ada", Quota::per_hour(5), MINUTE);
    assert_eq!(memory.record(&API, "counted"), Override::NONE);
    assert!(memory.check(&API, "blocked", 0).decision().is_blocked());
    assert!(ready(memory.store.block(&API, key("eve"), MINUTE)).is_err());
}

#[test]
fn a_lock_out_displaces_the_block_that_ends_first_and_no_grant() {
    let memory = small(3);
    let lock_out = LockOut::after(2).block_for(MINUTE);
    memory.grant(&API, "ada", Quota::per_hour(5), MINUTE / 2);
    for name in ["first", "second"] {
        assert_eq!(record_denials(&memory, name, 2, &lock_out), Ok(true));
        memory.advance(Duration::from_secs(1));
    }
    assert_eq!(record_denials(&memory, "third", 2, &lock_out), Ok(true));
    let blocked =
        ["first", "second", "third"].map(|name| memory.check(&API, name, 0).decision().is_blocked());
    assert_eq!(blocked, [false, true, true]);
    assert_eq!(memory.check(&API, "ada", 0).decision().limit(), 5);
    // A count displaces no block.
    assert!(record_denials(&memory, "fourth", 1, &lock_out).is_err());
    let shorter = LockOut::after(2).block_for(MINUTE / 2);
    assert!(record_denials(&memory, "fourth", 2, &shorter).is_err());
}

#[test]
fn a_flood_of_denied_keys_keeps_the_number_of_overrides() {
    let memory = Memory::with_overrides(640);
    let lock_out = LockOut::after(5);
    memory.block(&API, "ada", 2 * MINUTE);
    for number in 0..10_000 {
        record_denials(&memory, &format!("key {number}"), 1, &lock_out).unwrap();
    }
    assert!(memory.store.stats().overrides <= 640);
    assert!(memory.check(&API, "ada", 1).decision().is_blocked());
    memory.advance(MINUTE);
    for number in 0..20_000 {
        let _ = memory.check(&API, &format!("key {number}"), 0);
    }
    assert_eq!(memory.store.stats().overrides, 1, "expired ones are swept by checks");
}

#[test]
fn a_blocked_key_of_a_full_store_is_blocked_without_its_grant() {
    let memory = small(10);
    memory.grant(&API, "ada", Quota::per_hour(5), MINUTE);
    memory.block(&API, "bob", MINUTE);
    for number in 0..100 {
        assert!(memory.check(&API, &format!("key {number}"), 1).is_allowed());
    }
    let shared = memory.check(&API, "ada", 1);
    assert_eq!((shared.decision().limit(), shared.grant(0)), (2, None), "other keys share the state");
    assert!(memory.check(&API, "bob", 1).decision().is_blocked());
}
