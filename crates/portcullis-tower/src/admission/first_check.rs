//! Checks the policies with synchronous keys; then admits the request, rejects it, or starts its look-ups.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::{mem, slice};

use http::request::Parts;
use portcullis_core::StoreError;
use portcullis_core::store::{Checks, Outcome, ReadyCheck};

use super::admit::Delay;
use super::max_wait::MaxWait;
use super::pending_check::PendingCheck;
use super::plan::{OnStoreFailure, Plan, PlannedRejection, Waits};
use super::refunds::Keep;
use super::shadow_checks::ShadowChecks;
use super::verdict::{Passed, Rejected};
use super::waitable_check::WaitableCheck;
use super::window_wait::{Continued, LastAnswer, WaitContext};
use super::{State, Step, admit, in_flight, look, lookups, permits, verdict};
use crate::charge::{ChargeBasis, SingleCheck};
use crate::config::LayerConfig;
use crate::event::FoundKeys;
use crate::policy::PolicySet;

/// A check of the store before any look-up.
pub(super) struct FirstCheck {
    check: WaitableCheck,
    on_failure: OnStoreFailure,
    shadow: ShadowChecks,
    next: Next,
}

/// The next step if the policies let a request pass.
#[derive(Default)]
enum Next {
    #[default]
    Admit,
    /// The request is rejected; only policies that count rejections were checked.
    Reject(PlannedRejection),
    /// Look-ups follow, among them those of the quotas of these policies. The checks are kept to build an outcome if the store has
    /// failed.
    LookUp(Option<Box<Checks>>, PolicySet),
}

pub(super) fn start(config: &Arc<LayerConfig>, mut plan: Plan, parts: &mut Parts) -> Step {
    if config.store.wants_keys() {
        FoundKeys::replace_in(plan.keys.take(), &mut parts.extensions);
    }
    // A request that is rejected for its identity reaches no inner service, so it is charged here.
    if config.by_outcome.looks_first()
        && plan.rejection.is_none()
        && let Err(response) = look::start(config, &mut plan.enforced, parts)
    {
        return Step::rejected(response);
    }
    let is_all = plan.rejection.is_none()
        && !plan.looks_up
        && plan.shadow.is_empty()
        && !config.by_outcome.looks_first()
        && !config.holds_permits;
    // The shortest way for most requests: an outcome has several hundred bytes, which each step of the other way copies.
    if is_all
        && let Some(check) = plan.enforced.single(config)
        && let Some(answer) =
            config.store.check_now(&config.policies()[check.index].policy, check.key, check.cost)
    {
        return answered_at_once(config, &plan, check, answer, parts);
    }
    ask(config, plan, is_all, parts)
}

/// Goes on with the answer to the only check of a plan, which nothing else follows.
pub(super) fn answered_at_once(
    config: &Arc<LayerConfig>,
    plan: &Plan,
    check: SingleCheck,
    answer: Result<ReadyCheck, StoreError>,
    parts: &mut Parts,
) -> Step {
    match answer {
        Ok(ready) if admit::passes_without_delay(&ready.decision) => {
            config.store.emit_ready();
            emit_charge(config, check, &ready);
            admit::at_once(config, ChargeBasis::Single(check, ready), parts)
        }
        Ok(ready) if !ready.decision.is_allowed() => {
            Step::rejected(reject_at_once(config, check, ready, plan.enforced.on_failure(config), parts))
        }
        answer => {
            let answer =
                answer.map(|ready| Outcome::single(check.to_checks(config), ready).expect(ONE_CHECK));
            let (answered, on_failure) = (Continued::of(None, answer), plan.enforced.on_failure(config));
            continued(config, answered, on_failure, ShadowChecks::default(), Next::Admit, parts)
        }
    }
}

/// The response to a request whose only check is denied.
pub(super) fn reject_at_once(
    config: &LayerConfig,
    check: SingleCheck,
    denied: ReadyCheck,
    on_failure: OnStoreFailure,
    parts: &Parts,
) -> Rejected {
    let outcome = Outcome::single(check.to_checks(config), denied).expect(ONE_CHECK);
    config.store.emit_outcome(&outcome);
    verdict::reject_denied(config, &outcome, on_failure, parts)
}

/// Emits the charge of a single check, if an observer asks for it.
#[inline]
pub(super) fn emit_charge(config: &LayerConfig, check: SingleCheck, ready: &ReadyCheck) {
    if config.store.wants_charges() {
        let check = check.to_check(config);
        config.store.emit_charges(slice::from_ref(&check), slice::from_ref(&ready.decision));
    }
}

