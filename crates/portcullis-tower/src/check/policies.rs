//! Prepares the policies of a check, and refuses those that the limiter cannot have.

use std::sync::Arc;

use http::HeaderMap;
use portcullis_core::Policy;

use super::Limited;
use super::limited::Refusal;
use crate::config::LayerConfig;
use crate::registry::policy_sets::PreparedSet;
use crate::{Global, KeyError, LayerError, Limit, PolicyExt as _, Reason, Registry};
use portcullis_core::Mistakes;
use portcullis_engine::{Event, EventKind};

/// The configuration of checks under `policies`, of which there is at least one.
///
/// # Errors
///
/// If a layer could not have these policies.
pub(super) fn config<'a>(
    registry: &Arc<Registry>,
    policies: impl Iterator<Item = &'a Policy> + Clone,
) -> Result<Arc<LayerConfig>, Mistakes<LayerError>> {
    let (generation, set) = match registry.policy_sets().get(policies.clone()) {
        Some(kept) if kept.0 == registry.engine().policies().generation() => kept,
        Some((_, set)) => update(registry, policies, set),
        None => update(registry, policies.clone(), prepare(registry, policies)?),
    };
    Ok(Arc::new(LayerConfig::prepared(Arc::clone(registry), set).agreeing_with(generation)))
}

/// Registers the policies.
fn prepare<'a>(
    registry: &Arc<Registry>,
    policies: impl Iterator<Item = &'a Policy> + Clone,
) -> Result<PreparedSet, Mistakes<LayerError>> {
    let mut config = LayerConfig::new(Arc::clone(registry));
    config.add(policies.map(by_given_key))?;
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
        let limit = by_given_key(declared);
        limit.as_registered(registered).unwrap_or_else(|| limit.switched_off())
    });
    let set = LayerConfig::prepared(Arc::clone(registry), set).with_policies(policies.collect()).prepare();
    registry.policy_sets().insert(declared.cloned().collect(), generation, set.clone());
    (generation, set)
}

/// The keys of a check are given, so the extractor is not called.
fn by_given_key(policy: &Policy) -> Limit {
    policy.clone().by(Global)
}

/// The rejection of a check whose policies are refused. Emits it.
pub(super) fn refuse<'a>(
    registry: &Registry,
    policies: impl Iterator<Item = &'a Policy>,
    error: &Mistakes<LayerError>,
    accept: HeaderMap,
) -> Limited {
    let error = KeyError::server(format!("a handler checks policies that its limiter refuses: {error}"));
    let policies: Vec<_> = policies.map(|policy| by_given_key(policy).to_limit()).collect();
    let rejected = EventKind::Rejected { reason: Reason::Misconfigured, decisions: &[] };
    for kind in [EventKind::Misconfigured { error: &error }, rejected] {
        let event = Event::new(&policies, kind);
        registry.engine().emit(registry.policy_sets().log(), &event);
    }
    let responses = Arc::new(registry.default_responses());
    Limited::new(responses, Refusal::NoKey(error), accept)
}
