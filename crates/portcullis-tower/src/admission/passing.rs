//! A request that its policies let pass, until the inner service may have it.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::{Decision, Outcome};
use tokio::time::Instant;

use super::refunds::Keep;
use super::{Admitted, State, Step, Verdict};
use crate::answer::Note;
use crate::charge::Standing;
use crate::queues::QueuedRequest;
use crate::rules::{LayerConfig, ShadowChecks, Watching};
use crate::waiters::WaitPermit;

/// Until when a request waits, and its place among those that do.
#[derive(Default)]
pub(super) struct Wait {
    pub(super) until: Option<Instant>,
    pub(super) permit: Option<WaitPermit>,
}

/// A request that passes, now or in a slot of a queue.
struct Passing {
    when: When,
    permit: Option<WaitPermit>,
}

#[expect(clippy::large_enum_variant, reason = "the first is what most requests are")]
enum When {
    /// `None` if no policy counts the request.
    Now(Option<Standing>),
    Queued(Box<QueuedRequest>),
}

/// The shadow policies are asked about a request that passes.
pub(super) struct Watched {
    watching: Watching,
    passing: Option<Passing>,
}

/// A request waits for its slot in a queue.
pub(super) struct Delayed {
    queued: Box<QueuedRequest>,
    permit: Option<WaitPermit>,
    shadow: Option<HeaderValue>,
}

/// Lets a request pass that was decided just now. `standing` is `None` if no policy counts it.
pub(super) fn pass(
    rules: &Arc<LayerConfig>,
    standing: Option<Standing>,
    shadow: ShadowChecks,
    parts: &mut Parts,
) -> Step {
    let until = standing.as_ref().and_then(|standing| after(standing.decision()));
    pass_after(rules, standing, Wait { until, permit: None }, shadow, parts)
}

/// Lets a request pass after a wait.
pub(super) fn pass_after(
    rules: &Arc<LayerConfig>,
    standing: Option<Standing>,
    wait: Wait,
    shadow: ShadowChecks,
    parts: &mut Parts,
) -> Step {
    let Wait { until, mut permit } = wait;
    let when = match (standing, until) {
        (Some(Standing::Decided(charged)), Some(at)) => {
            // A look-up may have been counted by a wider key.
            drop(permit.take());
            permit = rules.let_wait(charged.checks().narrowest_key());
            if permit.is_none() {
                let response = rules.refuse_overloaded(parts);
                return Step::refunded(rules, Some(&charged), until, Keep::Nothing, response);
            }
            When::Queued(Box::new(QueuedRequest::new(rules, charged, at)))
        }
        (standing, _) => When::Now(standing),
    };
    let passing = Passing { when, permit };
    if shadow.is_empty() {
        return passing.go(rules, None, parts);
    }
    let watching = rules.ask_shadows(shadow);
    if !watching.is_over() {
        return Step::wait(rules, State::Watched(Watched { watching, passing: Some(passing) }));
    }
    let shadow = rules.report(watching, &mut parts.extensions);
    passing.go(rules, shadow, parts)
}

/// When a request goes that was decided just now, if it has to wait.
pub(super) fn until(outcome: &Outcome) -> Option<Instant> {
    after(outcome.decision())
}

fn after(decision: &Decision) -> Option<Instant> {
    let delay = decision.delay();
    (!delay.is_zero()).then(|| Instant::now() + delay)
}

impl Passing {
    fn go(self, rules: &Arc<LayerConfig>, shadow: Option<HeaderValue>, parts: &mut Parts) -> Step {
        let Self { when, permit } = self;
        match when {
            When::Now(standing) => admit(rules, standing, shadow, permit, parts),
            When::Queued(queued) => Step::wait(rules, State::Delayed(Delayed { queued, permit, shadow })),
        }
    }
}

fn admit(
    rules: &Arc<LayerConfig>,
    standing: Option<Standing>,
    shadow: Option<HeaderValue>,
    permit: Option<WaitPermit>,
    parts: &mut Parts,
) -> Step {
    let charge = standing.map(|standing| rules.leave_charge(standing, &mut parts.extensions));
    Step::Done(Verdict::Admitted(Admitted { note: Note { charge, shadow }, _permit: permit }))
}

impl Watched {
    pub(super) fn poll(
        &mut self,
        rules: &Arc<LayerConfig>,
        parts: &mut Parts,
        cx: &mut Context<'_>,
    ) -> Poll<Step> {
        ready!(rules.poll_shadows(&mut self.watching, cx));
        let shadow = rules.report(mem::take(&mut self.watching), &mut parts.extensions);
        let passing = self.passing.take().expect("a state is left as soon as its answer is there");
        Poll::Ready(passing.go(rules, shadow, parts))
    }
}

impl Delayed {
    pub(super) fn poll(
        &mut self,
        rules: &Arc<LayerConfig>,
        parts: &mut Parts,
        cx: &mut Context<'_>,
    ) -> Poll<Step> {
        let charged = ready!(self.queued.poll(cx));
        let (shadow, permit) = (self.shadow.take(), self.permit.take());
        Poll::Ready(admit(rules, Some(Standing::Decided(charged)), shadow, permit, parts))
    }
}
