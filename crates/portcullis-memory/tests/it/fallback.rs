//! The fallback of a store that fails: it decides after errors only, and never about charges of the store.

mod env;
mod open_for;
mod overload;
mod overrides;
mod renewals;
mod whole_limit;

use std::sync::atomic::Ordering;
use std::time::Duration;

use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{Policy, Retry, Secret, StoreErrorKind};
use portcullis_memory::{Fallback, MemoryStore};
use portcullis_testing::ManualClock;
use proptest::prelude::*;

use self::env::{CLOSED, Env, Faulty, LOCAL, OPEN, OPEN_FOR, OTHER, START, key, now};

#[test]
fn a_local_policy_is_decided_and_described_by_its_share() {
    for later in [false, true] {
        let env = Env::new(later);
        assert!(!env.ask(&LOCAL, 5).unwrap().decision().is_degraded());
        env.down(true);
        for left in [2, 1, 0] {
            let outcome = env.ask(&LOCAL, 1).unwrap();
            let decision = outcome.decision();
            assert!(decision.is_allowed() && decision.is_degraded() && decision.is_metered());
            assert_eq!((decision.limit(), decision.remaining()), (3, left));
            assert_eq!(outcome.failure().unwrap().to_string(), "no answer");
        }
        let denied = env.ask(&LOCAL, 1).unwrap();
        assert!(!denied.is_allowed() && denied.decision().is_degraded());
        assert!(matches!(denied.decision().retry(), Some(Retry::After(_))));
        // The store's own charges are unchanged, and nothing is replayed.
        env.down(false);
        let decision = env.ask(&LOCAL, 1).unwrap().into_decision();
        assert_eq!((decision.is_degraded(), decision.remaining()), (false, 6));
    }
}

#[test]
fn the_answer_is_ready_if_the_failure_was() {
    let env = Env::new(false);
    env.down(true);
    assert!(env.store.check(Checks::one(LOCAL, key(), 1)).into_ready().is_ok());
}

#[test]
fn a_cost_that_fits_the_policy_but_not_the_share_is_an_error() {
    let env = Env::new(false);
    env.down(true);
    assert_eq!(env.ask(&LOCAL, 4).unwrap_err().kind(), StoreErrorKind::TimedOut);
    assert_eq!(env.ask(&LOCAL, 13).unwrap().decision().retry(), Some(Retry::Never));
    assert_eq!(env.left(&LOCAL), 3);
}

#[test]
fn an_error_is_returned_if_a_policy_is_closed_or_all_are_open() {
    let env = Env::new(false);
    env.down(true);
    let with = |first: Policy, second| Checks::one(first, key(), 1).and(second, key(), 1).unwrap();
    assert!(env.ask(&OPEN, 1).is_err());
    for checks in [with(LOCAL, CLOSED), with(CLOSED, OPEN_FOR), with(OPEN, CLOSED)] {
        assert!(env.check(checks).is_err());
    }
    // Nothing was charged locally in the meantime.
    assert_eq!((env.store.stats().entries, env.left(&LOCAL)), (0, 3));
}

#[test]
fn an_open_policy_admits_and_the_local_one_decides() {
    let env = Env::new(false);
    env.down(true);
    let both = || Checks::one(OPEN, key(), 1).and(LOCAL, key(), 1).unwrap();
    for left in [2, 1, 0] {
        let outcome = env.check(both()).unwrap();
        assert_eq!((outcome.decision().policy().as_str(), outcome.decision().remaining()), ("local", left));
        let open = &outcome.decisions()[0];
        assert!(open.is_allowed() && open.is_degraded() && !open.is_metered());
        let receipts: Vec<_> = outcome.into_receipts().collect();
        assert!(receipts.len() == 1 && *receipts[0].policy() == LOCAL && receipts[0].fallback_id().is_some());
    }
    assert!(!env.check(both()).unwrap().is_allowed());
}

#[test]
fn local_policies_are_charged_together_or_not_at_all() {
    let env = Env::new(false);
    env.down(true);
    let both = || Checks::one(LOCAL, key(), 1).and(OTHER, key(), 1).unwrap();
    assert!(env.check(both()).unwrap().is_allowed());
    assert!(env.check(both()).unwrap().is_allowed());
    let denied = env.check(both()).unwrap();
    assert_eq!((denied.is_allowed(), denied.decision().policy().as_str()), (false, "other"));
    assert_eq!((env.left(&LOCAL), env.left(&OTHER)), (1, 0));
}

#[test]
fn a_receipt_is_corrected_where_it_was_charged() {
    for later in [false, true] {
        let env = Env::new(later);
        let shared = env.receipt(&LOCAL, 2);
        env.down(true);
        let (first, second) = (env.receipt(&LOCAL, 1), env.receipt(&LOCAL, 1));
        // In the memory while the store is down, and also after it has recovered.
        let after = now(env.store.refund(first)).unwrap();
        assert!(after.is_degraded() && after.is_metered());
        assert_eq!((after.limit(), after.remaining()), (3, 2));
        env.down(false);
        let settled = now(env.store.settle(second, 3)).unwrap();
        assert!(settled.decision.is_degraded() && settled.uncharged == 0);
        assert_eq!((settled.decision.limit(), settled.decision.remaining()), (3, 0));
        assert_eq!(env.faulty.corrected.load(Ordering::Relaxed), 0);
        assert_eq!(env.left(&LOCAL), 10);

        // What the store has charged is corrected there, which fails while it is down.
        assert_eq!(now(env.store.refund(shared)).unwrap().remaining(), 12);
        let shared = env.receipt(&LOCAL, 2);
        env.down(true);
        assert!(now(env.store.settle(shared, 1)).is_err());
        assert_eq!(env.left(&LOCAL), 0);
        assert_eq!(env.faulty.corrected.load(Ordering::Relaxed), 2);
    }
}

