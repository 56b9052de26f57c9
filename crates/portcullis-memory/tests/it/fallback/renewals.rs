//! Renewals of permits, some of which were taken in the store and some in the fallback.

use std::time::Duration;

use portcullis_core::store::{Renewal, Renewed, Store as _};
use portcullis_core::{Concurrency, FailureMode, Policy, Receipt, StoreError};

use super::env::{Env, now};

const HELD: Renewed = Renewed { held: 1, lapsed: 0 };
const LAPSED: Renewed = Renewed { held: 0, lapsed: 1 };

fn exports() -> Policy {
    Concurrency::new("exports", 4).on_store_failure(FailureMode::local(2)).policy()
}

fn renew(env: &Env, receipts: &[&Receipt]) -> Result<Vec<Renewed>, StoreError> {
    now(env.store.renew(receipts.iter().map(|receipt| Renewal::of(receipt)).collect()))
}

#[test]
fn each_permit_is_renewed_where_it_was_taken() {
    for later in [false, true] {
        let env = Env::new(later);
        let stored = env.receipt(&exports(), 1);
        env.down(true);
        let local = env.receipt(&exports(), 1);
        let other = env.receipt(&exports(), 1);
        assert!(!env.ask(&exports(), 1).unwrap().is_allowed(), "the share has two permits");
        assert!(local.fallback_id().is_some() && stored.fallback_id().is_none());
        // The store keeps its permit until its lease ends, and the outage does not affect those in memory.
        env.wait(Duration::from_secs(20));
        assert_eq!(renew(&env, &[&local]), Ok(vec![HELD]));
        assert_eq!(renew(&env, &[&local, &stored]).unwrap_err().to_string(), "no answer");
        assert_eq!(renew(&env, &[&stored]).unwrap_err().to_string(), "no answer");
        env.down(false);
        assert_eq!(renew(&env, &[&local, &stored, &local]), Ok(vec![HELD; 3]));
        env.wait(Duration::from_secs(15));
        assert_eq!(renew(&env, &[&other, &stored, &local]), Ok(vec![LAPSED, HELD, HELD]));
        let decision = now(env.store.refund(local)).unwrap();
        assert_eq!((decision.is_degraded(), decision.remaining()), (true, 2));
        let decision = now(env.store.refund(stored)).unwrap();
        assert_eq!((decision.is_degraded(), decision.remaining()), (false, 4));
        assert_eq!(renew(&env, &[]), Ok(Vec::new()));
    }
}

#[test]
fn permits_of_another_fallback_are_not_renewed_here() {
    let env = Env::new(false);
    env.down(true);
    let local = env.receipt(&exports(), 1);
    let another = env.another();
    env.down(false);
    let renewed = now(another.renew(vec![Renewal::of(&local)]));
    assert_eq!(renewed, Ok(vec![LAPSED]));
}
