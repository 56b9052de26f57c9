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
