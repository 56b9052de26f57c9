//! Checks the policies whose keys were looked up, and joins the outcome with that of the first check.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use portcullis_core::store::{Checks, Outcome};

use super::admit::{self, Delay};
use super::pending_check::PendingCheck;
use super::plan::{OnStoreFailure, Plan};
use super::refunds::{Keep, Refunds};
use super::shadow_checks::ShadowChecks;
use super::waitable_check::WaitableCheck;
use super::window_wait::{Continued, LastAnswer, WaitContext};
use super::{State, Step, in_flight, look, verdict};
use crate::by_outcome;
use crate::charge::ChargeBasis;
use crate::config::LayerConfig;

/// A check of the store after the look-ups.
pub(super) struct SecondCheck {
    config: Arc<LayerConfig>,
    check: WaitableCheck,
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

pub(super) fn start(
    config: &Arc<LayerConfig>,
    plan: Plan,
    mut first: FirstResult,
    parts: &mut Parts,
) -> Step {
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
    let waits = enforced.waits(config);
    let checks = enforced.checks(config);
    let mut wait_context = None;
    let mut behind = None;
    if waits.for_window {
        let permit = first.delay.permit.take();
        match WaitContext::new(config, checks.clone(), waits.in_queue, permit, None).behind_others() {
            Ok(waiting) => behind = Some(waiting),
            Err(asks) => wait_context = Some(asks),
        }
    }
    let continuation =
        Continuation { checks: checks.clone(), on_failure: enforced.on_failure(config), shadow, first };
    let check = match behind {
        Some(Continued::Over(answer)) => return continuation.answered(config, answer, parts),
        Some(Continued::Wait(wait)) => WaitableCheck::Waiting(wait),
        None => match config.store.check(checks).into_ready() {
            Ok(answer) => match Continued::of(wait_context, answer) {
                Continued::Over(answer) => return continuation.answered(config, answer, parts),
                Continued::Wait(wait) => WaitableCheck::Waiting(wait),
            },
            Err(pending) => {
                WaitableCheck::Asking(PendingCheck::new(config, pending, waits.in_queue), wait_context)
            }
        },
    };
    let second = SecondCheck { config: Arc::clone(config), check, continuation: Some(continuation) };
    Step::wait(config, State::Second(Box::new(second)))
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

    pub(super) fn keeps_readiness(&self) -> bool {
        self.check.keeps_readiness()
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
    fn answered(self, config: &Arc<LayerConfig>, answer: LastAnswer, parts: &mut Parts) -> Step {
        let Self { checks, on_failure, shadow, mut first } = self;
        let mut answer = match answer {
            LastAnswer::Decided(answer, waited) => {
                first.delay.permit = first.delay.permit.or(waited);
                answer
            }
            LastAnswer::TooManyWait => {
                let response = verdict::reject_overloaded(config, parts);
                let slot_at = first.delay.end;
                return Step::refunded(config, first.outcome.as_ref(), slot_at, Keep::Nothing, response);
            }
        };
        verdict::emit_charges(config, &answer);
        in_flight::hold(config, &answer, &mut parts.extensions);
        let charged = config
            .by_outcome
            .looks_first()
            .then(|| look::deny_if_exhausted(config, &mut answer, parts))
            .flatten();
        let second = match verdict::of(config, answer, on_failure, parts) {
            Ok(passed) => passed.into_outcome(checks),
            Err(response) => {
                let second_slot = charged.as_ref().and_then(|charged| admit::delay_end(charged.decision()));
                let slot_at = first.delay.end.max(second_slot);
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
