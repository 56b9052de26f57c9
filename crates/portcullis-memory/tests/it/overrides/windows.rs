//! Windows of two lengths under one name have states of their own, and the same grants and blocks.

use super::*;

const HOURLY: Policy = API;
const DAILY: Policy = Policy::fixed_window("api", Quota::per_day(2)).allow_overrides();

#[test]
fn a_block_is_kept_when_a_window_gets_another_length() {
    let memory = Memory::new();
    memory.block(&HOURLY, "ada", 2 * MINUTE);
    for policy in [DAILY, HOURLY, DAILY] {
        assert!(memory.check(&policy, "ada", 1).decision().is_blocked());
        assert!(!memory.check(&policy, "grace", 0).decision().is_blocked());
        assert!(ready(memory.store.overrides(&policy, key("ada"))).unwrap().block().is_some());
    }
    assert_eq!((memory.store.stats().policies, memory.store.stats().overrides), (2, 1));
    // What one of them changes, both see.
    ready(memory.store.unblock(&DAILY, key("ada"))).unwrap();
    assert!(memory.check(&HOURLY, "ada", 1).is_allowed());
    memory.block(&DAILY, "ada", MINUTE);
    assert!(memory.check(&HOURLY, "ada", 1).decision().is_blocked());
    memory.advance(MINUTE);
    assert_eq!(memory.check(&HOURLY, "ada", 1).decision().remaining(), 0);
    assert_eq!(memory.check(&DAILY, "ada", 1).decision().remaining(), 1);
}

#[test]
fn a_grant_of_another_period_has_no_effect_and_is_kept() {
    let memory = Memory::new();
    memory.grant(&HOURLY, "ada", Quota::per_hour(9), 10 * MINUTE);
    assert_eq!(memory.check(&DAILY, "ada", 1).decision().limit(), 2);
    assert_eq!(memory.check(&HOURLY, "ada", 1).decision().limit(), 9);
    assert_eq!(memory.check(&DAILY, "ada", 1).decision().remaining(), 0);
    assert_eq!(memory.check(&HOURLY, "ada", 1).decision().remaining(), 7);
}

#[test]
fn other_strategies_have_overrides_of_their_own() {
    let memory = Memory::new();
    memory.block(&HOURLY, "ada", MINUTE);
    let sliding = Policy::sliding_window("api", Quota::per_hour(2)).allow_overrides();
    assert!(memory.check(&sliding, "ada", 1).is_allowed());
}
