//! The metrics of one policy.

use metrics::{Counter, Histogram};
use portcullis_core::Decision;

use crate::catalog as names;
use crate::handles::{Counters, Handles};
use crate::labels::{DecisionOutcome, IdentityError, Loss, Permit, Warning, WouldReject};

/// The handles of the metrics that have a policy as label.
pub(crate) struct PolicyMetrics {
    decisions: Counters<DecisionOutcome>,
    pub(crate) charged_units: Counter,
    pub(crate) refunded_units: Counter,
    pub(crate) denied_charges: Counter,
    pub(crate) uncharged_units: Counter,
    pub(crate) would_reject: Counters<WouldReject>,
    pub(crate) soft_limit: Counter,
    pub(crate) exempt: Counter,
    pub(crate) identity_errors: Counters<IdentityError>,
    pub(crate) lock_outs: Counter,
    pub(crate) permits: Counters<Permit>,
    pub(crate) settlements_lost: Counters<Loss>,
    pub(crate) settlement_units_lost: Counter,
    pub(crate) warnings: Counters<Warning>,
    pub(crate) waits: Histogram,
}

impl PolicyMetrics {
    pub(crate) fn new(handles: &Handles, policy: &str) -> Self {
        let labels = [("policy", policy)];
        let counter = |name| handles.counter(name, &labels);
        Self {
            decisions: handles.counters(names::DECISIONS, &labels),
            charged_units: counter(names::CHARGED_UNITS),
            refunded_units: counter(names::REFUNDED_UNITS),
            denied_charges: counter(names::DENIED_CHARGES),
            uncharged_units: counter(names::UNCHARGED_UNITS),
            would_reject: handles.counters(names::WOULD_REJECT, &labels),
            soft_limit: counter(names::SOFT_LIMIT),
            exempt: counter(names::EXEMPT),
            identity_errors: handles.counters(names::IDENTITY_ERRORS, &labels),
            lock_outs: counter(names::LOCK_OUTS),
            permits: handles.counters(names::PERMITS, &labels),
            settlements_lost: handles.counters(names::SETTLEMENTS_LOST, &labels),
            settlement_units_lost: counter(names::SETTLEMENT_UNITS_LOST),
            warnings: handles.counters(names::WARNINGS, &labels),
            waits: handles.histogram(names::WAITS, &labels),
        }
    }

    #[inline]
    pub(crate) fn decided(&self, decision: &Decision) {
        if let Some(outcome) = DecisionOutcome::of(decision) {
            self.decisions.count(outcome);
        }
    }
}
