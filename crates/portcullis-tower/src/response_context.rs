//! What the response to an admitted request is made of; [`response`](crate::response) renders it.

use std::ptr;
use std::sync::Arc;

use http::request::Parts;
use http::{Extensions, HeaderValue, Response};
use portcullis_core::Decision;
use portcullis_core::store::Check;
use smallvec::{SmallVec, smallvec};

use crate::Charge;
use crate::by_outcome::PendingOutcome;
use crate::charge::{ChargeBasis, Reservation};
use crate::config::LayerConfig;
use crate::enclosing::{self, Enclosing, Scope};
use crate::headers::X_RATELIMIT_SHADOW;
use crate::in_flight::{Permits, RequestPermits};
use crate::policy::PolicySet;
use crate::response::{self, Granted};

/// The data for the response to an admitted request: what it was counted by, and the shadow header.
#[derive(Default)]
pub(crate) struct ResponseContext {
    counted: Option<Counted>,
    /// What most responses do not have. Boxed, because the context is moved several times per request.
    extra: Option<Box<Extra>>,
}

#[derive(Default)]
struct Extra {
    /// The names of the shadow policies that would have rejected the request.
    shadow: Option<HeaderValue>,
    /// Present if a policy is charged by outcome.
    outcome: Option<Box<PendingOutcome>>,
    reservation: Option<Reservation>,
    /// Present if a policy limits requests in flight.
    permits: Option<RequestPermits>,
}

/// What a request was counted by.
pub(crate) enum Counted {
    Charged(Charge),
    Uncharged(Uncharged),
    /// By a charge that only the request has, because the response shows nothing of it. With it, whether the decisive decision was
    /// metered.
    Unshown {
        is_metered: bool,
    },
}

/// A request that was counted and has no [`Charge`], so that its decisions do not change.
pub(crate) struct Uncharged {
    /// `None` while it is on the stack of the thread.
    layer: Option<Enclosing>,
    has_outer_charge: bool,
    /// Whether the decisive decision is metered.
    is_metered: bool,
    /// Present where the response shows them. Boxed, because the future of every response has room for this.
    decisions: Option<Box<Decisions>>,
}

struct Decisions {
    all: SmallVec<[Decision; 2]>,
    decisive_index: usize,
    /// The checks that were decided under the quota of a grant.
    granted: Vec<Check>,
}

impl ResponseContext {
    /// `counted` is `None` if no policy counts the request.
    #[inline]
    pub(crate) fn new(counted: Option<Counted>, shadow: Option<HeaderValue>) -> Self {
        let extra = shadow.map(|shadow| Box::new(Extra { shadow: Some(shadow), ..Extra::default() }));
        Self { counted, extra }
    }

    fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Takes what is held for the request until its outcome is known.
    #[cold]
    pub(crate) fn await_outcome(&mut self, config: &Arc<LayerConfig>, extensions: &mut Extensions) {
        if let Some(outcome) = PendingOutcome::take(config, self.charge(), extensions) {
            self.extra().outcome = Some(outcome);
        }
    }

    /// Takes the permits of the request, which it holds until its response has ended.
    #[cold]
    pub(crate) fn hold_permits(&mut self, parts: &mut Parts) {
        if let Some(permits) = Permits::take(&parts.method, &mut parts.extensions) {
            self.extra().permits = Some(RequestPermits::new(permits));
        }
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
        if let Some(reservation) = self.charge().and_then(|charge| charge.reserve(parts)) {
            self.extra().reservation = Some(reservation);
        }
    }

    /// Whether the response stays as it is, and nothing is held until its end.
    #[inline]
    pub(crate) fn adds_nothing(&self) -> bool {
        let is_shown = match &self.counted {
            None => false,
            Some(Counted::Charged(_)) => true,
            Some(Counted::Uncharged(uncharged)) => uncharged.decisions.is_some() || uncharged.is_marked(),
            // A layer without charges may be around the response only.
            Some(Counted::Unshown { is_metered }) => *is_metered && enclosing::is_enclosed(),
        };
        !is_shown && self.extra.is_none()
    }

    /// Takes the outcome to judge, if the response decides about a charge.
    #[inline]
    pub(crate) fn take_outcome(&mut self) -> Option<Box<PendingOutcome>> {
        self.extra.as_mut()?.outcome.take()
    }

    pub(crate) fn charge(&self) -> Option<&Charge> {
        match &self.counted {
            Some(Counted::Charged(charge)) => Some(charge),
            Some(Counted::Uncharged(_) | Counted::Unshown { .. }) | None => None,
        }
    }

