//! Prepares the policies of a check, and refuses those that the limiter cannot have.

use std::sync::Arc;

use http::HeaderMap;
use portcullis_core::store::Checks;
use portcullis_core::{Policy, TooMuchWork};

use super::Limited;
use crate::config::LayerConfig;
use crate::event::{Event, EventKind, Observer as _};
use crate::policy::{KeySource, LayerPolicy};
use crate::policy_sets::PreparedSet;
use crate::response::OwnedCause;
use crate::{Global, KeyError, LayerError, Reason, Registry};

/// The configuration of checks under `policies`, of which there is at least one.
///
/// # Errors
///
/// If a layer could not have these policies.
pub(super) fn config<'a>(
    registry: &Arc<Registry>,
    policies: impl Iterator<Item = &'a Policy> + Clone,
) -> Result<Arc<LayerConfig>, LayerError> {
    let set = match registry.policy_sets().get(policies.clone()) {
        Some(set) => set,
        None => prepare(registry, policies)?,
    };
    Ok(Arc::new(LayerConfig::prepared(registry, set)))
}

fn prepare<'a>(
    registry: &Arc<Registry>,
    policies: impl Iterator<Item = &'a Policy> + Clone,
) -> Result<PreparedSet, LayerError> {
    let mut config = None::<LayerConfig>;
    for policy in policies.clone() {
        let added = config.as_ref().map_or(0, |config| config.policies().len());
        if policies.clone().take(added).any(|other| other.name() == policy.name()) {
            return Err(LayerError::Duplicate { policy: policy.name().clone() });
        }
        if added >= Checks::MAX {
            return Err(LayerError::TooMany);
        }
        TooMuchWork::check(policies.clone().take(added + 1))?;
        registry.register(policy)?;
        let layer_policy = layer_policy(policy);
        config = Some(match config {
            None => LayerConfig::new(Arc::clone(registry), layer_policy),
            Some(mut config) => {
                config.push(layer_policy);
                config
            }
        });
    }
    let LayerConfig { store, responses, .. } = config.expect("a check has a policy");
    let set = PreparedSet { store, responses };
    registry.policy_sets().insert(set.clone());
    Ok(set)
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
    let policies: Vec<_> = policies.map(layer_policy).collect();
    let rejected = EventKind::Rejected { reason: Reason::Misconfigured, decisions: &[] };
    for kind in [EventKind::Misconfigured { error: &error }, rejected] {
        let event = Event::new(&policies, kind);
        registry.policy_sets().log().on_event(&event);
        registry.backend().observers().emit(&event);
    }
    let responses = Arc::new(registry.default_responses());
    Limited::new(responses, Arc::new(OwnedCause::NoKey(error)), accept)
}
