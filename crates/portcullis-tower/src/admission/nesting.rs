//! Finds the outer layers of a request, and policies that nested layers charge twice.

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use http::Extensions;
use portcullis_core::{Decision, PolicyName};
use smallvec::SmallVec;

use crate::config::LayerConfig;
use crate::{Charge, Shadow};
use portcullis_engine::Limits;
use portcullis_engine::{EventKeys, EventKind, FoundKeys};

/// What the first requests of a layer that leaves no charge carry, so that a layer inside of it finds a policy that both have. Layers are
/// nested in the same way for all requests of a route, so the first ones show it, and the others pay nothing.
#[derive(Clone)]
pub(crate) struct Mark(Arc<Marked>);

struct Marked {
    limits: Arc<Limits>,
    policies: SmallVec<[PolicyName; 2]>,
    outer: Option<Mark>,
}

/// The requests of a layer that are still to be marked.
pub(crate) struct Marks(AtomicU8);

impl Default for Marks {
    fn default() -> Self {
        Self(AtomicU8::new(MARKED))
    }
}

/// Some more than one, since a client may send the first one to a route without nested layers.
const MARKED: u8 = 16;

/// Whether an outer layer has left its charge in the request.
pub(crate) fn is_nested(extensions: &Extensions) -> bool {
    extensions.get::<Charge>().is_some()
}

/// Marks one of the first requests of a layer as counted by it.
#[inline]
pub(super) fn mark(config: &LayerConfig, decisions: &[Decision], extensions: &mut Extensions) {
    let left = config.marks.0.load(Relaxed);
    if left != 0 {
        // Two requests at the same time may both be marked.
        config.marks.0.store(left - 1, Relaxed);
        leave_mark(&config.limits, decisions, extensions);
    }
}

#[cold]
fn leave_mark(limits: &Arc<Limits>, decisions: &[Decision], extensions: &mut Extensions) {
    let policies = decisions.iter().map(|decision| decision.policy().clone()).collect();
    let outer = extensions.remove();
    extensions.insert(Mark(Arc::new(Marked { limits: Arc::clone(limits), policies, outer })));
}

impl Mark {
    fn includes(&self, limits: &Limits, policy: &PolicyName) -> bool {
        self.0.limits.shares_engine(limits) && self.0.policies.contains(policy)
    }
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
            || iter::successors(marks, |mark| mark.0.outer.as_ref()).any(|mark| mark.includes(limits, policy))
    };
    if let Some(policy) = decisions.iter().map(Decision::policy).find(|policy| is_charged(policy)) {
        limits.emit(EventKind::ChargedTwice { policy }, || EventKeys::found(keys));
    }
}
