//! Grants and blocks of single keys in memory, on a manual clock.

mod bounds;
mod model;
mod windows;

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::overrides::{LockOut, Override};
use portcullis_core::store::{Checks, Outcome, Store, StoreFuture};
use portcullis_core::{
    Clock as _, Key, ManualClock, Policy, Quota, Retry, Secret, StoreError, StoreErrorKind, Timestamp,
};
use portcullis_memory::MemoryStore;

const API: Policy = Policy::fixed_window("api", Quota::per_hour(2)).allow_overrides();
const BURST: Policy = Policy::gcra("burst", Quota::per_second(1).burst(2)).allow_overrides();
const PLAIN: Policy = Policy::fixed_window("plain", Quota::per_hour(2));
const MINUTE: Duration = Duration::from_secs(60);

struct Memory {
    store: MemoryStore<Arc<ManualClock>>,
    clock: Arc<ManualClock>,
}

fn key(name: &str) -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", name.as_bytes());
    hasher.finish().unwrap()
}

fn ready<T>(answer: StoreFuture<T>) -> Result<T, StoreError> {
    answer.into_ready().unwrap_or_else(|_| panic!("memory answers at once"))
}

impl Memory {
    fn new() -> Self {
        Self::with_overrides(10_000)
    }

    fn with_overrides(capacity: usize) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(3_600_000_000)));
        let store = MemoryStore::builder().override_capacity(capacity).clock(Arc::clone(&clock)).build();
        Self { store, clock }
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn check(&self, policy: &Policy, name: &str, cost: u64) -> Outcome {
        ready(self.store.check(Checks::one(policy.clone(), key(name), cost))).unwrap()
    }

    fn grant(&self, policy: &Policy, name: &str, quota: Quota, length: Duration) {
        ready(self.store.set_grant(policy, key(name), Some((quota, length)))).unwrap();
    }

    fn block(&self, policy: &Policy, name: &str, length: Duration) {
        ready(self.store.block(policy, key(name), length)).unwrap();
    }

    fn record(&self, policy: &Policy, name: &str) -> Override {
        ready(self.store.overrides(policy, key(name))).unwrap()
    }
}

#[test]
fn a_granted_key_has_the_quota_until_the_grant_ends() {
    for policy in [API, BURST] {
        let memory = Memory::new();
        let quota = match policy.name().as_str() {
            "api" => Quota::per_hour(5),
            _ => Quota::per_second(1).burst(5),
        };
        memory.grant(&policy, "ada", quota, MINUTE);
        assert!(
            memory.store.check_now(&policy, key("ada"), 1).is_none(),
            "the caller needs the granted policy"
        );
        let outcome = memory.check(&policy, "ada", 3);
        assert!(outcome.is_allowed());
        assert_eq!((outcome.decision().limit(), outcome.decision().remaining()), (5, 2));
        assert_eq!(outcome.grant(0).unwrap().quota(), quota);
        assert_eq!(outcome.checks().iter().next().unwrap().policy.strategy().limit(), 5);
        // Another key has the policy's quota.
        assert_eq!(memory.check(&policy, "bob", 1).decision().limit(), 2);
        // The receipt refers to the charge under the granted quota.
        let receipt = outcome.into_receipts().next().unwrap();
        let peek = ready(memory.store.refund(receipt)).unwrap();
        assert_eq!((peek.limit(), peek.remaining()), (5, 5));

        memory.advance(MINUTE);
        let after = memory.check(&policy, "ada", 3);
        assert!(!after.is_allowed() && after.grant(0).is_none());
        assert_eq!(after.decision().limit(), 2);
    }
}

#[test]
fn a_removed_grant_ends_at_once_and_a_reset_keeps_it() {
    let memory = Memory::new();
    memory.grant(&API, "ada", Quota::per_hour(9), MINUTE);
    assert!(memory.check(&API, "ada", 9).is_allowed());
    ready(memory.store.reset(&API, key("ada"))).unwrap();
    assert_eq!(memory.check(&API, "ada", 0).decision().remaining(), 9);
    ready(memory.store.set_grant(&API, key("ada"), None)).unwrap();
    assert_eq!(memory.check(&API, "ada", 0).decision().limit(), 2);
    assert_eq!(memory.store.stats().overrides, 0);
}

#[test]
fn a_blocked_key_is_denied_until_the_end_and_pays_nothing() {
    let memory = Memory::new();
    memory.block(&API, "ada", MINUTE);
    memory.advance(Duration::from_secs(20));
    let left = Duration::from_secs(40);
    for cost in [1, 0] {
        for outcome in [memory.check(&API, "ada", cost), {
            let ready = memory.store.check_now(&API, key("ada"), cost).unwrap().unwrap();
            Outcome::single(Checks::one(API, key("ada"), cost), ready).unwrap()
        }] {
            let decision = outcome.decision();
            assert!(decision.is_blocked() && !outcome.is_allowed());
            assert_eq!((decision.retry(), decision.remaining()), (Some(Retry::After(left)), 0));
        }
    }
    memory.advance(left);
    let after = memory.check(&API, "ada", 2);
    assert!(after.is_allowed() && !after.decision().is_blocked(), "nothing was charged");
    // The other denial is one of the quota.
    assert!(!memory.check(&API, "ada", 1).decision().is_blocked());
}

