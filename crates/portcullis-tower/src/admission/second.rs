//! The decision of the policies whose keys were looked up.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use http::request::Parts;
use portcullis_core::StoreError;
use portcullis_core::store::{Checks, Outcome};

use super::passing::{self, Wait};
use super::pending_check::{PendingCheck, may_queue};
use super::plan::{OnStoreFailure, Plan};
use super::refunds::{Keep, Refunds};
use super::shadow_checks::ShadowChecks;
use super::verdict::Passed;
use super::{State, Step, verdict};
use crate::charge::ChargeBasis;
use crate::config::LayerConfig;

pub(super) struct Second {
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
    first: Charged,
}

/// The charge of the first decision, if the request was counted, and the wait that it requires.
#[derive(Default)]
pub(super) struct Charged {
    pub(super) outcome: Option<Outcome>,
    pub(super) wait: Wait,
}

pub(super) fn ask(config: &Arc<LayerConfig>, plan: Plan, first: Charged, parts: &mut Parts) -> Step {
    let Plan { enforced, shadow, .. } = plan;
    let Some((checks, on_failure)) = enforced else {
        return passing::pass_after(config, first.outcome.map(charge_basis), first.wait, shadow, parts);
    };
    let may_queue = may_queue(&checks);
    let continuation = Continuation { checks: checks.clone(), on_failure, shadow, first };
    match config.store.check(checks).into_ready() {
        Ok(answer) => continuation.answered(config, answer, parts),
        Err(pending) => {
            let check = PendingCheck::new(config, pending, may_queue);
            let second = Second { config: Arc::clone(config), check, continuation: Some(continuation) };
            Step::wait(config, State::Second(Box::new(second)))
        }
    }
}

impl Second {
    pub(super) fn poll(
        &mut self,
        config: &Arc<LayerConfig>,
        parts: &mut Parts,
        cx: &mut Context<'_>,
    ) -> Poll<Step> {
        let answer = ready!(self.check.poll(cx));
        let continuation = self.continuation.take().expect("a state is left as soon as its answer is there");
        Poll::Ready(continuation.answered(config, answer, parts))
    }
}

impl Drop for Second {
    /// Gives up the slot that the first decision has charged. The other charges stay.
    fn drop(&mut self) {
        if let Some(Continuation { first, .. }) = self.continuation.take() {
            let slot = first.wait.until;
            drop(Refunds::start(&self.config, first.outcome.as_ref(), slot, Keep::AllButSlots));
        }
    }
}

impl Continuation {
    fn answered(
        self,
        config: &Arc<LayerConfig>,
        answer: Result<Outcome, StoreError>,
        parts: &mut Parts,
    ) -> Step {
        let Self { checks, on_failure, shadow, first } = self;
        let second = match verdict::of(config, answer, on_failure, parts) {
            Ok(passed) => outcome(passed, checks),
            Err(response) => {
                let slot = first.wait.until;
                return Step::refunded(config, first.outcome.as_ref(), slot, Keep::Nothing, response);
            }
        };
        let wait = Wait { until: first.wait.until.max(passing::until(&second)), permit: first.wait.permit };
        let both = match first.outcome {
            Some(first) => {
                first.joined(second).expect("both decisions let the request pass, by different policies")
            }
            None => second,
        };
        passing::pass_after(config, Some(charge_basis(both)), wait, shadow, parts)
    }
}

/// The outcome of a request that passes, including where the store has not answered.
pub(super) fn outcome(passed: Passed, checks: Checks) -> Outcome {
    match passed {
        Passed::Decided(outcome) => outcome,
        Passed::StoreFailed(failure) => Outcome::unanswered(checks, SystemTime::now().into(), failure),
    }
}

fn charge_basis(outcome: Outcome) -> ChargeBasis {
    if outcome.decisions().iter().any(portcullis_core::Decision::is_metered) {
        ChargeBasis::Decided(outcome)
    } else {
        ChargeBasis::Degraded(outcome.decisions().to_vec())
    }
}
