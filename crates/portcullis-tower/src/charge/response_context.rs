//! What the response to an admitted request is made of; [`response`](crate::response) renders it.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Response};
use portcullis_core::Receipt;

use crate::Charge;
use crate::charge::owed::{self, Owed};
use crate::config::LayerConfig;
use crate::headers::X_RATELIMIT_SHADOW;
use portcullis_engine::LaterCharge;
use portcullis_response::internal::Individual;

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
    /// The names of the shadow policies that would have rejected the request.
    shadow: Option<HeaderValue>,
    /// Present if something is left to be done when the response is known, or has ended.
    owed: Option<Box<Owed>>,
}

impl ResponseContext {
    #[inline]
    pub(crate) fn of_charge(charge: Option<Charge>) -> Self {
        Self { charge, extra: None }
    }

    fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    pub(crate) fn show_shadows(&mut self, names: Option<HeaderValue>) {
        if names.is_some() {
            self.extra().shadow = names;
        }
    }

    /// What the request owes, which is taken with the response.
    pub(crate) fn owe(&mut self, config: &Arc<LayerConfig>) -> &mut Owed {
        self.extra.get_or_insert_default().owed.get_or_insert_with(|| Owed::new(config))
    }

    /// Corrects what the request was charged by its outcome, if a policy that counts it is charged so.
    #[cold]
    pub(crate) fn correct_by_outcome(
        &mut self,
        config: &Arc<LayerConfig>,
        later: Vec<LaterCharge>,
        shadows: Vec<(usize, Receipt)>,
    ) {
        let obligations = owed::of_outcome(config, self.charge.as_ref(), later, shadows);
        if !obligations.is_empty() {
            let charge = self.charge.clone();
            self.owe(config).add(obligations, charge);
        }
    }

    /// Records that the inner service is called next. Leaves the counter of the usage in the request, if a policy reserves units
    /// for it.
    #[inline]
    pub(crate) fn call(&mut self, config: &Arc<LayerConfig>, parts: &mut Parts) {
        let leave = |charge: &Charge| Some((charge.leave_usage(&mut parts.extensions)?, charge.clone()));
        let usage = self.charge.as_ref().and_then(leave);
        if usage.is_some() || self.extra.as_ref().is_some_and(|extra| extra.owed.is_some()) {
            self.owe(config).call(usage, parts);
        }
    }

    /// Whether the response stays as it is, and nothing is held until its end.
    #[inline]
    pub(crate) fn adds_nothing(&self) -> bool {
        self.charge.is_none() && self.extra.is_none()
    }

    /// Takes what the request owes.
    #[inline]
    pub(crate) fn take_owed(&mut self) -> Option<Box<Owed>> {
        self.extra.as_mut()?.owed.take()
    }

    /// Writes the headers.
    pub(crate) fn write<B>(self, response: &mut Response<B>) {
        if let Some(charge) = self.charge {
            charge.conclude(|config, outer, decision, all, checks| {
                let is_nested = outer.is_some();
                // Otherwise there is nothing to write.
                if is_nested || config.responses.show_decisions() {
                    let individual = Individual::Among(checks);
                    config.responses.write_admitted(decision, all, individual, is_nested, response);
                }
            });
        }
        if let Some(names) = self.extra.and_then(|extra| extra.shadow) {
            response.headers_mut().append(&X_RATELIMIT_SHADOW, names);
        }
    }
}
