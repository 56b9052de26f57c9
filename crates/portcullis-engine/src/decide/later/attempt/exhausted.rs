//! Denials because nothing is left, of checks that charge nothing.

use std::mem;

use portcullis_core::store::{Check, Outcome};

use crate::charge::LaterCharge;
use crate::decide::Ask;
use crate::engine::Limits;

/// Denies a request if nothing is left of a policy that charges later, or of which the ask needs a unit. Returns what its checks have charged.
pub(super) fn deny(
    later: &mut [LaterCharge],
    ask: &Ask,
    outcome: &mut Outcome,
    limits: &Limits,
) -> Option<Outcome> {
    if later.is_empty() && ask.need_unit.is_empty() {
        return None;
    }
    let is_of = |check: &Check, later: &LaterCharge| {
        limits.policies()[later.index()].policy.name() == check.policy.name()
    };
    for check in outcome.checks().iter().filter(|check| check.policy.is_individual()) {
        for later in later.iter_mut().filter(|later| is_of(check, later)) {
            later.set_individual(&check.policy);
        }
    }
    let denial = outcome.denied_if_exhausted(|check| {
        later.iter().any(|later| is_of(check, later)) || ask.needs_unit(limits, check)
    })?;
    Some(mem::replace(outcome, denial))
}
