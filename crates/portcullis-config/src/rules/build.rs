//! Layers of rules.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use http::request::Parts;
use portcullis_core::store::NoStore;
use portcullis_core::{Policy, Quota, Secret, Strategy};
use portcullis_tower::matching::RequestMatcher;
use portcullis_tower::{
    Global, LayerBuilder, LayerError, LayerOptionError, RateLimitHeaders, RateLimitLayer, Registry,
    ResponseOutcome,
};

use super::key::KeySource;
use super::rule::{ChargeAfter, QuotaSource, Rule};
use crate::hooks::RejectWith;

/// The options of `[layer]`.
#[derive(Clone, Default)]
pub(super) struct LayerOptions {
    pub(super) headers: Option<RateLimitHeaders>,
    pub(super) spread_retries: Option<Duration>,
    pub(super) limit_preflights: bool,
    pub(super) lookup_deadline: Option<Duration>,
    pub(super) ready_deadline: Option<Duration>,
    pub(super) discard_bodies: Option<u64>,
    pub(super) decision_in_response: bool,
    pub(super) without_charge: bool,
    pub(super) except: Vec<Arc<dyn RequestMatcher>>,
    pub(super) deny: Vec<Arc<dyn RequestMatcher>>,
    pub(super) only: Vec<Arc<dyn RequestMatcher>>,
    pub(super) reject_with: Option<Arc<RejectWith>>,
    pub(super) show_generation: Option<HeaderName>,
}

impl std::fmt::Debug for LayerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayerOptions").field("headers", &self.headers).finish_non_exhaustive()
    }
}

