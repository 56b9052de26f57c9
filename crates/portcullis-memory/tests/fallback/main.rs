//! What stands behind a store that fails: asked on errors only, and never for what the store has charged.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod open_for;
mod overload;
mod stage;
mod whole_limit;

use std::sync::atomic::Ordering;
use std::time::Duration;

use portcullis_core::{Checks, Policy, Retry, Secret, Store as _, StoreErrorKind};
use portcullis_memory::{Fallback, MemoryStore};
use portcullis_testing::ManualClock;
use proptest::prelude::*;

use self::stage::{CLOSED, Faulty, LOCAL, OPEN, OPEN_FOR, OTHER, START, Stage, key, now};

#[test]
fn a_local_policy_is_decided_by_its_share_and_every_figure_is_of_it() {
    for later in [false, true] {
        let stage = Stage::new(later);
        assert!(!stage.ask(&LOCAL, 5).unwrap().decision().is_degraded());
        stage.down(true);
        for left in [2, 1, 0] {
            let outcome = stage.ask(&LOCAL, 1).unwrap();
            let decision = outcome.decision();
            assert!(decision.is_allowed() && decision.is_degraded() && decision.is_metered());
            assert_eq!((decision.limit(), decision.remaining()), (3, left));
            assert_eq!(outcome.failure().unwrap().to_string(), "no answer");
        }
        let denied = stage.ask(&LOCAL, 1).unwrap();
        assert!(!denied.is_allowed() && denied.decision().is_degraded());
        assert!(matches!(denied.decision().retry(), Some(Retry::After(_))));
        // What the store has charged is as it was, and nothing is replayed.
        stage.down(false);
        let decision = stage.ask(&LOCAL, 1).unwrap().into_decision();
        assert_eq!((decision.is_degraded(), decision.remaining()), (false, 6));
    }
}

#[test]
fn the_answer_is_ready_if_the_failure_was() {
    let stage = Stage::new(false);
    stage.down(true);
    assert!(stage.store.check(Checks::one(LOCAL, key(), 1)).into_ready().is_ok());
}

#[test]
fn a_cost_that_fits_the_policy_and_not_the_share_is_no_verdict() {
    let stage = Stage::new(false);
    stage.down(true);
    assert_eq!(stage.ask(&LOCAL, 4).unwrap_err().kind(), StoreErrorKind::TimedOut);
    assert_eq!(stage.ask(&LOCAL, 13).unwrap().decision().retry(), Some(Retry::Never));
    assert_eq!(stage.left(&LOCAL), 3);
}

#[test]
fn an_error_is_passed_on_where_a_policy_is_closed_or_all_are_open() {
    let stage = Stage::new(false);
    stage.down(true);
    let with = |first: Policy, second| Checks::one(first, key(), 1).and(second, key(), 1).unwrap();
    assert!(stage.ask(&OPEN, 1).is_err());
    for checks in [with(LOCAL, CLOSED), with(CLOSED, OPEN_FOR), with(OPEN, CLOSED)] {
        assert!(stage.check(checks).is_err());
    }
    // Nothing was charged locally meanwhile.
    assert_eq!((stage.store.stats().entries, stage.left(&LOCAL)), (0, 3));
}

#[test]
fn an_open_policy_lets_through_and_the_local_one_decides() {
    let stage = Stage::new(false);
    stage.down(true);
    let both = || Checks::one(OPEN, key(), 1).and(LOCAL, key(), 1).unwrap();
    for left in [2, 1, 0] {
        let outcome = stage.check(both()).unwrap();
        assert_eq!((outcome.decision().policy().as_str(), outcome.decision().remaining()), ("local", left));
        let open = &outcome.decisions()[0];
        assert!(open.is_allowed() && open.is_degraded() && !open.is_metered());
        let receipts: Vec<_> = outcome.into_receipts().collect();
        assert!(receipts.len() == 1 && *receipts[0].policy() == LOCAL && receipts[0].stand_in().is_some());
    }
    assert!(!stage.check(both()).unwrap().is_allowed());
}

#[test]
fn local_policies_are_charged_together_or_not_at_all() {
    let stage = Stage::new(false);
    stage.down(true);
    let both = || Checks::one(LOCAL, key(), 1).and(OTHER, key(), 1).unwrap();
    assert!(stage.check(both()).unwrap().is_allowed());
    assert!(stage.check(both()).unwrap().is_allowed());
    let denied = stage.check(both()).unwrap();
    assert_eq!((denied.is_allowed(), denied.decision().policy().as_str()), (false, "other"));
    assert_eq!((stage.left(&LOCAL), stage.left(&OTHER)), (1, 0));
}

