//! A request that its policies let pass, until the inner service may have it.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use portcullis_core::{Decision, Key, Outcome};
use tokio::time::{Instant, Sleep};

use super::{Admitted, State, Step, Verdict};
use crate::answer::Note;
use crate::charge::Standing;
use crate::rules::{Rules, ShadowChecks, Watching};
use crate::waiters::WaitPermit;

/// Until when a request waits, and its place among those that do.
#[derive(Default)]
pub(super) struct Wait {
    pub(super) until: Option<Instant>,
    pub(super) permit: Option<WaitPermit>,
}

/// The shadow policies are asked about a request that passes.
pub(super) struct Watched {
    watching: Watching,
    note: Note,
    wait: Wait,
}

/// A request waits for its slot in a queue.
pub(super) struct Delayed {
    sleep: Pin<Box<Sleep>>,
    admitted: Admitted,
}

/// Lets a request pass that was decided just now. `standing` is `None` if no policy counts it.
pub(super) fn pass(
    rules: &Arc<Rules>,
    standing: Option<Standing>,
    shadow: ShadowChecks,
    parts: &mut Parts,
) -> Step {
    let until = standing.as_ref().and_then(|standing| after(standing.decision()));
    pass_after(rules, standing, Wait { until, permit: None }, shadow, parts)
}

/// Lets a request pass after a wait.
pub(super) fn pass_after(
    rules: &Arc<Rules>,
    standing: Option<Standing>,
    mut wait: Wait,
    shadow: ShadowChecks,
    parts: &mut Parts,
) -> Step {
    if wait.until.is_some() {
        // A look-up may have been counted by a wider key.
        drop(wait.permit.take());
        wait.permit = rules.let_wait(standing.as_ref().and_then(narrowest_key));
        if wait.permit.is_none() {
            let charged = standing.into_iter().flat_map(Standing::into_receipts);
            return Step::refunded(rules, charged, rules.refuse_overloaded(parts));
        }
    }
    let mut note = Note::default();
    if let Some(standing) = standing {
        note.charge = Some(rules.leave_charge(standing, &mut parts.extensions));
    }
    if !shadow.is_empty() {
        let watching = rules.ask_shadows(shadow);
        if !watching.is_over() {
            return Step::wait(rules, State::Watched(Watched { watching, note, wait }));
        }
        note.shadow = rules.report(watching, &mut parts.extensions);
    }
    call(rules, note, wait)
}

/// When a request goes that was decided just now, if it has to wait.
pub(super) fn until(outcome: &Outcome) -> Option<Instant> {
    after(outcome.decision())
}

fn after(decision: &Decision) -> Option<Instant> {
    let delay = decision.delay();
    (!delay.is_zero()).then(|| Instant::now() + delay)
}

fn narrowest_key(standing: &Standing) -> Option<Key> {
    match standing {
        Standing::Decided(outcome) => outcome.checks().narrowest_key(),
        Standing::Degraded(_) => None,
    }
}

fn call(rules: &Arc<Rules>, note: Note, wait: Wait) -> Step {
    let admitted = Admitted { note, _permit: wait.permit };
    match wait.until {
        None => Step::Done(Verdict::Admitted(admitted)),
        Some(at) => {
            let sleep = Box::pin(tokio::time::sleep_until(at));
            Step::wait(rules, State::Delayed(Delayed { sleep, admitted }))
        }
    }
}

impl Watched {
    pub(super) fn poll(&mut self, rules: &Arc<Rules>, parts: &mut Parts, cx: &mut Context<'_>) -> Poll<Step> {
        ready!(rules.poll_shadows(&mut self.watching, cx));
        let mut note = mem::take(&mut self.note);
        note.shadow = rules.report(mem::take(&mut self.watching), &mut parts.extensions);
        Poll::Ready(call(rules, note, mem::take(&mut self.wait)))
    }
}

impl Delayed {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        ready!(self.sleep.as_mut().poll(cx));
        Poll::Ready(Step::Done(Verdict::Admitted(mem::take(&mut self.admitted))))
    }
}
