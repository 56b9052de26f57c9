//! Holds the permits that a decision has taken for a request in flight, from its answer on.

use std::sync::Arc;

use http::Extensions;
use portcullis_core::store::Outcome;
use portcullis_core::{PolicyName, Receipt, StoreError};

use crate::config::LayerConfig;
use crate::in_flight::{HeldPermit, Permits};
use crate::policy::HeldUntil;

/// Holds the permits of a request that an answer has let pass. They are in its extensions until it goes to the inner service, so that
/// a request that ends before releases them.
#[inline]
pub(super) fn hold(
    config: &Arc<LayerConfig>,
    answer: &Result<Outcome, StoreError>,
    extensions: &mut Extensions,
) {
    if config.holds_permits
        && let Ok(charged) = answer
    {
        Permits::hold(taken(config, charged), extensions);
    }
}

/// Releases the permits of a request that has left before the answer.
pub(super) fn release(config: &Arc<LayerConfig>, charged: &Outcome) {
    if config.holds_permits {
        drop(taken(config, charged));
    }
}

/// Holds the permit that a shadow policy has taken.
pub(super) fn hold_one(config: &Arc<LayerConfig>, receipt: Receipt) -> HeldPermit {
    config.registry.in_flight().hold_one(&config.store, receipt, held_until(config))
}

fn taken(config: &Arc<LayerConfig>, charged: &Outcome) -> Vec<HeldPermit> {
    config.registry.in_flight().hold(&config.store, charged, held_until(config))
}

fn held_until(config: &LayerConfig) -> impl Fn(&PolicyName) -> HeldUntil {
    |policy| {
        let layer_policy = config.policies().iter().find(|layer_policy| layer_policy.policy.name() == policy);
        layer_policy.map(|layer_policy| layer_policy.held_until).unwrap_or_default()
    }
}
