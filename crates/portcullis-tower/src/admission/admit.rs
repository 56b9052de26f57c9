//! Admits a request that the enforced policies let pass: checks the shadow policies, waits for its slot in a queue, and attaches
//! its charge.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::Decision;
use portcullis_core::store::{Outcome, StoreFuture};
use tokio::time::Instant;

use super::max_wait::MaxWait;
use super::queued_request::QueuedRequest;
use super::refunds::Keep;
use super::shadow_checks::{PendingShadowChecks, ShadowChecks};
use super::{Admitted, State, Step, Verdict, handler, nesting, permits, shadow_checks, verdict};
use crate::charge::ChargeBasis;
use crate::config::LayerConfig;
use crate::event::{EventKeys, EventKind};
use crate::response_context::{Counted, ResponseContext};
use crate::wait_limit::WaitPermit;

/// The end of the delay of a request, and its permit to wait.
#[derive(Default)]
pub(super) struct Delay {
    pub(super) end: Option<Instant>,
    pub(super) permit: Option<WaitPermit>,
}

/// When a request is released to the inner service.
#[expect(clippy::large_enum_variant, reason = "most requests are the first variant")]
enum Release {
    /// `None` if no policy counts the request.
    Now(Option<ChargeBasis>),
    /// In its slot of a queue.
    Queued(Box<QueuedRequest>),
}

/// The shadow policies are checked for a request that passes.
pub(super) struct CheckingShadows {
    checks: PendingShadowChecks,
    release: Option<Release>,
    permit: Option<WaitPermit>,
}

/// A request waits for its slot in a queue.
pub(super) struct Queued {
    request: Box<QueuedRequest>,
    since: Instant,
    permit: Option<WaitPermit>,
    shadow: Option<HeaderValue>,
}

/// Admits a request at the end of its delay. `basis` is `None` if no policy counts it.
pub(super) fn start(
    config: &Arc<LayerConfig>,
    basis: Option<ChargeBasis>,
    delay: Delay,
    shadow: ShadowChecks,
    parts: &mut Parts,
) -> Step {
    let Delay { end, mut permit } = delay;
    let release = match (basis, end) {
        (Some(ChargeBasis::Decided(charged)), Some(at)) => {
            if let Some(denied) = MaxWait::denial(&parts.extensions, &charged) {
                let response = verdict::reject_late(config, &denied, parts);
                return Step::refunded(config, Some(&charged), end, Keep::Nothing, response);
            }
            // The permit of the look-up may have been counted under a wider key.
            drop(permit.take());
            let keys = || EventKeys::of_request(&parts.extensions);
            permit = permits::acquire(config, charged.checks().narrowest_key(), keys);
            if permit.is_none() {
                let response = verdict::reject_overloaded(config, parts);
                return Step::refunded(config, Some(&charged), end, Keep::Nothing, response);
            }
            Release::Queued(Box::new(QueuedRequest::new(config, charged, at)))
        }
        (basis, _) => Release::Now(basis),
    };
    if shadow.is_empty() {
        return release_request(config, release, permit, None, parts);
    }
    let checks = shadow_checks::start(config, shadow);
    if !checks.is_over() {
        let checking = CheckingShadows { checks, release: Some(release), permit };
        return Step::wait(config, State::CheckingShadows(checking));
    }
    let shadow = checks.report(config, &mut parts.extensions);
    release_request(config, release, permit, shadow, parts)
}

/// Whether a decision lets a request pass without a delay.
pub(super) fn passes_without_delay(decision: &Decision) -> bool {
    decision.is_allowed() && decision.delay().is_zero()
}

/// Admits a request that [passes without a delay](passes_without_delay), if no shadow policies are checked and the store has
/// answered at once.
// Inlined, so that what the request is charged by is moved to the charge and nowhere before.
#[inline]
pub(super) fn at_once(config: &Arc<LayerConfig>, basis: ChargeBasis, parts: &mut Parts) -> Step {
    if config.is_for_handlers {
        return handler::admitted(Some(basis), None);
    }
    let counted = if config.without_charge {
        // The inner service is called next. So nothing is refunded before, and the basis is not kept, which would allocate.
        let decided = nesting::decide_without_charge(config, &basis, &parts.extensions);
        config.emit_admitted(basis.decisions(), &parts.extensions);
        Counted::Uncharged(decided)
    } else {
        Counted::Charged(nesting::attach_charge(config, basis, &mut parts.extensions))
    };
    admitted_at_once(config, counted, parts)
}

