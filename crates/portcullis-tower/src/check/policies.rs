//! Prepares the policies of a check, and refuses those that the limiter cannot have.

use std::sync::Arc;

use http::HeaderMap;
use portcullis_core::Policy;
use portcullis_core::store::Checks;

use super::Limited;
use super::limited::Refusal;
use crate::config::LayerConfig;
use crate::policy::{KeySource, LayerPolicy};
use crate::registry::policy_sets::PreparedSet;
use crate::{Global, KeyError, LayerError, Reason, Registry};
use portcullis_engine::{Event, EventKind, Observer as _};

/// The configuration of checks under `policies`, of which there is at least one.
///
/// # Errors
///
/// If a layer could not have these policies.
pub(super) fn config<'a>(
    registry: &Arc<Registry>,
    policies: impl Iterator<Item = &'a Policy> + Clone,
) -> Result<Arc<LayerConfig>, LayerError> {
    let (generation, set) = match registry.policy_sets().get(policies.clone()) {
        Some(kept) if kept.0 == registry.engine().policies().generation() => kept,
        Some((_, set)) => update(registry, policies, set),
        None => update(registry, policies.clone(), prepare(registry, policies)?),
    };
    Ok(Arc::new(LayerConfig::prepared(registry, set).agreeing_with(generation)))
}

/// Registers the policies.
fn prepare<'a>(
    registry: &Arc<Registry>,
    mut policies: impl Iterator<Item = &'a Policy> + Clone,
) -> Result<PreparedSet, LayerError> {
    let first = policies.next().expect("a check has a policy");
    let member = layer_policy(first).member();
    let membership = registry.engine().join(Box::new([member]), Some(first))?;
    let mut config = LayerConfig::new(registry, layer_policy(first), membership);
    for policy in policies {
        if config.policies().iter().any(|other| other.policy.name() == policy.name()) {
            return Err(LayerError::Duplicate { policy: policy.name().clone() });
        }
        if config.policies().len() >= Checks::MAX {
            return Err(LayerError::TooMany);
        }
        config.push(layer_policy(policy))?;
    }
    Ok(config.prepare())
}

/// The set with its policies as they are registered now, kept for the next checks, and the generation of these. A policy that is off
/// stays in its place.
fn update<'a>(
    registry: &Arc<Registry>,
    declared: impl Iterator<Item = &'a Policy> + Clone,
    set: PreparedSet,
) -> (u64, PreparedSet) {
    let (generation, registered) =
        registry.engine().policies().registered(declared.clone().map(Policy::name));
    let policies = declared.clone().zip(registered).map(|(declared, registered)| {
        let layer_policy = layer_policy(declared);
        layer_policy.as_registered(registered).unwrap_or_else(|| layer_policy.switched_off())
    });
    let set = LayerConfig::prepared(registry, set).with_policies(policies.collect()).prepare();
    registry.policy_sets().insert(declared.cloned().collect(), generation, set.clone());
    (generation, set)
}

/// The keys of a check are given, so the extractor is not called.
fn layer_policy(policy: &Policy) -> LayerPolicy {
    LayerPolicy::new(policy.clone(), KeySource::Sync(Arc::new(Global)))
}

/// The rejection of a check whose policies are refused. Emits it.
pub(super) fn refuse<'a>(
    registry: &Registry,
    policies: impl Iterator<Item = &'a Policy>,
    error: &LayerError,
    accept: HeaderMap,
) -> Limited {
    let error = KeyError::server(format!("a handler checks policies that its limiter refuses: {error}"));
    let policies: Vec<_> = policies.map(|policy| layer_policy(policy).to_limit()).collect();
    let rejected = EventKind::Rejected { reason: Reason::Misconfigured, decisions: &[] };
    for kind in [EventKind::Misconfigured { error: &error }, rejected] {
        let event = Event::new(&policies, kind);
        registry.policy_sets().log().on_event(&event);
        registry.engine().observers().emit(&event);
    }
    let responses = Arc::new(registry.default_responses());
    Limited::new(responses, Refusal::NoKey(error), accept)
}
