//! Finds the outer layers of a request, and policies that nested layers charge twice.

use std::iter;
use std::sync::Arc;

use http::Extensions;
use portcullis_core::{Decision, PolicyName};

use crate::config::LayerConfig;
use crate::{Charge, Shadow};
use portcullis_engine::Limits;
use portcullis_engine::charge::Mark;
use portcullis_engine::{EventKeys, EventKind, FoundKeys};

/// Whether an outer layer has left its charge in the request.
pub(super) fn is_nested(extensions: &Extensions) -> bool {
    extensions.get::<Charge>().is_some()
}

/// Marks one of the first requests of a layer as counted by it.
#[inline]
pub(super) fn mark(config: &LayerConfig, decisions: &[Decision], extensions: &mut Extensions) {
    if config.marks.take() {
        leave_mark(&config.limits, decisions, extensions);
    }
}

#[cold]
fn leave_mark(limits: &Arc<Limits>, decisions: &[Decision], extensions: &mut Extensions) {
    let outer = extensions.remove();
    extensions.insert(Mark::new(limits, decisions, outer));
}

/// Warns if an outer layer has charged, or tried out, a policy for the same request.
#[inline]
pub(super) fn warn_if_charged_twice(
    config: &LayerConfig,
    decisions: &[Decision],
    outer: Option<&Charge>,
    extensions: &Extensions,
    keys: Option<&FoundKeys>,
) {
    let (shadows, marks) = (extensions.get::<Shadow>(), extensions.get::<Mark>());
    if outer.is_some() || shadows.is_some() || marks.is_some() {
        warn_if_included(config, decisions, outer, shadows, marks, keys);
    }
}

#[cold]
fn warn_if_included(
    config: &LayerConfig,
    decisions: &[Decision],
    outer: Option<&Charge>,
    shadows: Option<&Shadow>,
    marks: Option<&Mark>,
    keys: Option<&FoundKeys>,
) {
    let limits = &config.limits;
    let is_charged = |policy: &PolicyName| {
        iter::successors(outer, |charge| charge.outer()).any(|outer| outer.includes(limits, policy))
            || shadows.is_some_and(|shadows| shadows.includes(limits, policy))
            || marks.is_some_and(|marks| marks.includes(limits, policy))
    };
    if let Some(policy) = decisions.iter().map(Decision::policy).find(|policy| is_charged(policy)) {
        limits.emit(EventKind::ChargedTwice { policy }, || EventKeys::found(keys));
    }
}
