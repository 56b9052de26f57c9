//! Attaches charges to requests, and detects policies that nested layers charge twice.

use std::sync::Arc;
use std::{iter, slice};

use http::Extensions;
use portcullis_core::{Decision, PolicyName};

use crate::Charge;
use crate::charge::ChargeBasis;
use crate::config::LayerConfig;
use crate::enclosing;
use crate::event::EventKind;
use crate::in_flight::Permits;
use crate::layer_store::LayerStore;
use crate::response_context::Uncharged;

/// The shadow policies that the layers so far have checked for a request. Enforced policies are in its [`Charge`], so a layer
/// without shadow policies inserts nothing for this.
#[derive(Clone, Default)]
struct CheckedShadows(Vec<(Arc<LayerStore>, PolicyName)>);

/// Inserts the charge into a request that passes, and warns if an outer layer has charged the same policy.
#[inline]
pub(super) fn attach_charge(
    config: &Arc<LayerConfig>,
    basis: ChargeBasis,
    extensions: &mut Extensions,
) -> Charge {
    let outer = take_outer(config, basis.decisions(), extensions);
    attach(config, || basis, outer, extensions)
}

/// Inserts the charge into a request that passes, in which the charge of the next outer layer was.
#[inline]
pub(super) fn attach(
    config: &Arc<LayerConfig>,
    basis: impl FnOnce() -> ChargeBasis,
    outer: Option<Charge>,
    extensions: &mut Extensions,
) -> Charge {
    let permits = if config.holds_permits { extensions.get::<Permits>() } else { None };
    let charge = match permits.map(Permits::share) {
        None => Charge::new(config, basis, outer),
        Some(permits) => Charge::holding(config, basis(), outer, permits),
    };
    extensions.insert(charge.clone());
    charge
}

/// Takes the charge of the next outer layer from a request that passes, and warns if an outer layer has charged the same policy.
#[inline]
pub(super) fn take_outer(
    config: &LayerConfig,
    decisions: &[Decision],
    extensions: &mut Extensions,
) -> Option<Charge> {
    let outer = extensions.remove::<Charge>();
    warn_if_charged_twice(config, decisions, outer.as_ref(), extensions);
    outer
}

/// Whether an outer layer has counted a request that this layer rejects.
pub(crate) fn is_nested(extensions: &Extensions) -> bool {
    // A layer attaches its charge when it admits a request, so this is the charge of an outer layer. It is the layer's own if the
    // inner service was not ready after the admission; then no layer may read the mark of the response, which does no harm.
    extensions.get::<Charge>().is_some() || enclosing::is_enclosed()
}

/// The decisions about a request that passes and gets no charge. Warns if an outer layer has charged the same policy.
pub(super) fn decide_without_charge(
    config: &Arc<LayerConfig>,
    basis: &ChargeBasis,
    extensions: &Extensions,
) -> Uncharged {
    let outer = extensions.get::<Charge>();
    warn_if_charged_twice(config, basis.decisions(), outer, extensions);
    Uncharged::new(config, basis, outer.is_some())
}

/// The same for a single check whose answer was ready, under the only policy of a layer.
#[inline]
pub(super) fn decide_single(
    config: &Arc<LayerConfig>,
    decision: &Decision,
    extensions: &Extensions,
) -> Uncharged {
    let outer = extensions.get::<Charge>();
    warn_if_charged_twice(config, slice::from_ref(decision), outer, extensions);
    Uncharged::single(config, decision, outer.is_some())
}

/// Records that shadow policies were checked for a request, and warns if an outer layer has charged the same policy.
pub(super) fn attach_shadows(config: &LayerConfig, decisions: &[Decision], extensions: &mut Extensions) {
    warn_if_charged_twice(config, decisions, extensions.get::<Charge>(), extensions);
    let mut checked = extensions.remove::<CheckedShadows>().unwrap_or_default();
    let policies = decisions.iter().map(|decision| decision.policy().clone());
    checked.0.extend(policies.map(|policy| (Arc::clone(&config.store), policy)));
    extensions.insert(checked);
}

/// `outer` is the charge of the next outer layer, if it has attached one.
#[inline]
fn warn_if_charged_twice(
    config: &LayerConfig,
    decisions: &[Decision],
    outer: Option<&Charge>,
    extensions: &Extensions,
) {
    if outer.is_some() || extensions.get::<CheckedShadows>().is_some() || enclosing::is_enclosed() {
        warn_if_included(config, decisions, outer, extensions);
    }
}

#[cold]
fn warn_if_included(
    config: &LayerConfig,
    decisions: &[Decision],
    outer: Option<&Charge>,
    extensions: &Extensions,
) {
    let shadows = extensions.get::<CheckedShadows>();
    let by_charge = |policy: &PolicyName| {
        iter::successors(outer, |charge| charge.outer()).any(|outer| outer.includes(&config.store, policy))
    };
    let by_shadow = |policy: &PolicyName| {
        shadows.is_some_and(|shadows| {
            shadows.0.iter().any(|(store, name)| store.shares_backend(&config.store) && name == policy)
        })
    };
    let without_charge = |policy: &PolicyName| enclosing::includes(&config.store, policy);
    let is_charged = |policy: &PolicyName| by_charge(policy) || by_shadow(policy) || without_charge(policy);
    let mut policies = decisions.iter().map(Decision::policy);
    if let Some(policy) = policies.find(|policy| is_charged(policy)) {
        config.store.emit_for(extensions, EventKind::ChargedTwice { policy });
    }
}