/// Asks the store about the checks of a plan. `is_all` is whether nothing follows them.
pub(super) fn ask(config: &Arc<LayerConfig>, plan: Plan, is_all: bool, parts: &mut Parts) -> Step {
    let enforced = &plan.enforced;
    let next = match plan.rejection {
        Some(rejection) => Next::Reject(rejection),
        None if plan.looks_up => {
            let checks = (!enforced.is_empty()).then(|| Box::new(enforced.checks(config)));
            Next::LookUp(checks, plan.awaited)
        }
        None => Next::Admit,
    };
    if enforced.is_empty() {
        return decided(config, None, plan.shadow, next, parts);
    }
    let on_failure = enforced.on_failure(config);
    let waits = if matches!(next, Next::Reject(_)) { Waits::default() } else { enforced.waits(config) };
    // A call of the store would charge a slot, which other requests could not use until it is refunded.
    if waits.in_queue && permits::cannot_wait(config, &enforced.checks(config), &parts.extensions) {
        return Step::rejected(verdict::reject_overloaded(config, parts));
    }
    let mut wait_context = None;
    if waits.for_window {
        match WaitContext::new(
            config,
            enforced.checks(config),
            waits.in_queue,
            None,
            MaxWait::of(&parts.extensions),
        )
        .behind_others()
        {
            Ok(behind) => return continued(config, behind, on_failure, plan.shadow, next, parts),
            Err(asks) => wait_context = Some(asks),
        }
    }
    let mut answer = config.store.check(enforced.checks(config));
    // A reference, so that the outcome is moved once, to the charge.
    if is_all
        && let Some(Ok(outcome)) = answer.as_ready()
        && admit::passes_without_delay(outcome.decision())
    {
        config.store.emit_outcome(outcome);
        config.store.emit_charges(outcome.checks().iter().as_slice(), outcome.decisions());
        return admit::decided_at_once(config, &mut answer, parts);
    }
    match answer.into_ready() {
        Ok(answer) => {
            continued(config, Continued::of(wait_context, answer), on_failure, plan.shadow, next, parts)
        }
        Err(pending) => {
            let check = PendingCheck::new(config, pending, waits.in_queue);
            let check = WaitableCheck::Asking(check, wait_context);
            Step::wait(config, State::First(FirstCheck { check, on_failure, shadow: plan.shadow, next }))
        }
    }
}

impl FirstCheck {
    pub(super) fn poll(
        &mut self,
        config: &Arc<LayerConfig>,
        parts: &mut Parts,
        cx: &mut Context<'_>,
    ) -> Poll<Step> {
        let answer = ready!(self.check.poll(cx));
        let (shadow, next) = (mem::take(&mut self.shadow), mem::take(&mut self.next));
        Poll::Ready(decided(config, Some((answer, self.on_failure)), shadow, next, parts))
    }

    pub(super) fn keeps_readiness(&self) -> bool {
        self.check.keeps_readiness()
    }
}

/// Lets a request wait for a window, or goes on with the last answer.
fn continued(
    config: &Arc<LayerConfig>,
    continued: Continued,
    on_failure: OnStoreFailure,
    shadow: ShadowChecks,
    next: Next,
    parts: &mut Parts,
) -> Step {
    match continued {
        Continued::Over(answer) => decided(config, Some((answer, on_failure)), shadow, next, parts),
        Continued::Wait(wait) => {
            let check = WaitableCheck::Waiting(wait);
            Step::wait(config, State::First(FirstCheck { check, on_failure, shadow, next }))
        }
    }
}

/// `answer` is `None` if no policy was checked.
fn decided(
    config: &Arc<LayerConfig>,
    answer: Option<(LastAnswer, OnStoreFailure)>,
    shadow: ShadowChecks,
    next: Next,
    parts: &mut Parts,
) -> Step {
    let mut permit = None;
    let passed = match answer {
        None => None,
        Some((LastAnswer::TooManyWait, _)) => {
            return Step::rejected(verdict::reject_overloaded(config, parts));
        }
        Some((LastAnswer::Decided(mut answer, waited), on_failure)) => {
            permit = waited;
            verdict::emit_charges(config, &answer);
            in_flight::hold(config, &answer, &mut parts.extensions);
            let charged = config
                .by_outcome
                .looks_first()
                .then(|| look::deny_if_exhausted(config, &mut answer, parts))
                .flatten();
            match verdict::of(config, answer, on_failure, parts) {
                Ok(passed) => Some((passed, on_failure)),
                Err(response) => {
                    let slot_at = charged.as_ref().and_then(|charged| admit::delay_end(charged.decision()));
                    return Step::refunded(config, charged.as_ref(), slot_at, Keep::Nothing, response);
                }
            }
        }
    };
    match next {
        Next::Admit => {
            let basis = passed.map(|(passed, on_failure)| match passed {
                Passed::Decided(outcome) => ChargeBasis::Decided(outcome),
                Passed::StoreFailed(_) => ChargeBasis::Degraded(verdict::degraded(config, on_failure)),
            });
            let end = basis.as_ref().and_then(|basis| admit::delay_end(basis.decision()));
            admit::start(config, basis, Delay { end, permit }, shadow, parts)
        }
        Next::Reject(rejection) => Step::rejected(verdict::reject_planned(config, &rejection, parts)),
        Next::LookUp(checks, awaited) => {
            drop(permit);
            let outcome = passed.zip(checks).map(|((passed, _), checks)| passed.into_outcome(*checks));
            lookups::start(config, outcome, shadow, awaited, parts)
        }
    }
}

const ONE_CHECK: &str = "a single check has one result";