/// Why an option is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum BuildError {
    #[error(transparent)]
    Layer(#[from] LayerError),
    #[error(transparent)]
    Option(#[from] LayerOptionError),
}

/// An error with the field of the file that caused it.
pub(super) type AtField = (&'static str, BuildError);

impl Rule {
    /// Adds the policy to a layer, or begins one.
    pub(super) fn add_to(
        &self,
        layer: Option<RateLimitLayer>,
        registry: &Arc<Registry>,
    ) -> Result<RateLimitLayer, AtField> {
        let layer = self.begin(layer, registry)?;
        STEPS.iter().try_fold(layer, |layer, (step, _)| step(self, layer))
    }

    /// All that a layer with this rule alone refuses, each with the fields on which the refusal depends.
    pub(super) fn refusals(&self, registry: &Arc<Registry>) -> Vec<(AtField, &'static [&'static str])> {
        let mut layer = match self.begin(None, registry) {
            Ok(layer) => layer,
            Err(error) => return vec![(error, &[])],
        };
        let mut refusals = Vec::new();
        for (step, depends_on) in STEPS {
            match step(self, layer.clone()) {
                Ok(next) => layer = next,
                Err(error) => refusals.push((error, depends_on)),
            }
        }
        refusals
    }

    /// The policy with its key, and the options that are never refused.
    fn begin(
        &self,
        layer: Option<RateLimitLayer>,
        registry: &Arc<Registry>,
    ) -> Result<RateLimitLayer, AtField> {
        let policy = self.policy.clone();
        let layer = match (layer, &self.source) {
            (Some(layer), source) => {
                let layer = layer.try_and_policy(policy).map_err(at(""))?;
                match source {
                    KeySource::Sync(key) => layer.by(Arc::clone(key)),
                    KeySource::Async(look_up) => layer.by_async(Arc::clone(look_up)),
                }
            }
            (None, source) => {
                let builder = LayerBuilder::try_new(Arc::clone(registry), policy).map_err(at(""))?;
                match source {
                    KeySource::Sync(key) => builder.by(Arc::clone(key)),
                    KeySource::Async(look_up) => builder.by_async(Arc::clone(look_up)),
                }
            }
        };
        let mut layer = layer.on_missing(self.options.on_missing);
        if self.options.count_rejections {
            layer = layer.count_rejections();
        }
        if self.options.hide {
            layer = layer.hide();
        }
        Ok(layer)
    }

    fn add_cost(&self, layer: RateLimitLayer) -> Result<RateLimitLayer, AtField> {
        let cost = self.options.cost.clone();
        let Some(on_abort) = self.options.reserve else {
            return Ok(match cost {
                Some(cost) => layer.cost(move |parts: &Parts| cost(parts)),
                None => layer,
            });
        };
        let cost = cost.unwrap_or_else(|| Arc::new(|_: &Parts| 1));
        layer.try_reserve_or(move |parts: &Parts| cost(parts), on_abort).map_err(at("reserve"))
    }

    fn add_quota(&self, layer: RateLimitLayer) -> Result<RateLimitLayer, AtField> {
        match self.options.quota.clone() {
            None => Ok(layer),
            Some(QuotaSource::Sync(quota)) => {
                layer.try_quota(move |parts: &Parts| quota(parts)).map_err(at("tiers"))
            }
            Some(QuotaSource::Async(look_up)) => {
                layer.try_quota_by_async(look_up).map_err(at("quota_lookup"))
            }
        }
    }

    fn add_charge_when(&self, layer: RateLimitLayer) -> Result<RateLimitLayer, AtField> {
        let Some(charge_when) = self.options.charge_when.clone() else { return Ok(layer) };
        layer
            .try_charge_when(move |outcome: &ResponseOutcome<'_>| charge_when.charges(outcome))
            .map_err(at("charge_when"))
    }

    fn add_charge_after(&self, layer: RateLimitLayer) -> Result<RateLimitLayer, AtField> {
        let Some(charge_after) = self.options.charge_after else { return Ok(layer) };
        let layer = layer.try_charge_after().map_err(at("charge_after"))?;
        Ok(match charge_after {
            ChargeAfter::Default => layer,
            // It panics where the method before returns an error.
            ChargeAfter::AtMost(requests) => layer.charge_after_at_most(requests),
        })
    }

    fn add_refund(&self, layer: RateLimitLayer) -> Result<RateLimitLayer, AtField> {
        if !self.options.refund_unanswered {
            return Ok(layer);
        }
        // The one error that the method would panic with: charges are not left out before the end.
        if matches!(self.policy.strategy(), Strategy::InFlight(_)) {
            let error = LayerError::CorrectsInFlight { policy: self.name().clone() };
            return Err(at("refund_unanswered")(error));
        }
        Ok(layer.refund_unanswered())
    }

    fn add_until(&self, layer: RateLimitLayer) -> Result<RateLimitLayer, AtField> {
        if self.options.release_at_headers {
            layer.try_release_at_headers().map_err(at("until"))
        } else {
            Ok(layer)
        }
    }

    fn add_warning(&self, layer: RateLimitLayer) -> Result<RateLimitLayer, AtField> {
        match self.options.warn_at {
            Some(fraction) => layer.try_warn_at(fraction).map_err(|error| ("warn_at", error.into())),
            None => Ok(layer),
        }
    }

    fn add_mode(&self, layer: RateLimitLayer) -> Result<RateLimitLayer, AtField> {
        layer.try_mode(self.mode).map_err(at("mode"))
    }

    fn add_lock_out(&self, layer: RateLimitLayer) -> Result<RateLimitLayer, AtField> {
        match self.lock_out {
            Some(lock_out) => layer.try_lock_out(lock_out).map_err(at("lock_out")),
            None => Ok(layer),
        }
    }
}

/// One option or a few that belong together.
type Step = fn(&Rule, RateLimitLayer) -> Result<RateLimitLayer, AtField>;

/// What may be refused, in the order in which it is added, with the fields on which a refusal depends besides its own.
const STEPS: [(Step, &[&str]); 9] = [
    (Rule::add_cost, &["strategy"]),
    (Rule::add_quota, &["strategy", "caller_quotas"]),
    (Rule::add_charge_when, &["strategy"]),
    (Rule::add_charge_after, &["strategy"]),
    (Rule::add_refund, &["strategy"]),
    (Rule::add_until, &["strategy"]),
    (Rule::add_warning, &[]),
    (Rule::add_mode, &[]),
    (Rule::add_lock_out, &["strategy"]),
];

fn at(field: &'static str) -> impl FnOnce(LayerError) -> AtField {
    move |error| (field, error.into())
}

impl LayerOptions {
    /// The two options that may be refused, each alone.
    pub(super) fn each_refusable(&self) -> [Self; 2] {
        [
            Self { spread_retries: self.spread_retries, ..Self::default() },
            Self { without_charge: self.without_charge, ..Self::default() },
        ]
    }

    /// What concerns requests that are denied although no rule matches them.
    pub(super) fn deny_in(&self, layer: RateLimitLayer) -> RateLimitLayer {
        let mut layer = self.deny.iter().fold(layer, |layer, matcher| layer.deny(Arc::clone(matcher)));
        if let Some(bytes) = self.discard_bodies {
            layer = layer.discard_bodies(bytes);
        }
        if self.decision_in_response {
            layer = layer.decision_in_response();
        }
        match self.reject_with.clone() {
            Some(reject_with) => layer.reject_with(move |rejection| reject_with(rejection)),
            None => layer,
        }
    }

    pub(super) fn apply(&self, mut layer: RateLimitLayer) -> Result<RateLimitLayer, AtField> {
        if let Some(headers) = self.headers {
            layer = layer.headers(headers);
        }
        if let Some(spread) = self.spread_retries {
            layer = layer.try_spread_retries(spread).map_err(|error| ("spread_retries", error.into()))?;
        }
        if self.limit_preflights {
            layer = layer.limit_preflights();
        }
        if let Some(deadline) = self.lookup_deadline {
            layer = layer.lookup_deadline(deadline);
        }
        if let Some(deadline) = self.ready_deadline {
            layer = layer.ready_deadline(deadline);
        }
        layer = self.deny_in(layer);
        layer = self.only.iter().fold(layer, |layer, matcher| layer.only(Arc::clone(matcher)));
        layer = self.except.iter().fold(layer, |layer, matcher| layer.except(Arc::clone(matcher)));
        if self.without_charge {
            layer = layer.try_without_charge().map_err(|error| ("without_charge", error.into()))?;
        }
        Ok(layer)
    }
}

/// A layer to try out options.
pub(super) fn plain_layer() -> RateLimitLayer {
    let policy = Policy::gcra("unnamed", Quota::per_second(1));
    LayerBuilder::new(scratch_registry(), policy).by(Global)
}

/// A registry to try out whether builders accept what a file says.
pub(super) fn scratch_registry() -> Arc<Registry> {
    Arc::new(Registry::new(Arc::new(NoStore), Secret::published()))
}