#[test]
fn a_block_denies_all_checks_of_a_decision_and_charges_none() {
    let memory = Memory::new();
    memory.block(&API, "ada", MINUTE);
    let checks = || {
        Checks::one(PLAIN, key("ada"), 2).and(API, key("ada"), 1).unwrap().and(BURST, key("ada"), 1).unwrap()
    };
    let outcome = ready(memory.store.check(checks())).unwrap();
    let blocked: Vec<_> = outcome.decisions().iter().map(portcullis_core::Decision::is_blocked).collect();
    assert_eq!((outcome.is_allowed(), blocked), (false, vec![false, true, false]));
    assert!(outcome.decision().is_blocked());
    ready(memory.store.unblock(&API, key("ada"))).unwrap();
    let outcome = ready(memory.store.check(checks())).unwrap();
    assert!(outcome.is_allowed() && outcome.decisions()[0].remaining() == 0);
}

#[test]
fn a_block_comes_before_a_grant_and_a_grant_before_the_quota() {
    let memory = Memory::new();
    memory.grant(&API, "ada", Quota::per_hour(50), 3 * MINUTE);
    memory.block(&API, "ada", MINUTE);
    assert!(memory.check(&API, "ada", 1).decision().is_blocked());
    memory.advance(MINUTE);
    assert_eq!(memory.check(&API, "ada", 1).decision().limit(), 50);
    memory.advance(2 * MINUTE);
    assert_eq!(memory.check(&API, "ada", 1).decision().limit(), 2);
}

#[test]
fn a_decision_over_several_keys_has_one_grant_each() {
    let memory = Memory::new();
    memory.grant(&BURST, "ada", Quota::per_second(1).burst(9), MINUTE);
    let checks = Checks::one(PLAIN, key("ada"), 1).and(API, key("ada"), 1).unwrap();
    let outcome = ready(memory.store.check(checks.and(BURST, key("ada"), 1).unwrap())).unwrap();
    let grants: Vec<_> = (0..3).map(|index| outcome.grant(index).is_some()).collect();
    assert_eq!(grants, [false, false, true]);
    assert_eq!(outcome.decisions()[2].limit(), 9);
    let limits: Vec<_> = outcome.into_receipts().map(|receipt| receipt.policy().strategy().limit()).collect();
    assert_eq!(limits, [2, 2, 9]);
}

#[test]
fn denials_within_the_time_block_a_key_for_longer_each_time() {
    let memory = Memory::new();
    let lock_out = LockOut::after(3).within(MINUTE).block_for(MINUTE).up_to(3 * MINUTE);
    let record = |denials| ready(memory.store.record_denials(&API, key("ada"), denials, &lock_out)).unwrap();
    assert_eq!([record(1), record(1)], [None, None]);
    for minutes in [1, 2, 3, 3] {
        let block = record(3).unwrap();
        assert_eq!(block.length(), minutes * MINUTE);
        assert!(memory.check(&API, "ada", 1).decision().is_blocked());
        assert_eq!(record(9), None, "a blocked key counts no denials");
        memory.advance(block.length());
        assert!(!memory.check(&API, "ada", 0).decision().is_blocked());
    }
    ready(memory.store.unblock(&API, key("ada"))).unwrap();
    assert_eq!(memory.record(&API, "ada"), Override::NONE);
}

#[test]
fn a_clock_that_is_set_back_lengthens_no_block() {
    let memory = Memory::new();
    memory.block(&API, "ada", MINUTE);
    memory.clock.set(Timestamp::from_micros(1));
    assert_eq!(memory.check(&API, "ada", 1).decision().retry(), Some(Retry::After(MINUTE)));
    memory.advance(MINUTE);
    assert!(memory.check(&API, "ada", 1).is_allowed());
}

#[test]
fn invalid_changes_are_errors_that_name_the_policy() {
    let memory = Memory::new();
    let error = |answer: StoreFuture<()>, why: &str| {
        let error = ready(answer).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unsupported);
        let text = error.to_string();
        assert!(text.contains("policy") && text.contains(why), "{text}");
    };
    let (store, ada) = (&memory.store, key("ada"));
    error(store.set_grant(&PLAIN, ada, Some((Quota::per_hour(5), MINUTE))), "plain has no grants and blocks");
    error(store.block(&PLAIN, ada, MINUTE), "`Policy::allow_overrides`");
    error(store.unblock(&PLAIN, ada), "plain");
    error(store.block(&API, ada, Duration::ZERO), "at least 1 us");
    error(store.block(&API, ada, Duration::MAX), "2^51");
    error(store.set_grant(&API, ada, Some((Quota::per_hour(5).burst(6), MINUTE))), "burst of 6");
    error(store.set_grant(&API, ada, Some((Quota::per_hour(5), Duration::ZERO))), "0ns");
    assert_eq!(store.stats().overrides, 0);
}

#[test]
fn the_grant_of_an_outcome_is_cut_if_the_clock_is_set_back() {
    let memory = Memory::new();
    let before = memory.clock.now();
    memory.advance(60 * MINUTE);
    memory.grant(&API, "ada", Quota::per_hour(5), MINUTE);
    memory.clock.set(before);
    let outcome = memory.check(&API, "ada", 1);
    assert_eq!(outcome.grant(0).unwrap().until(), before.saturating_add(MINUTE));
    assert_eq!(memory.record(&API, "ada").grant(), outcome.grant(0));
}