#[inline]
fn admitted_at_once(config: &Arc<LayerConfig>, counted: Counted, parts: &mut Parts) -> Step {
    let mut context = ResponseContext::new(Some(counted), None);
    if config.by_outcome.any() {
        context.await_outcome(config, &mut parts.extensions);
    }
    Step::Done(Verdict::Admitted(Admitted::new(context, None, None)))
}

/// The same for an answer that is an outcome.
#[inline]
pub(super) fn decided_at_once(
    config: &Arc<LayerConfig>,
    answer: &mut StoreFuture<Outcome>,
    parts: &mut Parts,
) -> Step {
    let decided = |answer: &mut StoreFuture<Outcome>| match answer.take_ready() {
        Some(Ok(outcome)) => ChargeBasis::Decided(outcome),
        Some(Err(_)) | None => unreachable!("the store has admitted the request"),
    };
    match answer.as_ready() {
        Some(Ok(outcome)) if !config.is_for_handlers && !config.without_charge => {
            let outer = nesting::take_outer(config, outcome.decisions(), &mut parts.extensions);
            let charge = nesting::attach(config, || decided(answer), outer, &mut parts.extensions);
            admitted_at_once(config, Counted::Charged(charge), parts)
        }
        _ => at_once(config, decided(answer), parts),
    }
}

/// The end of the delay of a request that was decided just now, if it has one.
pub(super) fn delay_end(decision: &Decision) -> Option<Instant> {
    let delay = decision.delay();
    (!delay.is_zero()).then(|| Instant::now() + delay)
}

fn release_request(
    config: &Arc<LayerConfig>,
    release: Release,
    permit: Option<WaitPermit>,
    shadow: Option<HeaderValue>,
    parts: &mut Parts,
) -> Step {
    match release {
        Release::Now(basis) => admitted(config, basis, permit, shadow, parts),
        Release::Queued(request) => {
            let since = Instant::now();
            Step::wait(config, State::Queued(Queued { request, since, permit, shadow }))
        }
    }
}

fn admitted(
    config: &Arc<LayerConfig>,
    basis: Option<ChargeBasis>,
    permit: Option<WaitPermit>,
    shadow: Option<HeaderValue>,
    parts: &mut Parts,
) -> Step {
    if config.is_for_handlers {
        return handler::admitted(basis, permit);
    }
    let (counted, uncharged) = match basis {
        None => (None, None),
        Some(basis) if config.without_charge => {
            let decided = nesting::decide_without_charge(config, &basis, &parts.extensions);
            (Some(Counted::Uncharged(decided)), Some(Box::new(basis)))
        }
        Some(basis) => {
            let charge = nesting::attach_charge(config, basis, &mut parts.extensions);
            (Some(Counted::Charged(charge)), None)
        }
    };
    let mut context = ResponseContext::new(counted, shadow);
    if config.holds_permits {
        context.hold_permits(parts);
    }
    if config.by_outcome.any() {
        context.await_outcome(config, &mut parts.extensions);
    }
    Step::Done(Verdict::Admitted(Admitted::new(context, uncharged, permit)))
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
        let release = self.release.take().expect("a state is not polled after its end");
        Poll::Ready(release_request(config, release, self.permit.take(), shadow, parts))
    }
}

impl Queued {
    pub(super) fn poll(
        &mut self,
        config: &Arc<LayerConfig>,
        parts: &mut Parts,
        cx: &mut Context<'_>,
    ) -> Poll<Step> {
        let charged = ready!(self.request.poll(cx));
        let (permit, shadow) = (self.permit.take(), self.shadow.take());
        let waited = EventKind::Waited { policy: charged.decision().policy(), waited: self.since.elapsed() };
        config.store.emit_for(&parts.extensions, waited);
        Poll::Ready(admitted(config, Some(ChargeBasis::Decided(charged)), permit, shadow, parts))
    }
}
