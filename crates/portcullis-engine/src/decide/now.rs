//! The synchronous attempt: decides where the store answers at once, without a task, a timer or an allocation of its own.

use std::slice;
use std::sync::Arc;

use portcullis_core::store::{Outcome, ReadyCheck, StoreFuture};
use portcullis_core::{Decision, StoreError};

use super::call::StoreCall;
use super::rejected::{deny, emit};
use super::{Ask, Rejected};
use crate::PolicySet;
use crate::charge::Asked;
use crate::engine::Limits;
use crate::engine::report;

/// What is known at once. An admission holds what decides it in the place where the store has left it, because it is large.
#[derive(Debug)]
pub enum Now {
    /// Admitted by the only check.
    One(Asked, ReadyCheck),
    /// Admitted by all checks. The answer is there.
    All(StoreFuture<Outcome>),
    /// Rejected, for this reason.
    Rejected(Rejected),
    /// An [`Attempt`](super::Attempt) goes on, with the call of the store if it was called.
    Later(Option<StoreCall>),
}

/// Decides about an ask whose enforced checks are [all that decides](Ask::is_decided_by_answer).
pub fn decide(limits: &Arc<Limits>, ask: &Ask) -> Now {
    let Some(asked) = ask.single(limits) else { return decide_all(limits, ask) };
    match check_one(limits, asked) {
        Some(Ok(ready)) if passes(&ready.decision) => Now::One(asked, ready),
        Some(Ok(ready)) if !ready.decision.is_allowed() => {
            let outcome = asked.outcome(limits, ready);
            report::answered(limits, Ok(&outcome));
            Now::Rejected(deny(limits, outcome, ask, ask.keys.as_deref()))
        }
        answer => Now::Later(Some(call_one(limits, asked, answer))),
    }
}

/// The answer to one check, of a policy that lets no request wait. `None` if the store does not answer at once.
// An outcome has several hundred bytes, which this way does not make.
pub type One = Option<Result<ReadyCheck, StoreError>>;

/// Asks the store about one check. If the answer [admits](passes) the request, that is emitted.
#[inline]
pub fn check_one(limits: &Limits, asked: Asked) -> One {
    let answer = limits.engine().check_now(asked.policy(limits), asked.key, asked.cost);
    if let Some(Ok(ready)) = &answer
        && passes(&ready.decision)
    {
        admitted(limits, asked, ready);
    }
    answer
}

#[inline]
fn admitted(limits: &Limits, asked: Asked, ready: &ReadyCheck) {
    if limits.is_store_failing() {
        limits.emit_store_state(None);
    }
    if limits.engine().observers().want_charges() {
        let check = asked.to_check(limits);
        report::charged(limits, slice::from_ref(&check), slice::from_ref(&ready.decision));
    }
}

/// Denies a request by its only check. `render` makes the answer of the rejection in its place, because it is large.
#[inline]
pub fn deny_one<T>(
    limits: &Arc<Limits>,
    asked: Asked,
    denied_by: ReadyCheck,
    render: impl FnOnce(&Rejected) -> T,
) -> T {
    let denied = Rejected::Limited {
        outcome: asked.outcome(limits, denied_by),
        checked: PolicySet::one(asked.index),
        key: Some(asked.key).filter(|key| !key.is_shared()),
    };
    if let Rejected::Limited { outcome, .. } = &denied {
        report::answered(limits, Ok(outcome));
    }
    emit(limits, &denied, None);
    render(&denied)
}

/// What an [`Attempt`](super::Attempt) goes on with: the answer, or the call of a store that does not answer at once.
pub fn call_one(limits: &Arc<Limits>, asked: Asked, answer: One) -> StoreCall {
    let call = match answer {
        Some(answer) => StoreFuture::ready(answer.map(|ready| asked.outcome(limits, ready))),
        None => limits.check(asked.to_checks(limits)),
    };
    StoreCall::new(limits, call, false)
}

/// Decides about several checks.
fn decide_all(limits: &Arc<Limits>, ask: &Ask) -> Now {
    let waits = ask.waits(limits);
    // Whether there is room to wait is asked before the store.
    if waits.in_queue || waits.for_window {
        return Now::Later(None);
    }
    let mut call = limits.check(ask.checks(limits));
    match call.as_ready() {
        Some(Ok(outcome)) if passes(outcome.decision()) => {
            report::answered(limits, Ok(outcome));
            report::charged(limits, outcome.checks().iter().as_slice(), outcome.decisions());
            Now::All(call)
        }
        Some(Ok(outcome)) if !outcome.is_allowed() => {
            report::answered(limits, Ok(outcome));
            Now::Rejected(deny(limits, taken(&mut call), ask, ask.keys.as_deref()))
        }
        _ => Now::Later(Some(StoreCall::new(limits, call, false))),
    }
}

/// Takes the answer to one check that is there.
#[inline]
pub fn taken_one(answer: &mut One) -> ReadyCheck {
    match answer.take() {
        Some(Ok(ready)) => ready,
        Some(Err(_)) | None => unreachable!("the store has decided"),
    }
}

/// Takes an outcome that is there.
pub fn taken(call: &mut StoreFuture<Outcome>) -> Outcome {
    match call.take_ready() {
        Some(Ok(outcome)) => outcome,
        Some(Err(_)) | None => unreachable!("the store has decided"),
    }
}

/// Whether a decision admits a request without a delay.
pub fn passes(decision: &Decision) -> bool {
    decision.is_allowed() && decision.delay().is_zero()
}
