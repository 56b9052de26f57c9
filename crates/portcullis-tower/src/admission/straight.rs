//! Decides about a request in one go, where one answer of the store is all that decides: most layers, and most requests.

use std::slice;
use std::sync::Arc;

use http::request::Parts;
use http::{Extensions, Method};
use portcullis_core::StoreError;
use portcullis_core::store::ReadyCheck;

use super::plan::OnStoreFailure;
use super::{Started, admit, first_check, nesting, plan};
use crate::charge::SingleCheck;
use crate::config::LayerConfig;
use crate::enclosing;
use crate::policy::{KeySource, LayerPolicy, ResolvedKey};
use crate::response_context::{Counted, ResponseContext, Uncharged};
use crate::{Charge, KeyError};

/// The policy under which [`start`] may decide about a request. `None` if something else than one check decides, or if the request
/// may be a preflight. Keys for events are collected by a plan.
#[inline]
pub(crate) fn policy<'a>(config: &'a LayerConfig, parts: &Parts) -> Option<&'a LayerPolicy> {
    let applies = config.is_straight() && !config.store.wants_keys() && parts.method != Method::OPTIONS;
    if applies { config.policies().first() } else { None }
}

/// Decides about a request by one check under this policy. What differs from most requests goes on in the general way, without a
/// second call of the extractor or of the store.
pub(crate) fn start(config: &Arc<LayerConfig>, layer_policy: &LayerPolicy, parts: &mut Parts) -> Started {
    let resolved = match &layer_policy.key {
        KeySource::Sync(extractor) => ResolvedKey::find(&**extractor, config.registry.secret(), parts),
        KeySource::Async(_) => unreachable!("{}", LayerConfig::STRAIGHT),
    };
    let key = match resolved {
        Ok(ResolvedKey::Known(key)) => key,
        without_key => return start_without_key(config, &without_key, parts),
    };
    let check = SingleCheck { index: 0, key, cost: layer_policy.cost_of(parts) };
    let mut answer = config.store.check_now(&layer_policy.policy, key, check.cost);
    match answer {
        // A reference, so that the answer is moved once, to the charge.
        Some(Ok(ref ready)) if admit::passes_without_delay(&ready.decision) => {
            config.store.emit_ready();
            first_check::emit_charge(config, check, ready);
            let counted = if config.without_charge {
                Counted::Uncharged(uncharged(config, ready, &parts.extensions))
            } else {
                let (outer, is_shown) = emit_admitted(config, ready, &mut parts.extensions);
                let is_metered = ready.decision.is_metered();
                let charge = Charge::single(config, check, || expect_ready(answer.take()), outer);
                let shown =
                    if is_shown { Counted::Charged(charge.clone()) } else { Counted::Unshown { is_metered } };
                parts.extensions.insert(charge);
                shown
            };
            Started::Admitted(ResponseContext::new(Some(counted), None))
        }
        Some(Ok(denied)) if !denied.decision.is_allowed() => {
            let on_failure = OnStoreFailure::of_single(config, check);
            Started::Rejected(first_check::reject_at_once(config, check, denied, on_failure, parts))
        }
        Some(answer) => {
            let plan = plan::of_check(config, check);
            first_check::answered_at_once(config, &plan, check, answer, parts).started(config, parts)
        }
        None => {
            let plan = plan::of_check(config, check);
            first_check::ask(config, plan, true, parts).started(config, parts)
        }
    }
}

#[cold]
fn start_without_key(
    config: &Arc<LayerConfig>,
    resolved: &Result<ResolvedKey, KeyError>,
    parts: &mut Parts,
) -> Started {
    let plan = plan::of_one_key(config, resolved, parts);
    first_check::start(config, plan, parts).started(config, parts)
}

/// Emits the admission of a request that gets no charge. Returns what its response has to know.
#[inline]
fn uncharged(config: &Arc<LayerConfig>, ready: &ReadyCheck, extensions: &Extensions) -> Uncharged {
    let uncharged = nesting::decide_single(config, &ready.decision, extensions);
    config.emit_admitted(slice::from_ref(&ready.decision), extensions);
    uncharged
}

/// Emits the admission of a request that gets a charge. Returns the charge of the next outer layer, and whether the response shows
/// anything of this one.
#[inline]
fn emit_admitted(
    config: &LayerConfig,
    ready: &ReadyCheck,
    extensions: &mut Extensions,
) -> (Option<Charge>, bool) {
    let decisions = slice::from_ref(&ready.decision);
    let outer = nesting::take_outer(config, decisions, extensions);
    config.emit_admitted(decisions, extensions);
    let is_shown = config.responses.show_decisions() || outer.is_some() || enclosing::is_enclosed();
    (outer, is_shown)
}

fn expect_ready(answer: Option<Result<ReadyCheck, StoreError>>) -> ReadyCheck {
    match answer {
        Some(Ok(ready)) => ready,
        Some(Err(_)) | None => unreachable!("the store has admitted the request"),
    }
}