    /// Whether the request was counted and has no charge, so that there is something to [`enclose`](Self::enclose) the inner service
    /// with.
    #[inline]
    pub(crate) fn is_uncharged(&self) -> bool {
        matches!(self.counted, Some(Counted::Uncharged(_)))
    }

    /// Lets layers in the inner service notice this one while the service is called or polled, by the stack of the thread. A
    /// charge is noticed without it.
    // Not a function that calls the service, because its closure would move the request.
    #[inline]
    pub(crate) fn enclose(&mut self) -> Option<Scope<'_>> {
        match &mut self.counted {
            Some(Counted::Uncharged(uncharged)) => Scope::enter(&mut uncharged.layer),
            Some(Counted::Charged(_) | Counted::Unshown { .. }) | None => None,
        }
    }

    /// Writes the headers, and returns what is settled when the body of the response ends.
    pub(crate) fn write<B>(self, response: &mut Response<B>) -> Option<Reservation> {
        match self.counted {
            Some(Counted::Charged(charge)) => charge.conclude(|config, outer, decision, all, checks| {
                let is_nested = outer.is_some() || enclosing::is_enclosed();
                // Otherwise there is nothing to write.
                if is_nested || config.responses.show_decisions() {
                    config.responses.write_admitted(
                        decision,
                        all,
                        Granted::Among(checks),
                        is_nested,
                        response,
                    );
                }
            }),
            Some(Counted::Uncharged(uncharged)) => uncharged.write(response),
            Some(Counted::Unshown { is_metered }) if is_metered && enclosing::is_enclosed() => {
                response::mark_once(response);
            }
            Some(Counted::Unshown { .. }) | None => {}
        }
        let Extra { shadow, reservation, .. } = *self.extra?;
        if let Some(names) = shadow {
            response.headers_mut().append(&X_RATELIMIT_SHADOW, names);
        }
        reservation
    }
}

impl Uncharged {
    pub(crate) fn new(config: &Arc<LayerConfig>, basis: &ChargeBasis, has_outer_charge: bool) -> Self {
        let decisions = basis.decisions();
        let counts = |index: &usize| {
            decisions.iter().any(|one| one.policy() == config.policies()[*index].policy.name())
        };
        Self {
            layer: Some(Enclosing {
                config: Arc::clone(config),
                counted: PolicySet::of((0..config.policies().len()).filter(counts)),
            }),
            has_outer_charge,
            is_metered: basis.decision().is_metered(),
            decisions: config.responses.show_decisions().then(|| Box::new(Decisions::new(basis))),
        }
    }

    /// The same for a layer with one policy, which has counted the request.
    #[inline]
    pub(crate) fn single(config: &Arc<LayerConfig>, decision: &Decision, has_outer_charge: bool) -> Self {
        let decisions = config.responses.show_decisions().then(|| Box::new(Decisions::single(decision)));
        let layer = Enclosing { config: Arc::clone(config), counted: PolicySet::one(0) };
        Self { layer: Some(layer), has_outer_charge, is_metered: decision.is_metered(), decisions }
    }

    fn write<B>(&self, response: &mut Response<B>) {
        match self.decisions.as_deref() {
            Some(Decisions { all, decisive_index, granted }) => {
                let decisive = &all[*decisive_index];
                let layer = self.layer.as_ref().expect("the inner service is neither called nor polled");
                let granted = Granted::Among(granted);
                let is_nested = self.is_nested();
                layer.config.responses.write_admitted(decisive, all, granted, is_nested, response);
            }
            None if self.is_marked() => response::mark_as_decided(response),
            None => {}
        }
    }

    /// Whether an outer layer has counted the request.
    fn is_nested(&self) -> bool {
        self.has_outer_charge || enclosing::is_enclosed()
    }

    /// Whether outer layers have to notice that the request was counted, if the response does not show it.
    #[inline]
    fn is_marked(&self) -> bool {
        self.is_metered && self.is_nested()
    }
}

impl Decisions {
    fn single(decision: &Decision) -> Self {
        Self { all: smallvec![decision.clone()], decisive_index: 0, granted: Vec::new() }
    }

    fn new(basis: &ChargeBasis) -> Self {
        let (decisions, decisive) = (basis.decisions(), basis.decision());
        let is_decisive = |decision: &Decision| ptr::eq(decision, decisive);
        Self {
            all: decisions.iter().cloned().collect(),
            decisive_index: decisions
                .iter()
                .position(is_decisive)
                .expect("the decisive decision is one of them"),
            granted: basis.grantable().iter().filter(|check| check.policy.is_granted()).cloned().collect(),
        }
    }
}
