//! Corrects what a request was charged by the outcome of its response.

use http::{HeaderMap, Response, StatusCode};
use portcullis_core::Receipt;

use super::{Corrections, Obligation, Obligations, Owed};
use crate::Charge;
use crate::body::BodyEnd;
use crate::charge::OutcomeCorrection;
use crate::config::LayerConfig;
use crate::limit::response_outcome::{OutcomeRule, ResponseOutcome};
use portcullis_engine::{EventKeys, EventKind, LaterCharge};

/// The head of a response of gRPC, whose status is in its trailers.
pub(super) struct Head {
    status: StatusCode,
    headers: HeaderMap,
    pub(super) trailers: Option<HeaderMap>,
}

/// What the outcome of a request decides about, which goes to the inner service.
pub(crate) fn of_outcome(
    config: &LayerConfig,
    charge: Option<&Charge>,
    mut later: Vec<LaterCharge>,
    shadows: Vec<(usize, Receipt)>,
) -> Obligations {
    let mut obligations = Obligations::new();
    for (policy, limit) in config.policies().iter().enumerate() {
        let own = later.iter().position(|later| later.index() == policy).map(|at| later.swap_remove(at));
        let metered = charge.and_then(|charge| charge.metered(limit.policy.name()));
        // Nothing is charged to a policy that was not metered because the store has failed.
        let Some((index, units)) = metered.filter(|_| limit.outcome.is_some()) else { continue };
        match own.map(LaterCharge::into_parts) {
            Some((units, permit)) => obligations.push(Obligation::ChargeIf { policy, index, units, permit }),
            None if units > 0 => obligations.push(Obligation::RefundUnless { policy, index, units }),
            None => {}
        }
    }
    let shadow = |(policy, receipt)| Obligation::RefundShadowUnless { policy, receipt };
    let corrected = shadows.into_iter().filter(|(policy, _)| config.policies()[*policy].outcome.is_some());
    obligations.extend(corrected.map(shadow));
    obligations
}

impl Owed {
    /// Judges the head of a response. `None` if nothing waits for its outcome, or if that is known with the trailers.
    pub(crate) fn judge<B>(&mut self, response: &Response<B>) -> Option<Corrections> {
        if !self.obligations.iter().any(Obligation::is_of_outcome) {
            return None;
        }
        let outcome = ResponseOutcome::new(response.status(), response.headers(), None);
        if outcome.is_pending() {
            let (status, headers) = (response.status(), response.headers().clone());
            self.head = Some(Box::new(Head { status, headers, trailers: None }));
            return None;
        }
        Some(self.correct(Some(&outcome)))
    }

    /// Starts the corrections of a request that has got no outcome with a head.
    pub(super) fn correct_at_end(&mut self, end: BodyEnd) -> Option<Corrections> {
        if !self.is_called || !self.obligations.iter().any(Obligation::is_of_outcome) {
            return None;
        }
        let head = self.head.take();
        let outcome = head
            .as_ref()
            .map(|head| ResponseOutcome::new(head.status, &head.headers, head.trailers.as_ref()))
            .filter(|outcome| end == BodyEnd::Complete && outcome.grpc_status().is_some());
        Some(self.correct(outcome.as_ref()))
    }

    /// Starts the corrections that an outcome requires; `None` for a request without one.
    fn correct(&mut self, outcome: Option<&ResponseOutcome<'_>>) -> Corrections {
        let mut corrections = Corrections::new(&self.config);
        let (of_outcome, others): (Obligations, Obligations) =
            self.obligations.drain(..).partition(Obligation::is_of_outcome);
        self.obligations = others;
        for obligation in of_outcome {
            match (obligation, &self.charge) {
                (Obligation::RefundUnless { policy, index, units }, Some(charge))
                    if !self.stays_charged(policy, outcome) =>
                {
                    corrections.correct(charge, index, OutcomeCorrection::Refund(units), None);
                }
                (Obligation::ChargeIf { policy, index, units, permit }, Some(charge))
                    if self.stays_charged(policy, outcome) =>
                {
                    corrections.correct(charge, index, OutcomeCorrection::Charge(units), permit);
                }
                (Obligation::RefundShadowUnless { policy, receipt }, _)
                    if !self.stays_charged(policy, outcome) =>
                {
                    corrections.refund(receipt);
                }
                _ => {}
            }
        }
        corrections.begin();
        corrections
    }

    /// Whether a policy charges a request with this outcome.
    fn stays_charged(&self, policy: usize, outcome: Option<&ResponseOutcome<'_>>) -> bool {
        let limit = &self.config.policies()[policy];
        let rule = limit.outcome.as_deref();
        match outcome {
            None => !rule.is_some_and(|rule| rule.refunds_unanswered),
            Some(outcome) => {
                rule.map_or(Some(true), |rule: &OutcomeRule| rule.charges(outcome)).unwrap_or_else(|| {
                    let policy = limit.policy.name();
                    self.config.limits.emit(EventKind::OutcomePanicked { policy }, || EventKeys::None);
                    true
                })
            }
        }
    }
}

impl Obligation {
    fn is_of_outcome(&self) -> bool {
        matches!(self, Self::RefundUnless { .. } | Self::RefundShadowUnless { .. } | Self::ChargeIf { .. })
    }
}
