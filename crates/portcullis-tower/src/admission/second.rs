//! The decision of the policies whose keys were looked up.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use http::request::Parts;
use portcullis_core::{Checks, Outcome, StoreError, StoreFuture};

use super::passing::{self, Wait};
use super::{State, Step};
use crate::charge::Standing;
use crate::rules::{Otherwise, Passed, Question, Rules, ShadowChecks};

pub(super) struct Second {
    store: StoreFuture<Outcome>,
    asked: Option<Asked>,
}

/// What has to be known when the answer is there.
struct Asked {
    /// For an answer in place of a store that has failed.
    checks: Checks,
    otherwise: Otherwise,
    shadow: ShadowChecks,
    first: Charged,
}

/// What a request was charged by the first decision, if it was counted, and how long that has it wait.
#[derive(Default)]
pub(super) struct Charged {
    pub(super) outcome: Option<Outcome>,
    pub(super) wait: Wait,
}

pub(super) fn ask(rules: &Arc<Rules>, question: Question, first: Charged, parts: &mut Parts) -> Step {
    let Question { enforced, shadow, .. } = question;
    let Some((checks, otherwise)) = enforced else {
        return passing::pass_after(rules, first.outcome.map(standing), first.wait, shadow, parts);
    };
    let asked = Asked { checks: checks.clone(), otherwise, shadow, first };
    match rules.ask(checks).into_ready() {
        Ok(answer) => asked.answered(rules, answer, parts),
        Err(store) => Step::wait(rules, State::Second(Box::new(Second { store, asked: Some(asked) }))),
    }
}

impl Second {
    pub(super) fn poll(&mut self, rules: &Arc<Rules>, parts: &mut Parts, cx: &mut Context<'_>) -> Poll<Step> {
        let answer = ready!(Pin::new(&mut self.store).poll(cx));
        let asked = self.asked.take().expect("a state is left as soon as its answer is there");
        Poll::Ready(asked.answered(rules, answer, parts))
    }
}

impl Asked {
    fn answered(self, rules: &Arc<Rules>, answer: Result<Outcome, StoreError>, parts: &mut Parts) -> Step {
        let Self { checks, otherwise, shadow, first } = self;
        let second = match rules.passed(answer, otherwise, parts) {
            Ok(passed) => outcome(passed, checks),
            Err(response) => {
                let charged = first.outcome.into_iter().flat_map(Outcome::into_receipts);
                return Step::refunded(rules, charged, response);
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
    if outcome.decisions().iter().any(portcullis_core::Decision::is_counted) {
        Standing::Decided(outcome)
    } else {
        Standing::Degraded(outcome.decisions().to_vec())
    }
}
