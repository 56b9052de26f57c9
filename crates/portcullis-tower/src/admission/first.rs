//! The decision of the policies with synchronous keys.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use portcullis_core::{Checks, Outcome, StoreError};

use super::pending_check::{PendingCheck, may_queue};
use super::{State, Step, lookups, passing, second};
use crate::KeyError;
use crate::charge::Standing;
use crate::rules::{LayerConfig, OnStoreFailure, Plan, ShadowChecks};

pub(super) struct First {
    check: PendingCheck,
    otherwise: OnStoreFailure,
    shadow: ShadowChecks,
    next: Next,
}

/// What follows when the policies let a request pass.
#[derive(Default)]
enum Next {
    #[default]
    Admit,
    /// It is rejected for its identity; only policies that count rejections were asked.
    Reject(KeyError),
    /// Look-ups follow. The checks are kept for an answer in place of a store that has failed.
    LookUp(Option<Box<Checks>>),
}

pub(super) fn ask(rules: &Arc<LayerConfig>, question: Plan, parts: &mut Parts) -> Step {
    let Plan { enforced, shadow, looks_up, rejection } = question;
    let next = |checks: Option<&Checks>| match rejection {
        Some(error) => Next::Reject(error),
        None if looks_up => Next::LookUp(checks.cloned().map(Box::new)),
        None => Next::Admit,
    };
    let Some((checks, otherwise)) = enforced else {
        return decided(rules, None, shadow, next(None), parts);
    };
    let next = next(Some(&checks));
    let may_queue = !matches!(next, Next::Reject(_)) && may_queue(&checks);
    // Asked nevertheless, the store would charge a slot, and others could not have it until it is refunded.
    if may_queue && rules.has_no_room_to_wait(&checks) {
        return Step::rejected(rules.refuse_overloaded(parts));
    }
    match rules.ask(checks).into_ready() {
        Ok(answer) => decided(rules, Some((answer, otherwise)), shadow, next, parts),
        Err(store) => {
            let check = PendingCheck::new(rules, store, may_queue);
            Step::wait(rules, State::First(First { check, otherwise, shadow, next }))
        }
    }
}

impl First {
    pub(super) fn poll(
        &mut self,
        rules: &Arc<LayerConfig>,
        parts: &mut Parts,
        cx: &mut Context<'_>,
    ) -> Poll<Step> {
        let answer = ready!(self.check.poll(cx));
        let (shadow, next) = (mem::take(&mut self.shadow), mem::take(&mut self.next));
        Poll::Ready(decided(rules, Some((answer, self.otherwise)), shadow, next, parts))
    }
}

/// `answer` is `None` if no policy was asked.
fn decided(
    rules: &Arc<LayerConfig>,
    answer: Option<(Result<Outcome, StoreError>, OnStoreFailure)>,
    shadow: ShadowChecks,
    next: Next,
    parts: &mut Parts,
) -> Step {
    let passed = match answer {
        None => None,
        Some((answer, otherwise)) => match rules.passed(answer, otherwise, parts) {
            Ok(passed) => Some((passed, otherwise)),
            Err(response) => return Step::rejected(response),
        },
    };
    match next {
        Next::Admit => {
            let standing = passed.map(|(passed, otherwise)| match passed {
                Ok(outcome) => Standing::Decided(outcome),
                Err(_) => Standing::Degraded(rules.degraded(otherwise)),
            });
            passing::pass(rules, standing, shadow, parts)
        }
        Next::Reject(error) => Step::rejected(rules.refuse_key(&error, parts)),
        Next::LookUp(asked) => {
            let outcome = passed.zip(asked).map(|((passed, _), asked)| second::outcome(passed, *asked));
            lookups::start(rules, outcome, shadow, parts)
        }
    }
}
