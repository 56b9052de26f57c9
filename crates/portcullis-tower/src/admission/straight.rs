//! Decides about a request in one go, where one answer of the store is all that decides: most layers, and most requests.

use std::slice;
use std::sync::Arc;

use http::Method;
use http::request::Parts;

use super::plan::Plan;
use super::{Started, admit, first_check, nesting, plan};
use crate::charge::SingleCheck;
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
    let check = SingleCheck { index: 0, key, cost: layer_policy.cost_of(parts) };
    let answer = match config.store.check_now(&layer_policy.policy, key, check.cost) {
        Some(Ok(ready)) if admit::passes_without_delay(&ready.decision) => {
            layer_policy.usage.mark();
            config.store.emit_ready();
            first_check::emit_charge(config, check, &ready);
            config.emit_admitted(slice::from_ref(&ready.decision), &parts.extensions);
            let extensions = &mut parts.extensions;
            let counted = if config.without_charge {
                Counted::Uncharged(nesting::decide_single(config, &ready.decision, extensions))
            } else {
                Counted::Charged(nesting::attach_single(config, check, ready, extensions))
            };
            return Started::Admitted(ResponseContext::new(Some(counted), None));
        }
        answer => answer,
    };
    let mut plan = Plan::default();
    plan.add(0, layer_policy, key, check.cost);
    let step = match answer {
        Some(answer) => first_check::answered_at_once(config, &plan, check, answer, parts),
        None => first_check::ask(config, plan, true, parts),
    };
    step.started(config, parts)
}
