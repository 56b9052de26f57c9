//! Denials of one key, one after another: from the second one on, the shard is not locked for them.

use std::time::Duration;

use portcullis_core::store::{Checks, Store};
use portcullis_core::{Decision, Policy, Quota};
use portcullis_memory::MemoryStore;

use super::{Hand, allowed, check, key};

const POLICIES: [Policy; 5] = [
    Policy::gcra("gcra", Quota::per_second(3).burst(4)),
    Policy::token_bucket("token-bucket", Quota::per_minute(7)),
    Policy::leaky_bucket("leaky-bucket", Quota::per_minute(7)),
    Policy::fixed_window("fixed-window", Quota::per_minute(5)),
    Policy::sliding_window("sliding-window", Quota::per_minute(5)),
];
const START: Duration = Duration::from_secs(1_000_000);

#[test]
fn repeated_denials_equal_those_of_algorithm() {
    for policy in POLICIES {
        let clock = Hand::default();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let (mut state, mut denials) = (None, 0);
        for step in 0..2_000 {
            clock.set(START + Duration::from_millis(41) * step);
            let now = portcullis_core::Clock::now(&clock);
            // Some fit while others do not.
            for cost in [3, 1, 0, 3, 9] {
                let decided = policy.strategy().decide(state.as_ref(), now, cost);
                let snapshot =
                    policy.strategy().snapshot(decided.after.as_ref(), now, cost, decided.admitted);
                let expected = Decision::new(&policy, now, snapshot);
                let outcome = check(&store, Checks::one(policy.clone(), key("ada"), cost));
                assert_eq!(*outcome.decision(), expected, "{policy:?} at {now} for {cost}");
                if !outcome.is_allowed() {
                    denials += 1;
                }
                state = decided.after;
            }
        }
        assert!(denials > 3_000, "{denials}");
    }
}

#[test]
fn changed_state_ends_denials() {
    for policy in POLICIES {
        let clock = Hand::default();
        clock.set(START);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let deny_often = || assert!((0..4).all(|_| !allowed(&store, &policy, "ada")));
        let charge = || check(&store, Checks::one(policy.clone(), key("ada"), 2)).into_receipts().next();
        let mut receipts = vec![charge().unwrap(), charge().unwrap()];
        while allowed(&store, &policy, "ada") {}
        deny_often();
        let refunded = store.refund(receipts.pop().unwrap()).into_ready();
        assert!(refunded.is_ok_and(|refunded| refunded.is_ok()));
        assert!(allowed(&store, &policy, "ada") && allowed(&store, &policy, "ada"), "{policy:?}");
        deny_often();
        let settled = store.settle(receipts.pop().unwrap(), 1).into_ready();
        assert!(settled.is_ok_and(|settled| settled.is_ok()));
        assert!(allowed(&store, &policy, "ada"), "{policy:?}");
        deny_often();
        assert!(store.reset(&policy, key("ada")).into_ready().is_ok_and(|reset| reset.is_ok()));
        assert!(allowed(&store, &policy, "ada"), "{policy:?}");
        while allowed(&store, &policy, "ada") {}
        deny_often();
        // What others change is nothing to it.
        assert!(allowed(&store, &policy, "grace") && !allowed(&store, &policy, "ada"));
        // With another policy, in one call.
        let other = Policy::gcra("other", Quota::per_second(9));
        let both = Checks::one(policy.clone(), key("ada"), 1).and(other, key("ada"), 1).unwrap();
        assert!(!check(&store, both.clone()).is_allowed());
        clock.set(START + Duration::from_mins(3));
        assert!(check(&store, both).is_allowed() && allowed(&store, &policy, "ada"), "{policy:?}");
    }
}
