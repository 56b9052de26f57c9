//! Grants and blocks in an outage.

use portcullis_core::overrides::LockOut;
use portcullis_core::store::{Checks, Store};
use portcullis_core::{Key, Policy, Quota, Retry, Secret};

use super::env::{Env, HALF_A_MINUTE, LOCAL, OPEN, key, now};
use super::{Duration, Fallback};

const MINUTE: Duration = Duration::from_secs(60);

fn local() -> Policy {
    LOCAL.allow_overrides()
}

#[test]
fn a_block_that_an_answer_has_shown_lasts_in_an_outage() {
    for later in [false, true] {
        let env = Env::new(later);
        // By another instance.
        now(env.faulty.block(&local(), key(), MINUTE)).unwrap();
        assert!(env.ask(&local(), 1).unwrap().decision().is_blocked());
        env.down(true);
        env.wait(HALF_A_MINUTE);
        let outcome = env.ask(&local(), 1).unwrap();
        let decision = outcome.decision();
        assert!(decision.is_blocked() && decision.is_degraded());
        assert_eq!(decision.retry(), Some(Retry::After(HALF_A_MINUTE)));
        env.wait(HALF_A_MINUTE);
        assert!(env.ask(&local(), 1).unwrap().is_allowed());
    }
}

#[test]
fn a_grant_applies_to_its_end_in_the_share_of_an_instance() {
    let env = Env::new(false);
    now(env.faulty.set_grant(&local(), key(), Some((Quota::per_day(40), MINUTE)))).unwrap();
    assert_eq!(env.ask(&local(), 1).unwrap().decision().limit(), 40);
    env.down(true);
    let outcome = env.ask(&local(), 1).unwrap();
    assert_eq!((outcome.decision().limit(), outcome.grant(0).is_some()), (10, true));
    let receipt = outcome.into_receipts().next().unwrap();
    assert_eq!(receipt.policy().strategy().limit(), 40);
    assert_eq!(now(env.store.refund(receipt)).unwrap().remaining(), 10);
    env.wait(MINUTE);
    assert_eq!(env.ask(&local(), 1).unwrap().decision().limit(), 3);
}

#[test]
fn an_answer_without_an_override_forgets_it() {
    let env = Env::new(false);
    now(env.store.block(&local(), key(), MINUTE)).unwrap();
    // By another instance.
    now(env.faulty.unblock(&local(), key())).unwrap();
    assert!(env.ask(&local(), 1).unwrap().is_allowed());
    env.down(true);
    assert!(env.ask(&local(), 1).unwrap().is_allowed());
}

#[test]
fn changes_through_the_fallback_are_known_without_an_answer() {
    let env = Env::new(true);
    let lock_out = LockOut::after(2).block_for(MINUTE);
    assert!(now(env.store.record_denials(&local(), key(), 2, &lock_out)).unwrap().is_some());
    env.down(true);
    assert!(env.ask(&local(), 1).unwrap().decision().is_blocked());
    assert!(now(env.store.unblock(&local(), key())).is_err(), "changes fail in an outage");
    assert!(env.ask(&local(), 1).unwrap().decision().is_blocked());
    env.down(false);
    now(env.store.unblock(&local(), key())).unwrap();
    now(env.store.set_grant(&local(), key(), Some((Quota::per_day(8), MINUTE)))).unwrap();
    env.down(true);
    assert_eq!(env.ask(&local(), 0).unwrap().decision().limit(), 2);
}

#[test]
fn a_known_block_denies_under_an_open_policy_as_well() {
    let env = Env::new(false);
    let open = OPEN.allow_overrides();
    env.down(true);
    assert!(env.ask(&open, 1).is_err(), "the caller allows it");
    env.down(false);
    now(env.store.block(&open, key(), MINUTE)).unwrap();
    env.down(true);
    let both = Checks::one(local(), key(), 1).and(open.clone(), key(), 1).unwrap();
    assert!(!env.check(both).unwrap().is_allowed());
    assert!(env.ask(&open, 1).unwrap().decision().is_blocked());
    env.wait(MINUTE);
    assert!(env.ask(&open, 1).is_err());
    assert_eq!(env.left(&local()), 3, "a blocked request has charged nothing");
}

#[test]
fn the_overrides_that_are_known_are_bounded() {
    let env = Env::new(false);
    let store = Fallback::builder(std::sync::Arc::clone(&env.faulty)).clock(env.clock.clone());
    let store = store.override_capacity(32).build();
    let keys: Vec<_> = (0..200_u32)
        .map(|number| {
            let mut hasher = Secret::published().hasher();
            hasher.writer().part("user", &number.to_be_bytes());
            hasher.finish().unwrap()
        })
        .collect();
    for key in &keys {
        now(store.block(&local(), *key, MINUTE)).unwrap();
    }
    env.down(true);
    let blocked = |key: &&Key| {
        let outcome = now(store.check(Checks::one(local(), **key, 1))).unwrap();
        outcome.decision().is_blocked()
    };
    assert_eq!(keys.iter().filter(blocked).count(), 32);
    env.down(false);
    // A grant, of which an operator gives few, takes the place of a block.
    now(store.set_grant(&local(), keys[0], Some((Quota::per_day(40), MINUTE)))).unwrap();
    env.down(true);
    assert_eq!(now(store.check(Checks::one(local(), keys[0], 1))).unwrap().decision().limit(), 10);
    assert_eq!(keys.iter().filter(blocked).count(), 31);
}
