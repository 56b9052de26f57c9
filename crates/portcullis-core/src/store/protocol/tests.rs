use super::*;
use crate::{Key, Policy, Quota, Secret};

const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// One state, which all checks share, as in a store without room.
struct Overflow {
    state: LoadedState,
}

impl States for Overflow {
    fn get(&self, _: usize) -> Option<&State> {
        self.state.state()
    }

    fn change(&mut self, _: usize, units: u64, change: impl FnOnce(&mut Option<State>) -> bool) {
        core::slice::from_mut(&mut self.state).change(0, units, change);
    }

    fn is_same(&self, _: usize, _: usize) -> bool {
        true
    }

    fn is_shared(&self, _: usize) -> bool {
        true
    }
}

fn key(name: &str) -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", name.as_bytes());
    hasher.finish().unwrap()
}

fn policy(name: &'static str, limit: u64) -> Policy {
    Policy::fixed_window(name, Quota::per_hour(limit))
}

fn checks(of: &[(&'static str, u64, u64)]) -> Checks {
    let mut checks = of.iter().map(|&(name, limit, cost)| (policy(name, limit), cost));
    let (first, cost) = checks.next().unwrap();
    checks.fold(Checks::one(first, key("ada"), cost), |all, (policy, cost)| {
        all.and(policy, key("ada"), cost).unwrap()
    })
}

fn remaining(outcome: &Outcome) -> [u64; 2] {
    let [first, second] = outcome.decisions() else { panic!("two decisions") };
    [first.remaining(), second.remaining()]
}

#[test]
fn a_denial_changes_no_state() {
    let mut states = [LoadedState::default(), LoadedState::default()];
    let outcome = check(checks(&[("a", 5, 2), ("b", 1, 2)]), NOW, &mut states[..]);
    assert!(!outcome.is_allowed());
    assert_eq!(remaining(&outcome), [5, 1]);
    assert_eq!(states, [LoadedState::default(), LoadedState::default()]);
    assert_eq!(outcome.into_receipts().count(), 0);
}

#[test]
fn all_checks_are_charged_and_settled_one_by_one() {
    let mut states = [LoadedState::default(), LoadedState::default()];
    let outcome = check(checks(&[("a", 5, 2), ("b", 9, 3)]), NOW, &mut states[..]);
    assert_eq!(remaining(&outcome), [3, 6]);
    assert!(states.iter().all(LoadedState::has_changed));
    let mut receipts = outcome.into_receipts();
    let [first, second] = [receipts.next().unwrap(), receipts.next().unwrap()];

    let settlement = settle(first, 4, NOW, &mut states[..1]);
    assert_eq!((settlement.decision.remaining(), settlement.uncharged), (1, 0));
    let receipt = settlement.receipt.unwrap();
    assert_eq!(receipt.cost(), 4);
    assert_eq!(settle(receipt, 1, NOW, &mut states[..1]).decision.remaining(), 4);
    assert_eq!(refund(&second, NOW, &mut states[1..]).remaining(), 9);
    assert_eq!(states[1].state(), None);
}

#[test]
fn costs_of_checks_on_one_state_add_up() {
    let mut states = Overflow { state: LoadedState::default() };
    let outcome = check(checks(&[("a", 5, 3), ("b", 5, 3)]), NOW, &mut states);
    assert!(!outcome.is_allowed());
    let outcome = check(checks(&[("a", 5, 3), ("b", 5, 2)]), NOW, &mut states);
    assert!(outcome.is_allowed());
    assert!(!check(checks(&[("a", 5, 1)]), NOW, &mut states).is_allowed());
}

#[test]
fn a_shared_state_gets_no_refund_and_no_debt() {
    let mut states = Overflow { state: LoadedState::default() };
    let outcome = check(checks(&[("a", 5, 3)]), NOW, &mut states);
    let receipt = outcome.into_receipts().next().unwrap();
    assert_eq!(refund(&receipt, NOW, &mut states).remaining(), 2);
    let settlement = settle(receipt, 9, NOW, &mut states);
    assert_eq!((settlement.decision.remaining(), settlement.uncharged), (0, 4));
}

fn exports() -> Policy {
    crate::Concurrency::new("exports", 2).policy()
}

fn taken<S: States + ?Sized>(name: &str, cost: u64, now: Timestamp, states: &mut S) -> Receipt {
    let outcome = check(Checks::one(exports(), key(name), cost), now, states);
    outcome.into_receipts().next().expect("the permits are free")
}

#[test]
fn permits_are_renewed_as_long_as_they_are_held() {
    let second = |seconds| NOW.saturating_add(core::time::Duration::from_secs(seconds));
    let mut states = [LoadedState::default()];
    let receipt = taken("ada", 2, NOW, &mut states[..]);
    let renewal = Renewal::of(&receipt);
    assert_eq!((renewal.units(), renewal.runs()), (2, receipt.runs()));
    assert_eq!(renew(&renewal, second(20), &mut states[..]), Renewed { held: 2, lapsed: 0 });
    let receipt = settle(receipt, 1, second(40), &mut states[..]).receipt.unwrap();
    assert_eq!(renew(&Renewal::of(&receipt), second(40), &mut states[..]), Renewed { held: 1, lapsed: 0 });
    assert_eq!(renew(&renewal, second(40), &mut states[..]), Renewed { held: 1, lapsed: 1 });
    let mut read = [LoadedState::new(states[0].state().cloned())];
    assert_eq!(renew(&renewal, second(70), &mut read[..]), Renewed { held: 0, lapsed: 2 });
    assert!(!read[0].has_changed());
}

#[test]
fn a_renewal_of_a_policy_without_permits_finds_none() {
    let mut states = [LoadedState::default()];
    let outcome = check(checks(&[("a", 5, 2)]), NOW, &mut states[..]);
    let renewal = Renewal::of(&outcome.into_receipts().next().unwrap());
    let mut read = [LoadedState::new(states[0].state().cloned())];
    assert_eq!(renew(&renewal, NOW, &mut read[..]), Renewed { held: 0, lapsed: 2 });
    assert!(!read[0].has_changed());
}

#[test]
fn permits_of_a_shared_state_are_renewed_and_never_released() {
    let mut states = Overflow { state: LoadedState::default() };
    let (one, other) = (taken("ada", 1, NOW, &mut states), taken("eve", 1, NOW, &mut states));
    assert_eq!(refund(&one, NOW, &mut states).remaining(), 0);
    assert_eq!(settle(other.copy_for_retry(), 0, NOW, &mut states).decision.remaining(), 0);
    let later = NOW.saturating_add(core::time::Duration::from_secs(29));
    assert_eq!(renew(&Renewal::of(&other), later, &mut states), Renewed { held: 1, lapsed: 0 });
    let end = NOW.saturating_add(core::time::Duration::from_secs(30));
    assert_eq!(refund(&one, end, &mut states).remaining(), 1);
}

#[test]
fn a_renewal_under_another_lease_extends_by_that() {
    let mut states = [LoadedState::default()];
    let renewal = Renewal::of(&taken("ada", 1, NOW, &mut states[..]));
    let short = crate::Concurrency::new("exports", 2).lease(core::time::Duration::from_secs(5)).policy();
    let renewal = renewal.with_policy(&short).with_policy(&policy("exports", 2));
    assert_eq!(renewal.policy(), &short);
    assert_eq!(renew(&renewal, NOW, &mut states[..]), Renewed { held: 1, lapsed: 0 });
    let expires = NOW.as_micros() + 5_000_000;
    assert_eq!(short.strategy().expires_at(states[0].state().unwrap()), expires);
}
