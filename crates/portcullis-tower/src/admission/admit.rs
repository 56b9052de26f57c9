//! Lets a request through: leaves its charge in it, and keeps what its response needs.

use std::sync::Arc;

use http::request::Parts;
use http::{Extensions, Method};
use portcullis_core::Decision;
use portcullis_core::store::Outcome;

use super::nesting;
use crate::charge::ChargeBasis;
use crate::charge::response_context::ResponseContext;
use crate::config::LayerConfig;
use crate::{Charge, RateLimitHeaders, Shadow};
use portcullis_engine::Admitted;
use portcullis_engine::FoundKeys;
use portcullis_engine::engine::permits::Permits;
use portcullis_response::internal::names_of_policies;

/// Lets a request through that was decided at once.
#[inline]
pub(super) fn at_once(
    config: &Arc<LayerConfig>,
    basis: impl FnOnce() -> ChargeBasis,
    keys: Option<&FoundKeys>,
    parts: &mut Parts,
) -> ResponseContext {
    let mut context = with_charge(config, basis, None, keys, &[], parts);
    if config.limits.corrects() {
        context.correct_by_outcome(config, Vec::new(), Vec::new());
    }
    context.call(config, parts);
    context
}

/// Lets a request through that no policy counts.
pub(super) fn uncounted(config: &LayerConfig, keys: Option<&FoundKeys>) -> ResponseContext {
    config.emit_admitted(&[], &[], keys);
    ResponseContext::default()
}

/// Lets a request through that had to wait, or that owes more than its charge.
pub(crate) fn later(config: &Arc<LayerConfig>, admitted: Admitted, parts: &mut Parts) -> ResponseContext {
    let Admitted { charged, is_answered, shadows, shadow_receipts, later, held, keys, .. } = admitted;
    let keys = keys.as_deref();
    let permits = (!held.is_empty()).then(|| Permits::new(held, parts.method == Method::CONNECT));
    let mut context = match charged.map(|charged| basis_of(charged, is_answered)) {
        None => {
            config.emit_admitted(&[], &shadows, keys);
            ResponseContext::default()
        }
        Some(basis) => with_charge(config, || basis, permits.as_ref(), keys, &shadows, parts),
    };
    if !shadows.is_empty() {
        context.show_shadows(attach_shadows(config, shadows, &mut parts.extensions, keys));
    }
    if let Some(permits) = permits {
        context.owe(config).release(permits);
    }
    if config.limits.corrects() {
        context.correct_by_outcome(config, later, shadow_receipts);
    }
    context.call(config, parts);
    context
}

/// What a request is charged by. If the store could not answer, nothing is counted, and messages pass as well.
fn basis_of(charged: Outcome, is_answered: bool) -> ChargeBasis {
    if is_answered {
        ChargeBasis::Decided(charged)
    } else {
        ChargeBasis::Degraded(charged.decisions().to_vec())
    }
}

/// Keeps the charge for what reads it. `basis` makes it in its place, because it is large.
#[inline]
fn with_charge(
    config: &Arc<LayerConfig>,
    basis: impl FnOnce() -> ChargeBasis,
    permits: Option<&Permits>,
    keys: Option<&FoundKeys>,
    shadows: &[Decision],
    parts: &mut Parts,
) -> ResponseContext {
    let extensions = &mut parts.extensions;
    if !makes_charge(config, extensions) {
        counted(config, basis().decisions(), keys, shadows, extensions);
        return ResponseContext::default();
    }
    let is_left = config.leaves_charge();
    let outer = if is_left { extensions.remove() } else { extensions.get().cloned() };
    let charge = Charge::new(config, basis, outer, permits.cloned());
    nesting::warn_if_charged_twice(config, charge.at_admission(), charge.outer(), extensions, keys);
    config.emit_admitted(charge.at_admission(), shadows, keys);
    if !is_left {
        nesting::mark(config, charge.at_admission(), extensions);
        return ResponseContext::of_charge(Some(charge));
    }
    let is_shown = config.responses.show_decisions() || charge.outer().is_some();
    let is_kept = is_shown || config.reserves || config.limits.corrects();
    let context = ResponseContext::of_charge(is_kept.then(|| charge.clone()));
    extensions.insert(charge);
    context
}

/// Whether anything reads the charge of a request: its handler, its response or that of an outer layer.
#[inline]
pub(super) fn makes_charge(config: &LayerConfig, extensions: &Extensions) -> bool {
    config.leaves_charge() || config.responses.show_decisions() || nesting::is_nested(extensions)
}

/// Lets a request through of which nothing is kept.
#[inline]
pub(super) fn counted(
    config: &LayerConfig,
    decisions: &[Decision],
    keys: Option<&FoundKeys>,
    shadows: &[Decision],
    extensions: &mut Extensions,
) {
    nesting::warn_if_charged_twice(config, decisions, None, extensions, keys);
    config.emit_admitted(decisions, shadows, keys);
    nesting::mark(config, decisions, extensions);
}

/// Leaves the decisions of policies that are tried out in the request. Returns the header that names those that would have rejected
/// it.
fn attach_shadows(
    config: &Arc<LayerConfig>,
    decisions: Vec<Decision>,
    extensions: &mut Extensions,
    keys: Option<&FoundKeys>,
) -> Option<http::HeaderValue> {
    nesting::warn_if_charged_twice(config, &decisions, extensions.get(), extensions, keys);
    let denied = decisions.iter().filter(|decision| !decision.is_allowed()).map(Decision::policy);
    let is_sent = config.responses.headers().contains(RateLimitHeaders::SHADOW);
    let mut denied = denied.peekable();
    let names = (is_sent && denied.peek().is_some()).then(|| names_of_policies(denied));
    extensions.get_or_insert_default::<Shadow>().add(&config.limits, decisions);
    names
}
