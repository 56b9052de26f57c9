//! A request that its policies let pass, until the inner service may be called.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::Decision;
use portcullis_core::store::Outcome;
use tokio::time::Instant;

use super::queued_request::QueuedRequest;
use super::refunds::Keep;
use super::shadow_checks::{PendingShadowChecks, ShadowChecks};
use super::{Admitted, State, Step, Verdict, nesting, shadow_checks, verdict, waits};
use crate::charge::ChargeBasis;
use crate::config::LayerConfig;
use crate::response::ResponseContext;
use crate::waiters::WaitPermit;

/// The end of the wait of a request, and its permit to wait.
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

#[expect(clippy::large_enum_variant, reason = "most requests are the first variant")]
enum When {
    /// `None` if no policy counts the request.
    Now(Option<ChargeBasis>),
    Queued(Box<QueuedRequest>),
}

/// The shadow policies are checked for a request that passes.
pub(super) struct CheckingShadows {
    checks: PendingShadowChecks,
    passing: Option<Passing>,
}

/// A request waits for its slot in a queue.
pub(super) struct Delayed {
    queued: Box<QueuedRequest>,
    permit: Option<WaitPermit>,
    shadow: Option<HeaderValue>,
}

/// Lets a request pass that was decided just now. `basis` is `None` if no policy counts it.
pub(super) fn pass(
    config: &Arc<LayerConfig>,
    basis: Option<ChargeBasis>,
    shadow: ShadowChecks,
    parts: &mut Parts,
) -> Step {
    let until = basis.as_ref().and_then(|basis| after(basis.decision()));
    pass_after(config, basis, Wait { until, permit: None }, shadow, parts)
}

/// Lets a request pass after a wait.
pub(super) fn pass_after(
    config: &Arc<LayerConfig>,
    basis: Option<ChargeBasis>,
    wait: Wait,
    shadow: ShadowChecks,
    parts: &mut Parts,
) -> Step {
    let Wait { until, mut permit } = wait;
    let when = match (basis, until) {
        (Some(ChargeBasis::Decided(charged)), Some(at)) => {
            // The permit of the look-up may have been counted under a wider key.
            drop(permit.take());
            permit = waits::acquire(config, charged.checks().narrowest_key());
            if permit.is_none() {
                let response = verdict::reject_overloaded(config, parts);
                return Step::refunded(config, Some(&charged), until, Keep::Nothing, response);
            }
            When::Queued(Box::new(QueuedRequest::new(config, charged, at)))
        }
        (basis, _) => When::Now(basis),
    };
    let passing = Passing { when, permit };
    if shadow.is_empty() {
        return passing.go(config, None, parts);
    }
    let checks = shadow_checks::start(config, shadow);
    if !checks.is_over() {
        return Step::wait(
            config,
            State::CheckingShadows(CheckingShadows { checks, passing: Some(passing) }),
        );
    }
    let shadow = checks.report(config, &mut parts.extensions);
    passing.go(config, shadow, parts)
}

/// When a request that was decided just now may proceed, if it has to wait.
pub(super) fn until(outcome: &Outcome) -> Option<Instant> {
    after(outcome.decision())
}

fn after(decision: &Decision) -> Option<Instant> {
    let delay = decision.delay();
    (!delay.is_zero()).then(|| Instant::now() + delay)
}

impl Passing {
    fn go(self, config: &Arc<LayerConfig>, shadow: Option<HeaderValue>, parts: &mut Parts) -> Step {
        let Self { when, permit } = self;
        match when {
            When::Now(basis) => admit(config, basis, shadow, permit, parts),
            When::Queued(queued) => Step::wait(config, State::Delayed(Delayed { queued, permit, shadow })),
        }
    }
}

fn admit(
    config: &Arc<LayerConfig>,
    basis: Option<ChargeBasis>,
    shadow: Option<HeaderValue>,
    permit: Option<WaitPermit>,
    parts: &mut Parts,
) -> Step {
    let charge = basis.map(|basis| nesting::attach_charge(config, basis, &mut parts.extensions));
    let context = ResponseContext::new(charge, shadow, &config.responses);
    Step::Done(Verdict::Admitted(Admitted::new(context, permit)))
}

impl CheckingShadows {
    pub(super) fn poll(
        &mut self,
        config: &Arc<LayerConfig>,
        parts: &mut Parts,
        cx: &mut Context<'_>,
    ) -> Poll<Step> {
        ready!(self.checks.poll(config, cx));
        let shadow = mem::take(&mut self.checks).report(config, &mut parts.extensions);
        let passing = self.passing.take().expect("a state is left as soon as its answer is there");
        Poll::Ready(passing.go(config, shadow, parts))
    }
}

impl Delayed {
    pub(super) fn poll(
        &mut self,
        config: &Arc<LayerConfig>,
        parts: &mut Parts,
        cx: &mut Context<'_>,
    ) -> Poll<Step> {
        let charged = ready!(self.queued.poll(cx));
        let (shadow, permit) = (self.shadow.take(), self.permit.take());
        Poll::Ready(admit(config, Some(ChargeBasis::Decided(charged)), shadow, permit, parts))
    }
}
