//! A request that its policies let pass, until the inner service may have it.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use portcullis_core::{Decision, Outcome};
use tokio::time::{Instant, Sleep};

use super::{State, Step, Verdict};
use crate::answer::Note;
use crate::charge::Standing;
use crate::rules::{Rules, ShadowChecks, Watching};

/// The shadow policies are asked about a request that passes.
pub(super) struct Watched {
    watching: Watching,
    note: Note,
    call_at: Option<Instant>,
}

/// A request waits for its slot in a queue.
pub(super) struct Delayed {
    sleep: Pin<Box<Sleep>>,
    note: Note,
}

/// Lets a request pass that was decided just now. `standing` is `None` if no policy counts it.
pub(super) fn pass(
    rules: &Arc<Rules>,
    standing: Option<Standing>,
    shadow: ShadowChecks,
    parts: &mut Parts,
) -> Step {
    let call_at = standing.as_ref().and_then(|standing| after(standing.decision()));
    pass_at(rules, standing, call_at, shadow, parts)
}

/// Lets a request pass whose turn is at `call_at`, if it has to wait.
pub(super) fn pass_at(
    rules: &Arc<Rules>,
    standing: Option<Standing>,
    call_at: Option<Instant>,
    shadow: ShadowChecks,
    parts: &mut Parts,
) -> Step {
    let mut note = Note::default();
    if let Some(standing) = standing {
        note.charge = Some(rules.leave_charge(standing, &mut parts.extensions));
    }
    if !shadow.is_empty() {
        let watching = rules.ask_shadows(shadow);
        if !watching.is_over() {
            return Step::wait(rules, State::Watched(Watched { watching, note, call_at }));
        }
        note.shadow = rules.report(watching, &mut parts.extensions);
    }
    call(rules, note, call_at)
}

/// When a request is let go that was decided just now, if it has to wait.
pub(super) fn call_at(outcome: &Outcome) -> Option<Instant> {
    after(outcome.decision())
}

fn after(decision: &Decision) -> Option<Instant> {
    let delay = decision.delay();
    (!delay.is_zero()).then(|| Instant::now() + delay)
}

fn call(rules: &Arc<Rules>, note: Note, call_at: Option<Instant>) -> Step {
    match call_at {
        None => Step::Done(Verdict::Admitted(note)),
        Some(at) => {
            let sleep = Box::pin(tokio::time::sleep_until(at));
            Step::wait(rules, State::Delayed(Delayed { sleep, note }))
        }
    }
}

impl Watched {
    pub(super) fn poll(&mut self, rules: &Arc<Rules>, parts: &mut Parts, cx: &mut Context<'_>) -> Poll<Step> {
        ready!(rules.poll_shadows(&mut self.watching, cx));
        let mut note = mem::take(&mut self.note);
        note.shadow = rules.report(mem::take(&mut self.watching), &mut parts.extensions);
        Poll::Ready(call(rules, note, self.call_at))
    }
}

impl Delayed {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        ready!(self.sleep.as_mut().poll(cx));
        Poll::Ready(Step::Done(Verdict::Admitted(mem::take(&mut self.note))))
    }
}
