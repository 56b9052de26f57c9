//! Decides about a request: orders its checks, look-ups, delays and refunds until there is a verdict.
//!
//! This module is independent of the inner service and of the body type. [`start`] decides at once if the store
//! answers at once; otherwise the rest of the decision is an [`Admission`], which is polled with the request.

mod admit;
mod first_check;
mod handler;
mod in_flight;
mod listed;
mod look;
mod lookups;
mod max_wait;
mod nesting;
mod pending_check;
mod pending_lookup;
mod permits;
mod plan;
mod preflight;
mod queued_request;
mod quota_lookups;
mod refunds;
mod second_check;
mod shadow_checks;
pub(crate) mod straight;
mod verdict;
mod waitable_check;
mod window_wait;

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::request::Parts;
use http_body::Body;
use portcullis_core::store::Outcome;
use tokio::time::Instant;

use crate::config::LayerConfig;
use crate::policy::PolicySet;
use crate::response_context::ResponseContext;
use admit::{CheckingShadows, Queued};
use first_check::FirstCheck;
pub(crate) use handler::HandlerCheck;
use lookups::LookingUp;
pub(crate) use nesting::is_nested;
pub(crate) use plan::Plan;
use refunds::{Keep, Refunding, Refunds};
use second_check::SecondCheck;
pub(crate) use verdict::{Admitted, Rejected, Verdict};

/// Returns the checks of a request. `awaited` are the policies whose quotas have to be looked up first; `body` shows whether it can
/// be a preflight.
fn plan_checks(config: &LayerConfig, awaited: PolicySet, parts: &Parts, body: &impl Body) -> Plan {
    if let Some(lists) = config.lists.as_deref()
        && let Some(plan) = listed::plan(config, lists, parts)
    {
        return plan;
    }
    preflight::plan(config, parts, body).unwrap_or_else(|| plan::first(config, awaited, parts))
}

/// Decides about a request, as far as that is possible without waiting. `awaited` are the policies whose quotas have to be looked up
/// first. A layer for which [`straight::policy`] finds a policy needs no plan.
#[inline]
pub(crate) fn start(
    config: &Arc<LayerConfig>,
    awaited: PolicySet,
    parts: &mut Parts,
    body: &impl Body,
) -> Started {
    let plan = plan_checks(config, awaited, parts, body);
    Admission::start(config, plan, parts).started(config, parts)
}

/// What has become of a request before any wait.
#[expect(clippy::large_enum_variant, reason = "a waiting admission is boxed together with the request")]
pub(crate) enum Started {
    /// The inner service is called next.
    Admitted(ResponseContext),
    Rejected(Rejected),
    Waiting(Admission),
}

/// A verdict, or the wait for it.
#[expect(clippy::large_enum_variant, reason = "a waiting admission is boxed together with the request")]
pub(crate) enum Step {
    Done(Verdict),
    Wait(Admission),
}

/// A request that waits for its verdict.
///
/// # Cancel safety
///
/// If it is dropped while look-ups run, the charges of policies that count rejections stay and the others are refunded. If it is
/// dropped during a call of the store, the charges of that call may stay. In either case, and in a queue, it gives up its slot.
/// A refund that has begun continues in the background.
pub(crate) struct Admission {
    config: Arc<LayerConfig>,
    state: State,
}

enum State {
    /// The policies with synchronous keys are checked.
    First(FirstCheck),
    LookingUp(Box<LookingUp>),
    /// The policies whose keys were looked up are checked.
    Second(Box<SecondCheck>),
    /// The shadow policies are checked.
    CheckingShadows(CheckingShadows),
    Queued(Queued),
    /// A rejected request is refunded.
    Refunding(Refunding),
}

impl Admission {
    /// Decides about a request, as far as that is possible without waiting.
    pub(crate) fn start(config: &Arc<LayerConfig>, plan: Plan, parts: &mut Parts) -> Step {
        first_check::start(config, plan, parts)
    }

