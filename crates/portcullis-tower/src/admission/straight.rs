//! Decides about a request in one go, where one answer of the store is all that decides: most layers, and most requests.

use std::slice;
use std::sync::Arc;

use http::Method;
use http::request::Parts;
use portcullis_core::store::Check;

use super::plan::Plan;
use super::{Started, admit, first_check, plan};
use crate::charge::ChargeBasis;
use crate::config::LayerConfig;
use crate::policy::{KeySource, LayerPolicy, ResolvedKey};
use crate::response_context::{Counted, ResponseContext};

/// The policy under which [`start`] may decide about a request. `None` if something else than one check decides, or if the request
/// may be a preflight. Keys for events are collected by a plan.
#[inline]
pub(super) fn policy<'a>(config: &'a LayerConfig, parts: &Parts) -> Option<&'a LayerPolicy> {
    let applies = config.is_straight() && !config.store.wants_keys() && parts.method != Method::OPTIONS;
    if applies { config.policies().first() } else { None }
}

/// Decides about a request by one check under this policy. What differs from most requests goes on in the general way, without a
/// second call of the extractor or of the store.
pub(super) fn start(config: &Arc<LayerConfig>, layer_policy: &LayerPolicy, parts: &mut Parts) -> Started {
    let resolved = match &layer_policy.key {
        KeySource::Sync(extractor) => ResolvedKey::find(&**extractor, config.registry.secret(), parts),
        KeySource::Async(_) => unreachable!("{}", LayerConfig::STRAIGHT),
    };
    let Ok(ResolvedKey::Known(key)) = resolved else {
        let plan = plan::of_one_key(config, &resolved, parts);
        return first_check::start(config, plan, parts).started(config, parts);
    };
    let cost = layer_policy.cost_of(parts);
    let policy = &layer_policy.policy;
    let answer = match config.store.check_now(policy, key, cost) {
        Some(Ok(ready)) if admit::passes_without_delay(&ready.decision) => {
            layer_policy.usage.mark();
            config.store.emit_ready();
            let check = Check { policy: policy.clone(), key, cost };
            config.store.emit_charges(slice::from_ref(&check), slice::from_ref(&ready.decision));
            let counted = admit::count(config, ChargeBasis::Single(check, ready), &mut parts.extensions);
            if let Counted::Charged(charge) = &counted {
                config.emit_admitted(charge.at_admission(), &parts.extensions);
            }
            return Started::Admitted(ResponseContext::new(Some(counted), None));
        }
        answer => answer,
    };
    let mut plan = Plan::default();
    plan.add(0, layer_policy, key, cost);
    let step = match answer {
        Some(answer) => first_check::answered_at_once(config, &plan, (policy, key, cost), answer, parts),
        None => first_check::ask(config, plan, true, parts),
    };
    step.started(config, parts)
}