#[test]
fn a_nested_fallback_keeps_its_own_receipts() {
    let env = Env::new(false);
    let clock = env.clock.clone();
    env.down(true);
    let Env { store, .. } = env;
    let outer = Fallback::builder(store).clock(clock).build();
    let ask = |cost| now(outer.check(Checks::one(LOCAL, key(), cost))).unwrap();
    let receipt = ask(2).into_receipts().next().unwrap();
    assert_eq!(outer.stats().entries, 0);
    assert_eq!(now(outer.refund(receipt)).unwrap().remaining(), 3);
    assert_eq!(ask(0).decision().remaining(), 3);
}

#[test]
fn a_reset_applies_to_the_store_and_the_memory() {
    let env = Env::new(false);
    let _ = env.receipt(&LOCAL, 7);
    env.down(true);
    let _ = env.receipt(&LOCAL, 3);
    env.down(false);
    assert_eq!(now(env.store.reset(&LOCAL, key())), Ok(()));
    assert_eq!(env.left(&LOCAL), 12);
    env.down(true);
    assert_eq!(env.left(&LOCAL), 3);
    let _ = env.receipt(&LOCAL, 3);
    assert!(now(env.store.reset(&LOCAL, key())).is_err());
    assert_eq!(env.left(&LOCAL), 3);
}

#[test]
fn a_flood_of_keys_shares_4096_budgets_and_spares_known_keys() {
    let clock = ManualClock::default();
    clock.set(START);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let faulty = Faulty::new(store, false, None);
    faulty.down.store(1, Ordering::Relaxed);
    let store = Fallback::builder(faulty).clock(clock).capacity(10).build();
    let admitted = |name: u32| {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("user", &name.to_be_bytes());
        let key = hasher.finish().unwrap();
        now(store.check(Checks::one(LOCAL, key, 1))).unwrap().is_allowed()
    };
    let passed = (0..100_000).filter(|name| admitted(*name)).count();
    assert_eq!(passed, 10 + 3 * 4_096);
    assert_eq!((store.stats().entries, store.stats().overflow_states), (10, 4_096));
    assert!(admitted(0) && admitted(0) && !admitted(0));
}

#[test]
fn the_fallback_allocates_nothing_while_the_store_answers() {
    let count = |later: bool, timed: bool, policy: &Policy| {
        let env = Env::new(later);
        if timed {
            let _ = env.ask(&OPEN_FOR, 1);
        }
        let bare = |checks| now(env.faulty.check(checks));
        let [mut direct, mut wrapped] = [None, None];
        let checks = || Checks::one(policy.clone(), key(), 1);
        // The first charge of a key allocates.
        let _ = bare(checks());
        let direct_count = allocation_counter::measure(|| direct = Some(bare(checks()))).count_total;
        let wrapped_count = allocation_counter::measure(|| wrapped = Some(env.check(checks()))).count_total;
        assert!(direct.unwrap().unwrap().is_allowed() && wrapped.unwrap().unwrap().is_allowed());
        wrapped_count - direct_count
    };
    for policy in [LOCAL, OPEN, CLOSED, OPEN_FOR] {
        assert_eq!(count(false, true, &policy), 0, "{policy:?}");
    }
    assert_eq!([OPEN, CLOSED].map(|policy| count(true, false, &policy)), [0, 0]);
    assert_eq!([LOCAL, OPEN_FOR].map(|policy| count(true, false, &policy)), [1, 1]);
    assert_eq!(count(true, true, &OPEN), 1);
}

#[test]
fn a_known_key_costs_one_allocation_while_the_store_is_down() {
    let env = Env::new(false);
    env.down(true);
    let _ = env.ask(&LOCAL, 1);
    let mut outcome = None;
    let mut checks = Some(Checks::one(LOCAL, key(), 1));
    let info = allocation_counter::measure(|| outcome = checks.take().map(|checks| env.check(checks)));
    assert!(outcome.unwrap().unwrap().is_allowed());
    assert_eq!(info.count_total, 1);
}

proptest! {
    /// While the store answers, it alone decides; while it fails, the memory with the share alone decides.
    #[test]
    fn no_request_is_decided_by_both_stores(
        steps in prop::collection::vec((any::<bool>(), 0..3_u64, 0..40_u64), 1..200),
        later in any::<bool>(),
    ) {
        for policy in [LOCAL, OTHER] {
            let env = Env::new(later);
            let share = policy.share().unwrap();
            let [up, down] = [(); 2].map(|()| MemoryStore::builder().clock(env.clock.clone()).build());
            for (is_down, cost, seconds) in &steps {
                env.wait(Duration::from_secs(*seconds));
                env.down(*is_down);
                let decision = env.ask(&policy, *cost).unwrap().into_decision();
                let alone = if *is_down {
                    now(down.check(Checks::one(share.clone(), key(), *cost))).unwrap().into_decision().as_fallback()
                } else {
                    now(up.check(Checks::one(policy.clone(), key(), *cost))).unwrap().into_decision()
                };
                prop_assert_eq!(decision, alone);
            }
        }
    }
}