#[test]
fn a_receipt_goes_back_to_what_was_charged() {
    for later in [false, true] {
        let stage = Stage::new(later);
        let shared = stage.receipt(&LOCAL, 2);
        stage.down(true);
        let (first, second) = (stage.receipt(&LOCAL, 1), stage.receipt(&LOCAL, 1));
        // To the memory while the store is down, and also when it is back.
        let after = now(stage.store.refund(first)).unwrap();
        assert!(after.is_degraded() && after.is_metered());
        assert_eq!((after.limit(), after.remaining()), (3, 2));
        stage.down(false);
        let settled = now(stage.store.settle(second, 3)).unwrap();
        assert!(settled.decision.is_degraded() && settled.uncharged == 0);
        assert_eq!((settled.decision.limit(), settled.decision.remaining()), (3, 0));
        assert_eq!(stage.faulty.corrected.load(Ordering::Relaxed), 0);
        assert_eq!(stage.left(&LOCAL), 10);

        // And to the store what was charged there, which fails while it is down.
        assert_eq!(now(stage.store.refund(shared)).unwrap().remaining(), 12);
        let shared = stage.receipt(&LOCAL, 2);
        stage.down(true);
        assert!(now(stage.store.settle(shared, 1)).is_err());
        assert_eq!(stage.left(&LOCAL), 0);
        assert_eq!(stage.faulty.corrected.load(Ordering::Relaxed), 2);
    }
}

#[test]
fn a_fallback_behind_another_keeps_its_own_receipts() {
    let stage = Stage::new(false);
    let clock = stage.clock.clone();
    stage.down(true);
    let Stage { store, .. } = stage;
    let outer = Fallback::builder(store).clock(clock).build();
    let ask = |cost| now(outer.check(Checks::one(LOCAL, key(), cost))).unwrap();
    let receipt = ask(2).into_receipts().next().unwrap();
    assert_eq!(outer.stats().entries, 0);
    assert_eq!(now(outer.refund(receipt)).unwrap().remaining(), 3);
    assert_eq!(ask(0).decision().remaining(), 3);
}

#[test]
fn a_reset_is_of_both() {
    let stage = Stage::new(false);
    let _ = stage.receipt(&LOCAL, 7);
    stage.down(true);
    let _ = stage.receipt(&LOCAL, 3);
    stage.down(false);
    assert_eq!(now(stage.store.reset(&LOCAL, key())), Ok(()));
    assert_eq!(stage.left(&LOCAL), 12);
    stage.down(true);
    assert_eq!(stage.left(&LOCAL), 3);
    let _ = stage.receipt(&LOCAL, 3);
    assert!(now(stage.store.reset(&LOCAL, key())).is_err());
    assert_eq!(stage.left(&LOCAL), 3);
}

#[test]
fn a_flood_of_keys_shares_4096_budgets_and_takes_nothing_from_those_that_are_known() {
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
fn while_the_store_answers_nothing_is_allocated_for_what_stands_behind() {
    let count = |later: bool, watched: bool, policy: &Policy| {
        let stage = Stage::new(later);
        if watched {
            let _ = stage.ask(&OPEN_FOR, 1);
        }
        let bare = |checks| now(stage.faulty.check(checks));
        let [mut direct, mut behind] = [None, None];
        let asked = || Checks::one(policy.clone(), key(), 1);
        // The first charge of a key allocates.
        let _ = bare(asked());
        let direct_count = allocation_counter::measure(|| direct = Some(bare(asked()))).count_total;
        let behind_count = allocation_counter::measure(|| behind = Some(stage.check(asked()))).count_total;
        assert!(direct.unwrap().unwrap().is_allowed() && behind.unwrap().unwrap().is_allowed());
        behind_count - direct_count
    };
    for policy in [LOCAL, OPEN, CLOSED, OPEN_FOR] {
        assert_eq!(count(false, true, &policy), 0, "{policy:?}");
    }
    assert_eq!([OPEN, CLOSED].map(|policy| count(true, false, &policy)), [0, 0]);
    assert_eq!([LOCAL, OPEN_FOR].map(|policy| count(true, false, &policy)), [1, 1]);
    assert_eq!(count(true, true, &OPEN), 1);
}

#[test]
fn while_the_breaker_is_open_a_known_key_costs_the_error_a_box() {
    let stage = Stage::new(false);
    stage.down(true);
    let _ = stage.ask(&LOCAL, 1);
    let mut outcome = None;
    let mut asked = Some(Checks::one(LOCAL, key(), 1));
    let info = allocation_counter::measure(|| outcome = asked.take().map(|asked| stage.check(asked)));
    assert!(outcome.unwrap().unwrap().is_allowed());
    assert_eq!(info.count_total, 1);
}

proptest! {
    /// While the store answers, it alone does; while it fails, a store with the share alone does.
    #[test]
    fn no_request_is_decided_by_both(
        steps in prop::collection::vec((any::<bool>(), 0..3_u32, 0..40_u64), 1..200),
        later in any::<bool>(),
    ) {
        for policy in [LOCAL, OTHER] {
            let stage = Stage::new(later);
            let share = policy.share().unwrap();
            let [up, down] = [(); 2].map(|()| MemoryStore::builder().clock(stage.clock.clone()).build());
            for (is_down, cost, seconds) in &steps {
                stage.wait(Duration::from_secs(*seconds));
                stage.down(*is_down);
                let decision = stage.ask(&policy, *cost).unwrap().into_decision();
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
