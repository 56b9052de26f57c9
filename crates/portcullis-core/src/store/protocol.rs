//! The decision protocol: what a store does with the states of one call.
//!
//! A store locks or loads the states that a call names, calls one of the functions, and writes the states that have
//! changed. Evaluating, charging and reporting are the same for every store, so they are written once, here.
//!
//! ```
//! use portcullis::store::Checks;
//! use portcullis::store::protocol::{self, LoadedState};
//! use portcullis::{Policy, Quota, Secret, Timestamp};
//!
//! let mut hasher = Secret::published().hasher();
//! hasher.writer().part("user", b"ada");
//! let checks = Checks::one(Policy::gcra("search", Quota::per_second(1)), hasher.finish()?, 1);
//!
//! // A store reads one state per check, in a transaction, and writes back those that have changed.
//! let mut states = [LoadedState::new(None)];
//! let first = protocol::check(checks.clone(), Timestamp::EPOCH, &mut states[..]);
//! assert!(first.is_allowed() && states[0].has_changed());
//! let second = protocol::check(checks, Timestamp::EPOCH, &mut states[..]);
//! assert!(!second.is_allowed());
//! # Ok::<(), portcullis::key::KeyWriteError>(())
//! ```

use core::time::Duration;

use smallvec::SmallVec;

use crate::algorithm::{Evaluation, State};
use crate::charge::Run;
use crate::refund::Refund;
use crate::store::{CheckResult, Checks, Outcome, ReadyCheck, Renewal, Renewed};
use crate::{Decision, Policy, Receipt, Settlement, Strategy, Timestamp};

#[doc(hidden)]
pub use crate::store::outcome::Results;

/// The states of one call, locked or loaded until it ends: one per check, in the order of the checks, or the only one of a
/// receipt.
pub trait States {
    /// Returns the state of a check; `None` if its key has none.
    fn get(&self, index: usize) -> Option<&State>;

    /// Applies `apply` to the state of a check, and keeps the result if `apply` returns true. `None` removes the state.
    ///
    /// `units` is the maximum that `apply` charges: a store with a budget of memory makes space for them first.
    fn change(&mut self, index: usize, units: u64, apply: impl FnOnce(&mut Option<State>) -> bool);

    /// Whether two checks of the call are charged to one state. Only a store in which keys share a state because the
    /// store is full overrides this.
    fn is_same(&self, index: usize, other: usize) -> bool {
        index == other
    }

    /// Whether other keys use the state of a check as well. Nothing is refunded to such a state, and it gets no debt, because
    /// both would change what the other keys may do.
    fn is_shared(&self, index: usize) -> bool {
        let _ = index;
        false
    }
}

/// A state that a store has read, and whether it has to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedState {
    state: Option<State>,
    changed: bool,
}

impl LoadedState {
    /// Wraps what was read; `None` if there was nothing.
    pub const fn new(state: Option<State>) -> Self {
        Self { state, changed: false }
    }

    /// Returns the state as it is now; `None` is to be removed from the store.
    pub const fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    /// Whether the state differs from what was read, so that it has to be written or removed.
    pub const fn has_changed(&self) -> bool {
        self.changed
    }
}

impl States for [LoadedState] {
    fn get(&self, index: usize) -> Option<&State> {
        self.get(index)?.state()
    }

    fn change(&mut self, index: usize, _: u64, apply: impl FnOnce(&mut Option<State>) -> bool) {
        if let Some(loaded) = self.get_mut(index) {
            loaded.changed |= apply(&mut loaded.state);
        }
    }
}

/// Evaluates all checks, charges them if all fit, and reports.
pub fn check<S: States + ?Sized>(checks: Checks, now: Timestamp, states: &mut S) -> Outcome {
    check_with_blocks(checks, now, states, |_| None)
}

/// Like [`check`], without the outcome.
#[doc(hidden)]
#[inline]
pub fn results<S: States + ?Sized>(checks: &Checks, now: Timestamp, states: &mut S) -> Results {
    results_with_blocks(checks, now, states, |_| None)
}

/// Like [`check`], with keys that may be [blocked](crate::overrides::Block): `left` returns how long that of a check still is. A blocked check
/// is denied, and its state is not changed.
///
/// The store has replaced the policies of checks that are granted another quota by [`Checks::with_policy`].
pub fn check_with_blocks<S: States + ?Sized>(
    checks: Checks,
    now: Timestamp,
    states: &mut S,
    left: impl Fn(usize) -> Option<Duration>,
) -> Outcome {
    results_with_blocks(&checks, now, states, left).into_outcome(checks)
}

