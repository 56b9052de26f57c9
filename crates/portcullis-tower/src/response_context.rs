//! What the response to an admitted request is made of; [`response`](crate::response) renders it.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Response};
use portcullis_core::store::Check;
use portcullis_core::{Decision, Receipt};
use smallvec::SmallVec;

use crate::Charge;
use crate::by_outcome::PendingOutcome;
use crate::charge::Reservation;
use crate::config::LayerConfig;
use crate::headers::X_RATELIMIT_SHADOW;
use crate::request_permits::RequestPermits;
use crate::response::Granted;
use portcullis_engine::LaterCharge;
use portcullis_engine::engine::permits::Permits;

/// The data for the response to an admitted request.
#[derive(Default)]
pub(crate) struct ResponseContext {
    /// `None` if the response shows nothing of it.
    charge: Option<Charge>,
    /// What most responses do not have. Boxed, because the context is moved several times per request.
    extra: Option<Box<Extra>>,
}

#[derive(Default)]
struct Extra {
    /// The decisions of a request without a charge.
    decided: Option<Decided>,
    /// The names of the shadow policies that would have rejected the request.
    shadow: Option<HeaderValue>,
    /// Present if a policy is charged by outcome.
    outcome: Option<Box<PendingOutcome>>,
    reservation: Option<Reservation>,
    /// Present if a policy limits requests in flight.
    permits: Option<RequestPermits>,
}

/// What was decided about a request that has no charge, so that its figures do not change.
struct Decided {
    config: Arc<LayerConfig>,
    all: SmallVec<[Decision; 2]>,
    decisive: Decision,
    /// The checks that were decided under the quota of a grant.
    granted: Vec<Check>,
    /// Whether an outer layer has counted the request.
    is_nested: bool,
}

impl ResponseContext {
    #[inline]
    pub(crate) fn of_charge(charge: Option<Charge>) -> Self {
        Self { charge, extra: None }
    }

    /// The context of a request without a charge.
    pub(crate) fn of_decisions(
        config: &Arc<LayerConfig>,
        decisions: &[Decision],
        decisive: &Decision,
        checks: &[Check],
        is_nested: bool,
    ) -> Self {
        let decided = Decided {
            config: Arc::clone(config),
            all: decisions.iter().cloned().collect(),
            decisive: decisive.clone(),
            granted: checks.iter().filter(|check| check.policy.is_granted()).cloned().collect(),
            is_nested,
        };
        Self { charge: None, extra: Some(Box::new(Extra { decided: Some(decided), ..Extra::default() })) }
    }

    fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    pub(crate) fn show_shadows(&mut self, names: Option<HeaderValue>) {
        if names.is_some() {
            self.extra().shadow = names;
        }
    }

    /// Takes what the outcome of the request decides about.
    #[cold]
    pub(crate) fn await_outcome(
        &mut self,
        config: &Arc<LayerConfig>,
        later: Vec<LaterCharge>,
        shadows: Vec<(usize, Receipt)>,
    ) {
        if let Some(outcome) = PendingOutcome::take(config, self.charge.as_ref(), later, shadows) {
            self.extra().outcome = Some(outcome);
        }
    }

    /// Takes the permits of the request, which it holds until its response has ended.
    pub(crate) fn hold(&mut self, permits: Permits) {
        self.extra().permits = Some(RequestPermits::new(permits));
    }

    /// Takes what is released when the body of the response ends.
    #[inline]
    pub(crate) fn take_permits(&mut self) -> Option<RequestPermits> {
        self.extra.as_mut()?.permits.take()
    }

    /// Records that the inner service is called next. Leaves the counter of the usage in the request, if a policy reserves units
    /// for it.
    #[inline]
    pub(crate) fn call(&mut self, parts: &mut Parts) {
        if let Some(outcome) = self.extra.as_mut().and_then(|extra| extra.outcome.as_mut()) {
            outcome.call();
        }
        if let Some(reservation) = self.charge.as_ref().and_then(|charge| charge.reserve(parts)) {
            self.extra().reservation = Some(reservation);
        }
    }

    /// Whether the response stays as it is, and nothing is held until its end.
    #[inline]
    pub(crate) fn adds_nothing(&self) -> bool {
        self.charge.is_none() && self.extra.is_none()
    }

    /// Takes the outcome to judge, if the response decides about a charge.
    #[inline]
    pub(crate) fn take_outcome(&mut self) -> Option<Box<PendingOutcome>> {
        self.extra.as_mut()?.outcome.take()
    }

    /// Writes the headers, and returns what is settled when the body of the response ends.
    pub(crate) fn write<B>(self, response: &mut Response<B>) -> Option<Reservation> {
        if let Some(charge) = self.charge {
            charge.conclude(|config, outer, decision, all, checks| {
                let is_nested = outer.is_some();
                // Otherwise there is nothing to write.
                if is_nested || config.responses.show_decisions() {
                    let granted = Granted::Among(checks);
                    config.responses.write_admitted(decision, all, granted, is_nested, response);
                }
            });
        }
        let Extra { decided, shadow, reservation, .. } = *self.extra?;
        if let Some(Decided { config, all, decisive, granted, is_nested }) = decided {
            let granted = Granted::Among(&granted);
            config.responses.write_admitted(&decisive, &all, granted, is_nested, response);
        }
        if let Some(names) = shadow {
            response.headers_mut().append(&X_RATELIMIT_SHADOW, names);
        }
        reservation
    }
}
