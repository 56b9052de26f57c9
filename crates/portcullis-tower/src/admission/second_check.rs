//! Checks the policies whose keys were looked up, and joins the outcome with that of the first check.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use portcullis_core::StoreError;
use portcullis_core::store::{Checks, Outcome};

use super::admit::{self, Delay};
use super::pending_check::PendingCheck;
use super::plan::{OnStoreFailure, Plan};
use super::refunds::{Keep, Refunds};
use super::shadow_checks::ShadowChecks;
use super::{State, Step, look, verdict};
use crate::by_outcome;
use crate::charge::ChargeBasis;
use crate::config::LayerConfig;

/// A check of the store after the look-ups.
pub(super) struct SecondCheck {
    config: Arc<LayerConfig>,
    check: PendingCheck,
    continuation: Option<Continuation>,
}

/// The data that is needed once the store has answered.
struct Continuation {
    /// To build an outcome if the store has failed.
    checks: Checks,
    on_failure: OnStoreFailure,
    shadow: ShadowChecks,
    first: FirstResult,
}

/// The charge of the first decision, if the request was counted, and the delay that it requires.
#[derive(Default)]
pub(super) struct FirstResult {
    pub(super) outcome: Option<Outcome>,
    pub(super) delay: Delay,
}

pub(super) fn start(config: &Arc<LayerConfig>, plan: Plan, first: FirstResult, parts: &mut Parts) -> Step {
    let Plan { mut enforced, shadow, .. } = plan;
    if config.by_outcome.looks_first() {
        by_outcome::set_owed(&parts.extensions, false);
        if let Err(response) = look::start(config, &mut enforced, parts) {
            let slot_at = first.delay.end;
            return Step::refunded(config, first.outcome.as_ref(), slot_at, Keep::Nothing, response);
        }
    }
    if enforced.is_empty() {
        return admit::start(config, first.outcome.map(charge_basis), first.delay, shadow, parts);
    }
    let may_queue = enforced.waits(config).in_queue;
    let checks = enforced.checks(config);
    let on_failure = enforced.on_failure(config);
    let continuation = Continuation { checks: checks.clone(), on_failure, shadow, first };
    match config.store.check(checks).into_ready() {
        Ok(answer) => continuation.answered(config, answer, parts),
        Err(pending) => {
            let check = PendingCheck::new(config, pending, may_queue);
            let second = SecondCheck { config: Arc::clone(config), check, continuation: Some(continuation) };
            Step::wait(config, State::Second(Box::new(second)))
        }
    }
}

impl SecondCheck {
    pub(super) fn poll(
        &mut self,
        config: &Arc<LayerConfig>,
        parts: &mut Parts,
        cx: &mut Context<'_>,
    ) -> Poll<Step> {
        let answer = ready!(self.check.poll(cx));
        let continuation = self.continuation.take().expect("a state is not polled after its end");
        Poll::Ready(continuation.answered(config, answer, parts))
    }
}

impl Drop for SecondCheck {
    /// Gives up the slot that the first decision has charged. The other charges stay.
    fn drop(&mut self) {
        if let Some(Continuation { first, .. }) = self.continuation.take() {
            let slot_at = first.delay.end;
            drop(Refunds::start(&self.config, first.outcome.as_ref(), slot_at, Keep::AllButSlots));
        }
    }
}

impl Continuation {
    fn answered(
        self,
        config: &Arc<LayerConfig>,
        mut answer: Result<Outcome, StoreError>,
        parts: &mut Parts,
    ) -> Step {
        let Self { checks, on_failure, shadow, first } = self;
        let charged = config
            .by_outcome
            .looks_first()
            .then(|| look::deny_if_exhausted(config, &mut answer, parts))
            .flatten();
        let second = match verdict::of(config, answer, on_failure, parts) {
            Ok(passed) => passed.into_outcome(checks),
            Err(response) => {
                let slot_at = first.delay.end;
                let charged = match (first.outcome, charged) {
                    (Some(first), Some(second)) => {
                        Some(first.joined(second).expect("both decisions let the request pass before"))
                    }
                    (first, second) => first.or(second),
                };
                return Step::refunded(config, charged.as_ref(), slot_at, Keep::Nothing, response);
            }
        };
        let delay = Delay {
            end: first.delay.end.max(admit::delay_end(second.decision())),
            permit: first.delay.permit,
        };
        let both = match first.outcome {
            Some(first) => {
                first.joined(second).expect("both decisions let the request pass, by different policies")
            }
            None => second,
        };
        admit::start(config, Some(charge_basis(both)), delay, shadow, parts)
    }
}

fn charge_basis(outcome: Outcome) -> ChargeBasis {
    if outcome.decisions().iter().any(portcullis_core::Decision::is_metered) {
        ChargeBasis::Decided(outcome)
    } else {
        ChargeBasis::Degraded(outcome.decisions().to_vec())
    }
}
