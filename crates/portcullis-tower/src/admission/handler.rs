//! Decides about a check that a handler makes: one with given keys, without a request and without an inner service.
//!
//! It is admitted as a request is. Only both ends differ: the keys are not extracted, an admission returns what was charged
//! instead of attaching it to a request, and a rejection returns its cause, of which the handler makes a response.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::Full;
use portcullis_core::store::Outcome;
use portcullis_core::{Decision, Key, StoreError, StoreErrorKind};

use super::max_wait::MaxWait;
use super::plan::{PlannedChecks, PlannedRejection, kept_keys};
use super::{Admission, Admitted, Plan, Step, Verdict};
use crate::charge::ChargeBasis;
use crate::config::LayerConfig;
use crate::event::EventKind;
use crate::in_flight::Permits;
use crate::response::OwnedCause;
use crate::response_context::ResponseContext;
use crate::wait_limit::WaitPermit;
use crate::{KeyError, Mode};

/// One policy that a handler checks: its index, the key to charge, and the units.
pub(crate) type GivenCheck = (usize, Result<Key, KeyError>, u64);

/// A check of a handler. It decides when it is first polled.
///
/// # Cancel safety
///
/// As for [`Admission`].
pub(crate) struct HandlerCheck {
    config: Arc<LayerConfig>,
    /// Those of no request. Their extensions have the longest wait, if it is bounded.
    parts: Parts,
    /// `None` once it has begun.
    plan: Option<Plan>,
    /// The checks of the plan, for a charge that keeps its keys even if the store cannot answer.
    planned: PlannedChecks,
    waiting: Option<Box<Admission>>,
}

impl HandlerCheck {
    /// Plans the checks. `config` is one [for handlers](LayerConfig::for_handlers).
    pub(crate) fn new(
        config: Arc<LayerConfig>,
        checks: impl IntoIterator<Item = GivenCheck>,
        max_wait: Option<Duration>,
    ) -> Self {
        let plan = plan(&config, checks);
        let (mut parts, ()) = Request::new(()).into_parts();
        if let Some(max_wait) = max_wait {
            parts.extensions.insert(MaxWait(max_wait));
        }
        let planned = plan.enforced.clone();
        Self { config, parts, plan: Some(plan), planned, waiting: None }
    }

    /// Takes the permits that an admission has taken.
    pub(crate) fn take_permits(&mut self) -> Option<Permits> {
        let Parts { method, extensions, .. } = &mut self.parts;
        if self.config.holds_permits { Permits::take(method, extensions) } else { None }
    }

    pub(crate) fn config(&self) -> &Arc<LayerConfig> {
        &self.config
    }

    /// Decides. Returns what was charged, or why nothing was.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<ChargeBasis, Arc<OwnedCause>>> {
        if let Some(plan) = self.plan.take() {
            match Admission::start(&self.config, plan, &mut self.parts) {
                Step::Done(verdict) => return Poll::Ready(self.conclude(verdict)),
                Step::Wait(admission) => self.waiting = Some(Box::new(admission)),
            }
        }
        let admission = self.waiting.as_mut().expect("a check is not polled after its end");
        let verdict = ready!(admission.poll(&mut self.parts, cx));
        self.waiting = None;
        Poll::Ready(self.conclude(verdict))
    }

    fn conclude(&self, verdict: Verdict) -> Result<ChargeBasis, Arc<OwnedCause>> {
        match verdict {
            Verdict::Admitted(admitted) => {
                admitted.emit_admitted(&self.config, &self.parts.extensions);
                Ok(self.basis(admitted.into_basis()))
            }
            Verdict::Rejected(mut rejected) => Err(rejected
                .response
                .extensions_mut()
                .remove()
                .expect("a rejection for a handler has its cause")),
        }
    }

    /// The basis of the charge, with the keys of all checks, so that later checks find them after an outage.
    fn basis(&self, basis: Option<ChargeBasis>) -> ChargeBasis {
        let is_complete = |basis: &ChargeBasis| !matches!(basis, ChargeBasis::Degraded(_));
        if let Some(basis) = basis.filter(is_complete) {
            return basis;
        }
        let at = SystemTime::now().into();
        if self.planned.is_empty() {
            let policies = self.config.policies().iter();
            let not_asked = policies.map(|layer_policy| Decision::not_asked(&layer_policy.policy, at));
            return ChargeBasis::Degraded(not_asked.collect());
        }
        // The error itself was emitted.
        let failure = StoreError::new(StoreErrorKind::Unavailable, "the store could not answer");
        ChargeBasis::Decided(Outcome::unanswered(self.planned.checks(&self.config), at, failure))
    }
}

fn plan(config: &LayerConfig, checks: impl IntoIterator<Item = GivenCheck>) -> Plan {
    let mut plan = Plan { keys: kept_keys(config), ..Plan::default() };
    for (index, key, cost) in checks {
        let layer_policy = &config.policies()[index];
        if layer_policy.mode == Mode::Off {
            continue;
        }
        match key {
            Ok(key) => plan.add(index, layer_policy, key, cost),
            // A shadow policy never rejects.
            Err(error) if layer_policy.is_shadow => {
                let policy = layer_policy.policy.name();
                plan.emit(config, EventKind::ShadowUnidentified { policy, error: &error });
            }
            Err(error) => {
                if error.is_client_fault() {
                    let policy = layer_policy.policy.name();
                    plan.emit(config, EventKind::IdentityMalformed { policy, error: &error });
                }
                let rejection = Some(PlannedRejection::Identity(error));
                return Plan { rejection, keys: plan.keys, ..Plan::default() };
            }
        }
    }
    plan
}

/// Admits a check of a handler: there is no request that could keep a charge.
pub(super) fn admitted(basis: Option<ChargeBasis>, permit: Option<WaitPermit>) -> Step {
    let admitted = Admitted::new(ResponseContext::default(), basis.map(Box::new), permit);
    Step::Done(Verdict::Admitted(admitted))
}

/// An empty response that carries the cause of a rejection to the handler.
pub(super) fn with_cause(cause: OwnedCause) -> Response<Full<Bytes>> {
    let mut response = Response::default();
    response.extensions_mut().insert(Arc::new(cause));
    response
}
