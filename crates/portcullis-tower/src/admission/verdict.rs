//! The verdict on a request, from the answer of the store.

use std::time::SystemTime;

use bytes::Bytes;
use http::request::Parts;
use http::{Extensions, Response};
use http_body_util::Full;
use portcullis_core::store::{Checks, Outcome};
use portcullis_core::{Decision, FailureMode, Key, Policy, PolicyName, StoreError};

use super::plan::{OnStoreFailure, PlannedRejection};
use super::{handler, nesting};
use crate::charge::ChargeBasis;
use crate::config::LayerConfig;
use crate::denial_reports;
use crate::event::EventKind;
use crate::policy::PolicySet;
use crate::response::{Cause, OwnedCause, Rejection};
use crate::response_context::ResponseContext;
use crate::wait_limit::WaitPermit;
use crate::{Charge, KeyError, Reason};

/// Whether a request is admitted or rejected.
pub(crate) enum Verdict {
    /// The request goes to the inner service.
    Admitted(Admitted),
    Rejected(Rejected),
}

/// The response to a request that does not go to the inner service.
pub(crate) struct Rejected {
    pub(crate) response: Response<Full<Bytes>>,
    /// The narrowest key of the request, if it was checked: it bounds the bodies that are discarded at the same time.
    pub(crate) key: Option<Key>,
}

/// A request that goes to the inner service.
pub(crate) struct Admitted {
    context: ResponseContext,
    /// What the request was counted by, if it has no charge: it may be refunded. `None` if it was admitted at once.
    uncharged: Option<Box<ChargeBasis>>,
    /// Held until the inner service is called, if the request had to wait.
    _permit: Option<WaitPermit>,
}

impl Admitted {
    pub(super) fn new(
        context: ResponseContext,
        uncharged: Option<Box<ChargeBasis>>,
        permit: Option<WaitPermit>,
    ) -> Self {
        Self { context, uncharged, _permit: permit }
    }

    /// Emits the admission. The inner service is called next.
    pub(crate) fn emit_admitted(&self, config: &LayerConfig, extensions: &Extensions) {
        let decisions = match &self.uncharged {
            Some(basis) => basis.decisions(),
            // It was emitted while the decisions were at hand.
            None if self.context.is_uncharged() => return,
            None => self.context.charge().map(Charge::at_admission).unwrap_or_default(),
        };
        config.emit_admitted(decisions, extensions);
    }

    /// Releases the permit, and returns the data for the response. The request goes to the inner service next.
    #[inline]
    pub(crate) fn into_context(mut self, parts: &mut Parts) -> ResponseContext {
        self.context.call(parts);
        self.context
    }

    /// What a check of a handler was counted by.
    pub(super) fn into_basis(self) -> Option<ChargeBasis> {
        self.uncharged.map(|basis| *basis)
    }

    /// The outcome that the request was charged by, for one that had to wait.
    pub(super) fn charged(&self, config: &LayerConfig) -> Option<Outcome> {
        match self.uncharged.as_deref() {
            Some(basis) => basis.outcome(config),
            None => self.context.charge().and_then(Charge::charged),
        }
    }
}

/// Why the enforced policies let a request pass.
#[expect(clippy::large_enum_variant, reason = "most requests are the first variant")]
pub(super) enum Passed {
    /// The store, or its fallback, has decided.
    Decided(Outcome),
    /// The store cannot answer, and all policies are open in that case.
    StoreFailed(StoreError),
}

impl Passed {
    /// The outcome of the `checks` that a request passes. If the store has failed, its decisions are degraded.
    pub(super) fn into_outcome(self, checks: Checks) -> Outcome {
        match self {
            Self::Decided(outcome) => outcome,
            Self::StoreFailed(failure) => Outcome::unanswered(checks, SystemTime::now().into(), failure),
        }
    }
}

/// Emits what an answer has charged, before anything of it is refunded.
#[inline]
pub(super) fn emit_charges(config: &LayerConfig, answer: &Result<Outcome, StoreError>) {
    if let Ok(outcome) = answer {
        config.store.emit_charges(outcome.checks().iter().as_slice(), outcome.decisions());
    }
}

/// Returns `Ok` if the request passes, otherwise its rejection.
#[expect(
    clippy::result_large_err,
    reason = "returned once per request, and moved no further than its caller"
)]
pub(super) fn of(
    config: &LayerConfig,
    answer: Result<Outcome, StoreError>,
    on_failure: OnStoreFailure,
    parts: &Parts,
) -> Result<Passed, Rejected> {
    config.store.emit_answer(&answer);
    match answer {
        Ok(outcome) if outcome.is_allowed() => Ok(Passed::Decided(outcome)),
        Ok(outcome) => Err(reject_denied(config, &outcome, on_failure, parts)),
        // Open policies reject it as well, because an overload must not give a client a second budget.
        Err(error) if error.kind().is_overload() => Err(reject(config, Cause::Overloaded, parts)),
        Err(error) if on_failure.rejects => {
            emit_expiry(config, &error, on_failure);
            Err(reject(config, Cause::StoreFailed, parts))
        }
        Err(error) => Ok(Passed::StoreFailed(error)),
    }
}