    /// Whether the inner service may be kept ready during the wait. That is the case for a call of the store, which ends soon
    /// after its deadline. A delay, the wait for a window or a look-up may take longer.
    pub(crate) fn keeps_readiness(&self) -> bool {
        match &self.state {
            State::First(first) => first.keeps_readiness(),
            State::Second(second) => second.keeps_readiness(),
            State::CheckingShadows(_) | State::Refunding(_) => true,
            State::LookingUp(_) | State::Queued(_) => false,
        }
    }

    /// The bytes that are read of the body if the request is rejected.
    pub(crate) fn discarded_bytes(&self) -> u64 {
        self.config.discarded_bytes
    }

    /// How long a request that was admitted after a wait waits for the inner service to become ready.
    pub(crate) fn ready_deadline(&self) -> Duration {
        self.config.ready_deadline
    }

    /// Emits the admission of a request that had to wait. The inner service is called next.
    pub(crate) fn emit_admitted(&self, admitted: &Admitted, parts: &Parts) {
        admitted.emit_admitted(&self.config, &parts.extensions);
    }

    /// Rejects a request that was admitted, because the inner service is not ready in time. The next [`poll`](Self::poll)
    /// refunds it.
    pub(crate) fn reject_admitted(&mut self, admitted: &Admitted, parts: &Parts) {
        let rejected = verdict::reject_not_ready(&self.config, parts);
        self.state = State::Refunding(Refunding::new(self.refund(admitted), rejected));
    }

    /// Refunds a request that was admitted, because the inner service has failed before it was called. Refunds that the store
    /// does not answer at once continue in the background.
    pub(crate) fn refund_admitted(&self, admitted: &Admitted) {
        drop(self.refund(admitted));
    }

    fn refund(&self, admitted: &Admitted) -> Refunds {
        Refunds::start(&self.config, admitted.charged(&self.config).as_ref(), None, Keep::Nothing)
    }

    /// Continues the decision. `parts` are those of the request passed to [`start`](Self::start).
    pub(crate) fn poll(&mut self, parts: &mut Parts, cx: &mut Context<'_>) -> Poll<Verdict> {
        loop {
            let Self { config, state } = self;
            let step = match state {
                State::First(first) => first.poll(config, parts, cx),
                State::LookingUp(looking_up) => looking_up.poll(config, parts, cx),
                State::Second(second) => second.poll(config, parts, cx),
                State::CheckingShadows(checking) => checking.poll(config, parts, cx),
                State::Queued(queued) => queued.poll(config, parts, cx),
                State::Refunding(refunding) => refunding.poll(cx),
            };
            match ready!(step) {
                Step::Done(verdict) => return Poll::Ready(verdict),
                Step::Wait(next) => *self = next,
            }
        }
    }
}

impl Step {
    /// What becomes of the request whose first step this is.
    #[inline]
    fn started(self, config: &LayerConfig, parts: &mut Parts) -> Started {
        match self {
            Self::Done(Verdict::Admitted(admitted)) => {
                admitted.emit_admitted(config, &parts.extensions);
                Started::Admitted(admitted.into_context(parts))
            }
            Self::Done(Verdict::Rejected(rejected)) => Started::Rejected(rejected),
            Self::Wait(admission) => Started::Waiting(admission),
        }
    }

    fn wait(config: &Arc<LayerConfig>, state: State) -> Self {
        Self::Wait(Admission { config: Arc::clone(config), state })
    }

    fn rejected(rejected: Rejected) -> Self {
        Self::Done(Verdict::Rejected(rejected))
    }

    /// Rejects a request once its charges are refunded, except for those that `keep` includes. A refund that fails does not
    /// change the response. `slot_at` is the time of the request's slot, if it had to wait.
    fn refunded(
        config: &Arc<LayerConfig>,
        charged: Option<&Outcome>,
        slot_at: Option<Instant>,
        keep: Keep,
        rejected: Rejected,
    ) -> Self {
        if charged.is_none() {
            return Self::rejected(rejected);
        }
        let refunds = Refunds::start(config, charged, slot_at, keep);
        if refunds.are_over() {
            return Self::rejected(rejected);
        }
        Self::wait(config, State::Refunding(Refunding::new(refunds, rejected)))
    }
}
