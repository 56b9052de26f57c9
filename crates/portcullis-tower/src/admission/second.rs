//! The decision of the policies whose keys were looked up.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use http::request::Parts;
use portcullis_core::{Checks, Outcome, StoreError};

use super::passing::{self, Wait};
use super::pending_check::{PendingCheck, may_queue};
use super::refunds::{Keep, Refunds};
use super::{State, Step};
use crate::charge::Standing;
use crate::rules::{LayerConfig, OnStoreFailure, Passed, Plan, ShadowChecks};

pub(super) struct Second {
    rules: Arc<LayerConfig>,
    check: PendingCheck,
    asked: Option<Asked>,
}

/// What has to be known when the answer is there.
struct Asked {
    /// For an answer in place of a store that has failed.
    checks: Checks,
    otherwise: OnStoreFailure,
    shadow: ShadowChecks,
    first: Charged,
}

/// What a request was charged by the first decision, if it was counted, and how long that has it wait.
#[derive(Default)]
pub(super) struct Charged {
    pub(super) outcome: Option<Outcome>,
    pub(super) wait: Wait,
}

pub(super) fn ask(rules: &Arc<LayerConfig>, question: Plan, first: Charged, parts: &mut Parts) -> Step {
    let Plan { enforced, shadow, .. } = question;
    let Some((checks, otherwise)) = enforced else {
        return passing::pass_after(rules, first.outcome.map(standing), first.wait, shadow, parts);
    };
    let may_queue = may_queue(&checks);
    let asked = Asked { checks: checks.clone(), otherwise, shadow, first };
    match rules.ask(checks).into_ready() {
        Ok(answer) => asked.answered(rules, answer, parts),
        Err(store) => {
            let check = PendingCheck::new(rules, store, may_queue);
            let second = Second { rules: Arc::clone(rules), check, asked: Some(asked) };
            Step::wait(rules, State::Second(Box::new(second)))
        }
    }
}

impl Second {
    pub(super) fn poll(
        &mut self,
        rules: &Arc<LayerConfig>,
        parts: &mut Parts,
        cx: &mut Context<'_>,
    ) -> Poll<Step> {
        let answer = ready!(self.check.poll(cx));
        let asked = self.asked.take().expect("a state is left as soon as its answer is there");
        Poll::Ready(asked.answered(rules, answer, parts))
    }
}

impl Drop for Second {
    /// A request that leaves gives up the slot that the first decision has charged. Its other charges stay.
    fn drop(&mut self) {
        if let Some(Asked { first, .. }) = self.asked.take() {
            let slot = first.wait.until;
            drop(Refunds::start(&self.rules, first.outcome.as_ref(), slot, Keep::AllButSlots));
        }
    }
}

impl Asked {
    fn answered(
        self,
        rules: &Arc<LayerConfig>,
        answer: Result<Outcome, StoreError>,
        parts: &mut Parts,
    ) -> Step {
        let Self { checks, otherwise, shadow, first } = self;
        let second = match rules.passed(answer, otherwise, parts) {
            Ok(passed) => outcome(passed, checks),
            Err(response) => {
                let slot = first.wait.until;
                return Step::refunded(rules, first.outcome.as_ref(), slot, Keep::Nothing, response);
            }
        };
        let wait = Wait { until: first.wait.until.max(passing::until(&second)), permit: first.wait.permit };
        let both = match first.outcome {
            Some(first) => first.joined(second).expect("both let the request pass, by different policies"),
            None => second,
        };
        passing::pass_after(rules, Some(standing(both)), wait, shadow, parts)
    }
}

/// The outcome of a request that passes, also where nobody has answered.
pub(super) fn outcome(passed: Passed, asked: Checks) -> Outcome {
    passed.unwrap_or_else(|failure| Outcome::unanswered(asked, SystemTime::now().into(), failure))
}

fn standing(outcome: Outcome) -> Standing {
    if outcome.decisions().iter().any(portcullis_core::Decision::is_metered) {
        Standing::Decided(outcome)
    } else {
        Standing::Degraded(outcome.decisions().to_vec())
    }
}