/// The response to a request that a policy denies.
pub(super) fn reject_denied(
    config: &LayerConfig,
    denied: &Outcome,
    on_failure: OnStoreFailure,
    parts: &Parts,
) -> Rejected {
    denial_reports::count(&config.store, denied);
    let cause = Cause::Limited { outcome: denied, checked: on_failure.checked };
    let retry_offset = config.responses.retry_offset(on_failure.retry_seed);
    respond(config, &Rejection::new(parts, cause).retried_later_by(retry_offset))
}

/// The decisions about a request that passes because the store has failed.
pub(super) fn degraded(config: &LayerConfig, on_failure: OnStoreFailure) -> Vec<Decision> {
    let at = SystemTime::now().into();
    on_failure
        .checked
        .indexes()
        .map(|index| Decision::degraded(&config.policies()[index].policy, at))
        .collect()
}

/// Emits that a request is rejected that would have passed earlier in the outage.
fn emit_expiry(config: &LayerConfig, error: &StoreError, on_failure: OnStoreFailure) {
    let outlasts = |policy: &Policy| {
        let failure = policy.failure_mode();
        matches!(failure, FailureMode::OpenFor(_))
            && error.outage().is_some_and(|outage| !failure.is_open_after(outage))
    };
    let mut checked = on_failure.checked.indexes().map(|index| &config.policies()[index]);
    if let Some(layer_policy) = checked.find(|layer_policy| outlasts(&layer_policy.policy)) {
        config.store.emit_expiry(layer_policy);
    }
}

/// The response to a request that is rejected whatever the store answers.
pub(super) fn reject_planned(config: &LayerConfig, rejection: &PlannedRejection, parts: &Parts) -> Rejected {
    match rejection {
        PlannedRejection::Identity(error) => reject_key(config, error, parts),
        PlannedRejection::Denied => reject(config, Cause::Denied, parts),
    }
}

/// The response to a request whose identity cannot be determined.
fn reject_key(config: &LayerConfig, error: &KeyError, parts: &Parts) -> Rejected {
    if !error.is_client_fault() {
        config.store.emit_for(&parts.extensions, EventKind::Misconfigured { error });
    }
    reject(config, Cause::NoKey(error), parts)
}

/// The response to a request whose look-up found no key or failed.
pub(super) fn reject_looked_up(config: &LayerConfig, error: &KeyError, parts: &Parts) -> Rejected {
    let cause = if error.is_client_fault() { Cause::NoKey(error) } else { Cause::LookupFailed };
    reject(config, cause, parts)
}

/// The response to a request that would have to wait while too many requests wait.
pub(super) fn reject_overloaded(config: &LayerConfig, parts: &Parts) -> Rejected {
    reject(config, Cause::Overloaded, parts)
}

/// The response to a request whose slot in a queue, which is refunded, is too late for it. `denied` is a denial of its checks.
pub(super) fn reject_late(config: &LayerConfig, denied: &Outcome, parts: &Parts) -> Rejected {
    let is_checked = |index: &usize| {
        let name = config.policies()[*index].policy.name();
        denied.decisions().iter().any(|decision| decision.policy() == name)
    };
    let checked = PolicySet::of((0..config.policies().len()).filter(is_checked));
    reject(config, Cause::Limited { outcome: denied, checked }, parts)
}

/// The response to a request whose key has too many unsettled requests under a policy that looks first.
pub(super) fn reject_unsettled(config: &LayerConfig, policy: &PolicyName, parts: &Parts) -> Rejected {
    config.store.emit_for(&parts.extensions, EventKind::TooManyUnsettled { policy });
    reject(config, Cause::Unsettled(policy), parts)
}

/// The response to a request that has waited, if the inner service is then not ready.
pub(super) fn reject_not_ready(config: &LayerConfig, parts: &Parts) -> Rejected {
    config.store.emit_for(&parts.extensions, EventKind::NotReady);
    reject(config, Cause::Overloaded, parts)
}

fn reject(config: &LayerConfig, cause: Cause<'_>, parts: &Parts) -> Rejected {
    respond(config, &Rejection::new(parts, cause))
}

fn respond(config: &LayerConfig, rejection: &Rejection<'_>) -> Rejected {
    let (reason, decisions) = (rejection.reason(), rejection.decisions());
    let (rejected, extensions) = (EventKind::Rejected { reason, decisions }, &rejection.parts().extensions);
    if reason == Reason::Denied {
        config.store.emit_for(extensions, rejected);
    } else {
        config.store.emit_unlogged(extensions, rejected);
    }
    let response = if config.is_for_handlers {
        handler::with_cause(OwnedCause::new(rejection.cause(), rejection.retry_offset()))
    } else {
        config.responses.reject(rejection, nesting::is_nested(&rejection.parts().extensions))
    };
    Rejected { response, key: rejection.key() }
}
