//! The metrics of one policy.

use std::sync::{Arc, OnceLock};

use metrics::Histogram;
use portcullis_core::{Decision, FailureMode, Policy, Strategy};
use portcullis_tower::{Percent, PolicySummary};

use super::series::{Owner, Series};
use crate::catalog as names;
use crate::handles::Handles;
use crate::labels::{DecisionOutcome, IdentityError, Loss, Permit, Unlabelled, Warning, WouldReject};

/// The metrics that have a policy as label. Each series begins when the policy can have it, or at the first event that it counts.
pub(crate) struct PolicyMetrics {
    owner: Arc<Owner>,
    pub(crate) decisions: Series<DecisionOutcome>,
    pub(crate) charged_units: Series<Unlabelled>,
    pub(crate) refunded_units: Series<Unlabelled>,
    pub(crate) denied_charges: Series<Unlabelled>,
    pub(crate) uncharged_units: Series<Unlabelled>,
    pub(crate) would_reject: Series<WouldReject>,
    pub(crate) soft_limit: Series<Unlabelled>,
    pub(crate) exempt: Series<Unlabelled>,
    pub(crate) identity_errors: Series<IdentityError>,
    pub(crate) lock_outs: Series<Unlabelled>,
    pub(crate) permits: Series<Permit>,
    pub(crate) settlements_lost: Series<Loss>,
    pub(crate) settlement_units_lost: Series<Unlabelled>,
    pub(crate) warnings: Series<Warning>,
    waits: OnceLock<Histogram>,
}

impl PolicyMetrics {
    pub(crate) fn new(handles: &Handles, policy: &str) -> Self {
        let owner = Arc::new(Owner::new(handles, policy));
        Self {
            decisions: owner.series(names::DECISIONS),
            charged_units: owner.series(names::CHARGED_UNITS),
            refunded_units: owner.series(names::REFUNDED_UNITS),
            denied_charges: owner.series(names::DENIED_CHARGES),
            uncharged_units: owner.series(names::UNCHARGED_UNITS),
            would_reject: owner.series(names::WOULD_REJECT),
            soft_limit: owner.series(names::SOFT_LIMIT),
            exempt: owner.series(names::EXEMPT),
            identity_errors: owner.series(names::IDENTITY_ERRORS),
            lock_outs: owner.series(names::LOCK_OUTS),
            permits: owner.series(names::PERMITS),
            settlements_lost: owner.series(names::SETTLEMENTS_LOST),
            settlement_units_lost: owner.series(names::SETTLEMENT_UNITS_LOST),
            warnings: owner.series(names::WARNINGS),
            waits: OnceLock::new(),
            owner,
        }
    }

    /// Begins what the policy says of itself.
    pub(crate) fn begin(&self, policy: &Policy, has_server: bool) {
        // Handlers may refund under any policy, and net units are the difference.
        self.charged_units.increment(0);
        self.refunded_units.increment(0);
        if policy.reads_overrides() {
            self.decisions.begin([DecisionOutcome::Blocked]);
        }
        if policy.quota_range().is_some() {
            self.identity_errors.begin([IdentityError::QuotaLookupFailed, IdentityError::QuotaRefused]);
        }
        let is_in_flight = matches!(policy.strategy(), Strategy::InFlight(_));
        if is_in_flight {
            self.permits.begin([Permit::Acquired, Permit::Released, Permit::Lapsed]);
            self.warnings.begin([Warning::UpgradeReleased]);
        }
        if policy.max_wait().is_some() || matches!(policy.strategy(), Strategy::LeakyBucket(_)) {
            self.waits();
        }
        if has_server {
            self.begin_with_server(policy.failure_mode());
            if is_in_flight {
                self.begin_losses();
            }
        }
    }

    /// What is counted while a store does not answer.
    fn begin_with_server(&self, failure_mode: FailureMode) {
        match failure_mode {
            FailureMode::Open => self.decisions.begin([DecisionOutcome::Unmetered]),
            FailureMode::OpenFor(_) => {
                self.decisions.begin([DecisionOutcome::Unmetered]);
                self.warnings.begin([Warning::OpenForExpired]);
            }
            FailureMode::Local { .. } => {
                self.decisions.begin([DecisionOutcome::FallbackAllowed, DecisionOutcome::FallbackDenied]);
            }
            _ => {}
        }
    }

    fn begin_losses(&self) {
        self.settlements_lost.begin([Loss::Unknown, Loss::Refused, Loss::GivenUp, Loss::QueueFull]);
        self.settlement_units_lost.increment(0);
    }

    /// Begins what a policy counts that is enforced.
    pub(crate) fn begin_enforced(&self) {
        self.decisions.begin([DecisionOutcome::Allowed, DecisionOutcome::Denied]);
    }

    /// Begins what the options of the policy in a layer add.
    pub(crate) fn begin_in_layer(&self, summary: &PolicySummary, has_server: bool) {
        if summary.mode().share() > Percent::ZERO {
            self.begin_enforced();
        }
        if summary.mode().is_trial() {
            self.would_reject.begin([WouldReject::Limited, WouldReject::Unidentified]);
        }
        if summary.looks_up_keys() {
            self.identity_errors.begin([IdentityError::LookupFailed]);
        }
        if summary.locks_out() {
            self.lock_outs.increment(0);
            self.decisions.begin([DecisionOutcome::Blocked]);
        }
        if summary.warns() {
            self.soft_limit.increment(0);
        }
        if summary.corrects_charges() {
            self.uncharged_units.increment(0);
            if has_server {
                self.begin_losses();
            }
        }
    }

    #[inline]
    pub(crate) fn decided(&self, decision: &Decision) {
        if let Some(outcome) = DecisionOutcome::of(decision) {
            self.decisions.count(outcome);
        }
    }

    pub(crate) fn waits(&self) -> &Histogram {
        self.waits.get_or_init(|| self.owner.histogram(names::WAITS))
    }
}