#[inline]
fn results_with_blocks<S: States + ?Sized>(
    checks: &Checks,
    now: Timestamp,
    states: &mut S,
    left: impl Fn(usize) -> Option<Duration>,
) -> Results {
    let mut evaluations: SmallVec<[CheckEvaluation; 2]> = SmallVec::new();
    for (index, check) in checks.iter().enumerate() {
        let (policy, cost) = (&check.policy, check.units());
        let earlier = (0..evaluations.len()).rfind(|other| states.is_same(index, *other));
        let total = earlier.map_or(0, |earlier| evaluations[earlier].total).saturating_add(cost);
        let units = if cost == 0 { 0 } else { total };
        let evaluation = policy.strategy().evaluate(states.get(index), now, units);
        evaluations.push(CheckEvaluation { evaluation, total });
    }
    let is_blocked = (0..evaluations.len()).any(|index| left(index).is_some());
    let charge = !is_blocked && evaluations.iter().all(|check| check.evaluation.admitted);
    let ready = |policy: &Policy, CheckResult { snapshot, position, .. }| ReadyCheck {
        decision: Decision::new(policy, now, snapshot),
        position,
    };
    Results::of(checks, |index, check| {
        let (policy, cost) = (&check.policy, check.units());
        let CheckEvaluation { evaluation, total } = evaluations[index];
        let strategy = policy.strategy();
        if let Some(left) = left(index) {
            return ready(policy, CheckResult::blocked(strategy, states.get(index), now, left));
        }
        let charged = if charge { cost } else { 0 };
        states.change(index, charged, |state| strategy.apply_decision(state, now, cost, evaluation, charge));
        // Checks that share a state are denied for the sum of their costs.
        let units = if evaluation.admitted { cost } else { total };
        ready(policy, CheckResult::of(strategy, states.get(index), now, units, evaluation.admitted))
    })
}

/// Evaluates a single check, and charges it if it fits. Returns whether it fits: the state after it gives the figures, which a
/// store may compute when it has unlocked the state.
// For the memory store alone, which makes a `ReadyCheck` of it.
#[doc(hidden)]
pub fn decide<S: States + ?Sized>(strategy: &Strategy, cost: u64, now: Timestamp, states: &mut S) -> bool {
    let evaluation = strategy.evaluate(states.get(0), now, cost);
    let admitted = evaluation.admitted;
    let charged = if admitted { cost } else { 0 };
    states.change(0, charged, |state| strategy.apply_decision(state, now, cost, evaluation, admitted));
    admitted
}

/// Refunds what a receipt proves, as far as the state still holds it, and peeks.
pub fn refund<S: States + ?Sized>(receipt: &Receipt, now: Timestamp, states: &mut S) -> Decision {
    refund_to(receipt, 0, now, states);
    peek(receipt, now, states)
}

/// Corrects what a receipt proves to `cost`: refunds the difference, the newest units first, or charges it whether it fits
/// or not.
pub fn settle<S: States + ?Sized>(receipt: Receipt, cost: u64, now: Timestamp, states: &mut S) -> Settlement {
    let missing = receipt.missing(cost);
    let (mut uncharged, mut run) = (0, None);
    if missing == 0 {
        refund_to(&receipt, cost, now, states);
    } else {
        let strategy = receipt.policy().strategy();
        let most = if states.is_shared(0) {
            strategy.snapshot(states.get(0), now, 0, true).remaining
        } else {
            u64::MAX
        };
        states.change(0, missing, |state| {
            let forced = strategy.force_charge(state, now, missing.min(most));
            uncharged = forced.uncharged.saturating_add(missing.saturating_sub(most));
            run = Some(Run { units: forced.charged, position: strategy.position(state.as_ref(), now) });
            forced.changed
        });
    }
    let decision = peek(&receipt, now, states);
    let receipt = Some(receipt.settled(cost, run, now));
    Settlement { decision, uncharged, receipt }
}

/// Renews the permits that the state still holds.
///
/// Permits are renewed in a [shared](States::is_shared) state, too: that changes nothing for the other keys but what the permits
/// already do.
pub fn renew<S: States + ?Sized>(renewal: &Renewal, now: Timestamp, states: &mut S) -> Renewed {
    let mut held = 0;
    states.change(0, 0, |state| {
        let renewed = renewal.policy().strategy().renew(state, now, renewal.runs());
        held = renewed.held;
        renewed.changed
    });
    renewal.found(held)
}

fn refund_to<S: States + ?Sized>(receipt: &Receipt, cost: u64, now: Timestamp, states: &mut S) {
    let refund = if states.is_shared(0) { Refund::of(&[]) } else { receipt.refund_to(cost) };
    states.change(0, 0, |state| receipt.policy().strategy().refund(state, now, refund));
}

fn peek<S: States + ?Sized>(receipt: &Receipt, now: Timestamp, states: &S) -> Decision {
    let policy = receipt.policy();
    Decision::new(policy, now, policy.strategy().snapshot(states.get(0), now, 0, true))
}

/// The evaluation of one check.
#[derive(Clone, Copy)]
struct CheckEvaluation {
    evaluation: Evaluation,
    /// The units of this check and of those before it that are charged to the same state.
    total: u64,
}

#[cfg(test)]
mod tests;
