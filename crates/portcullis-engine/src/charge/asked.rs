//! One check of a request.

use portcullis_core::store::{Check, Checks, Outcome, ReadyCheck};
use portcullis_core::{Key, Policy, PolicyName};

use crate::engine::Limits;

/// One check: the index of a policy in its limits, a key, and what it costs.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The index of the policy in its limits.
    pub index: usize,
    /// The key that is charged.
    pub key: Key,
    /// The units that are charged. A check of cost 0 asks whether anything is left.
    pub cost: u64,
}

impl Asked {
    /// The policy of the check, out of its limits.
    pub fn policy(self, limits: &Limits) -> &Policy {
        &limits.policies()[self.index].policy
    }

    /// Whether it is about this key under the policy of this name.
    pub fn is_about(self, limits: &Limits, policy: &PolicyName, key: Key) -> bool {
        self.key == key && self.policy(limits).name() == policy
    }

    /// What the check costs for `units` in place of one: what its cost exceeds one by comes on top. For no units it costs nothing, and
    /// a check of cost 0 is free, whatever the units.
    #[must_use]
    pub fn cost_of(self, units: u64) -> u64 {
        if units == 0 || self.cost == 0 { 0 } else { self.cost.saturating_add(units - 1) }
    }

    pub(crate) fn to_check(self, limits: &Limits) -> Check {
        Check { policy: self.policy(limits).clone(), key: self.key, cost: self.cost }
    }

    /// The outcome of a check whose answer was there at once.
    #[inline]
    pub fn outcome(self, limits: &Limits, ready: ReadyCheck) -> Outcome {
        Outcome::of_one(self.to_check(limits), ready)
    }

    pub(crate) fn to_checks(self, limits: &Limits) -> Checks {
        Checks::one(self.policy(limits).clone(), self.key, self.cost)
    }
}
