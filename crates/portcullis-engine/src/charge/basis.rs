//! What a charge is based on: the decisions and checks at the admission of its request.

use std::num::NonZeroU64;
use std::slice;

use portcullis_core::store::{Check, Checks, Outcome, ReadyCheck};
use portcullis_core::{Decision, Key, Policy};

use super::Asked;
use crate::engine::Limits;
use crate::limit::is_in_flight;

/// What a request was charged by at its admission.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is behind one pointer already")]
pub enum ChargeBasis {
    /// By an answer of the store to all checks.
    Decided(Outcome),
    /// By a single check whose answer was ready.
    Single(Asked, ReadyCheck),
    /// The store could not answer, or limits are off: one decision per policy, which counts nothing. The first one is decisive.
    Degraded(Vec<Decision>),
}

/// A check by which a request was charged.
#[derive(Clone, Copy, Debug)]
pub struct ChargedCheck<'a> {
    /// The policy, with the quota that was charged.
    pub policy: &'a Policy,
    /// The key that was charged.
    pub key: Key,
    /// The units that were charged.
    pub cost: u64,
}

impl ChargedCheck<'_> {
    /// The checks for `units` more of what was charged together; `None` if nothing was.
    pub fn again(charged: &[Self], units: u64) -> Option<Checks> {
        let check = |number: usize| (charged[number].policy, charged[number].key, units);
        (!charged.is_empty()).then(|| Checks::of(charged.len(), check))
    }
}

/// The basis of a charge, with the configuration that has the policy of a [`Asked`].
#[derive(Clone, Copy, Debug)]
pub struct Charged<'a> {
    /// The limits, which have the policies.
    pub limits: &'a Limits,
    /// What the request was charged by.
    pub basis: &'a ChargeBasis,
}

impl ChargeBasis {
    /// The decisive decision at the admission.
    ///
    /// # Panics
    ///
    /// Panics if [`Degraded`](Self::Degraded) has no decision.
    #[inline]
    pub fn decision(&self) -> &Decision {
        match self {
            Self::Decided(outcome) => outcome.decision(),
            Self::Single(_, ready) => &ready.decision,
            Self::Degraded(decisions) => decisions.first().expect("a policy was checked"),
        }
    }

    /// The decision of each policy at the admission.
    #[inline]
    pub fn decisions(&self) -> &[Decision] {
        match self {
            Self::Decided(outcome) => outcome.decisions(),
            Self::Single(_, ready) => slice::from_ref(&ready.decision),
            Self::Degraded(decisions) => decisions,
        }
    }

    /// The outcome that the request was charged by, under the policies of this configuration.
    pub fn outcome(&self, limits: &Limits) -> Option<Outcome> {
        match self {
            Self::Decided(outcome) => Some(outcome.clone()),
            Self::Single(check, ready) => Some(check.outcome(limits, ready.clone())),
            Self::Degraded(_) => None,
        }
    }

    /// The checks among which one may have the quota of a caller or of a grant, which no policy of a layer has.
    pub fn maybe_individual(&self) -> &[Check] {
        match self {
            Self::Decided(outcome) => outcome.checks().iter().as_slice(),
            Self::Single(..) | Self::Degraded(_) => &[],
        }
    }
}

impl<'a> Charged<'a> {
    /// The checks by which the request was charged, in the order of the decisions; none if the store could not answer.
    pub fn checks(self) -> impl Iterator<Item = ChargedCheck<'a>> {
        let (single, checks) = match self.basis {
            ChargeBasis::Decided(outcome) => (None, outcome.checks().iter().as_slice()),
            ChargeBasis::Single(check, _) => {
                let Asked { key, cost, .. } = *check;
                (Some(ChargedCheck { policy: check.policy(self.limits), key, cost }), &[][..])
            }
            ChargeBasis::Degraded(_) => (None, &[][..]),
        };
        let charged =
            |check: &'a Check| ChargedCheck { policy: &check.policy, key: check.key, cost: check.cost };
        single.into_iter().chain(checks.iter().map(charged))
    }

    /// The check of the policy at `index`; `None` if that policy counted nothing, or limits requests in flight: its permit is not
    /// corrected.
    pub fn check(self, index: usize) -> Option<ChargedCheck<'a>> {
        let check = self.checks().nth(index).filter(|_| self.basis.decisions()[index].is_metered());
        check.filter(|check| !is_in_flight(check.policy))
    }

    /// The outcome that the request was charged by.
    pub fn outcome(self) -> Option<Outcome> {
        self.basis.outcome(self.limits)
    }

    /// The id of the fallback that was charged, if it was not the store.
    pub fn charged_by(self, index: usize) -> Option<NonZeroU64> {
        match self.basis {
            ChargeBasis::Decided(outcome) => outcome.fallback_id_of(index),
            ChargeBasis::Single(..) | ChargeBasis::Degraded(_) => None,
        }
    }
}
