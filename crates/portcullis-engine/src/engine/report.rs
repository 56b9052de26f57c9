//! The events that follow from an answer of the store.

use std::slice;

use portcullis_core::store::{Check, Outcome};
use portcullis_core::{Decision, Key, PolicyName, Receipt, Settlement, StoreError};

use super::Limits;
use crate::event::{EventKeys, EventKind, FoundKeys, SettlementLoss, Uncounted};
use crate::limit::is_in_flight;

/// Emits an event about one key.
pub fn of_key<'a>(limits: &'a Limits, policy: &'a PolicyName, key: Key, kind: EventKind<'a>) {
    limits.emit(kind, || EventKeys::One(policy, key));
}

/// Emits that a request is admitted. `shadows` are the decisions of the policies that are tried out.
#[inline]
pub fn admitted(limits: &Limits, decisions: &[Decision], shadows: &[Decision], keys: Option<&FoundKeys>) {
    #[cfg(feature = "runtime")]
    if !shadows.is_empty() {
        limits.log_tried(shadows);
    }
    if decisions.is_empty() {
        limits.emit_uncounted(Uncounted::Shadows(shadows), || EventKeys::found(keys));
    } else {
        limits.emit(EventKind::Admitted { decisions }, || EventKeys::found(keys));
    }
}

/// Emits the state of the store that an answer shows. A denial from memory, a check that a lease has paid, and the
/// denial of a client that is blocked under all policies show none.
#[inline]
pub fn answered(limits: &Limits, answer: Result<&Outcome, &StoreError>) {
    match answer {
        Ok(outcome) if outcome.is_remembered() || outcome.is_leased() => {}
        Ok(outcome)
            if outcome.failure().is_none()
                && (!limits.is_store_failing() || limits.engine().has_denied(outcome)) => {}
        Ok(outcome) => limits.emit_store_state(outcome.failure()),
        Err(error) => limits.emit_store_state(Some(error)),
    }
}

/// Emits what a request was charged, if an observer counts it: for each policy that has charged it, unless one has denied it.
#[inline]
pub fn charged(limits: &Limits, checks: &[Check], decisions: &[Decision]) {
    if limits.engine().observers().want_charges() {
        each_charge(limits, checks, decisions);
    }
}

#[cold]
fn each_charge(limits: &Limits, checks: &[Check], decisions: &[Decision]) {
    if !decisions.iter().all(Decision::is_allowed) {
        return;
    }
    let is_charged = |(check, decision): &(&Check, &Decision)| check.cost > 0 && decision.is_metered();
    for (check, decision) in checks.iter().zip(decisions).filter(is_charged) {
        let kind = if is_in_flight(&check.policy) {
            EventKind::PermitAcquired { decision }
        } else {
            EventKind::Charged { decision, units: check.cost }
        };
        of_key(limits, decision.policy(), check.key, kind);
    }
}

/// Emits the answer to a charge of `units` beyond those of the admission.
pub fn charged_more(limits: &Limits, outcome: &Outcome, units: u64) {
    let decisions = outcome.decisions();
    let kind = if outcome.is_allowed() {
        EventKind::ChargedMore { decisions, units }
    } else {
        EventKind::ChargeDenied { decisions, units }
    };
    limits.emit(kind, || EventKeys::of_checks(outcome.checks()));
}

/// Emits what a refund of `units` has changed, or that the store fails.
pub fn refunded(limits: &Limits, key: Key, units: u64, answer: &Result<Decision, StoreError>) {
    match answer {
        Ok(decision) => {
            of_key(limits, decision.policy(), key, EventKind::Refunded { decision, units });
        }
        Err(error) => limits.emit_store_state(Some(error)),
    }
}

/// Emits the settlement of a charge of `before` units to `cost`.
pub fn settled(limits: &Limits, key: Key, before: u64, cost: u64, settlement: &Settlement) {
    let Settlement { decision, uncharged, .. } = settlement;
    let policy = decision.policy();
    if cost < before {
        let units = before.saturating_sub(cost);
        of_key(limits, policy, key, EventKind::Refunded { decision, units });
    } else {
        used_up(limits, key, cost.saturating_sub(before), settlement);
    }
    if *uncharged > 0 {
        of_key(limits, policy, key, EventKind::DebtExceeded { policy, uncharged: *uncharged });
    }
}

/// Emits what a settlement has charged of `units`.
pub fn used_up(limits: &Limits, key: Key, units: u64, settlement: &Settlement) {
    let Settlement { decision, uncharged, .. } = settlement;
    let units = units.saturating_sub(*uncharged);
    let kind = EventKind::ChargedMore { decisions: slice::from_ref(decision), units };
    of_key(limits, decision.policy(), key, kind);
}

/// Emits that a settlement is given up.
pub fn lost(limits: &Limits, receipt: &Receipt, used: u64, cause: SettlementLoss) {
    let policy = receipt.policy().name();
    let kind = EventKind::SettlementLost { policy, reserved: receipt.cost(), used, cause };
    of_key(limits, policy, receipt.key(), kind);
}
