//! What shows a layer that an outer one has counted the same request, without a charge in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use portcullis_core::{Decision, PolicyName};
use smallvec::SmallVec;

use crate::engine::Limits;

/// The policies that have counted a request. Only the first requests carry it: layers are nested in the same way for all requests of a
/// route, so the first ones show it, and the others pay nothing.
#[derive(Clone, Debug)]
pub struct Mark(Arc<Marked>);

#[derive(Debug)]
struct Marked {
    limits: Arc<Limits>,
    policies: SmallVec<[PolicyName; 2]>,
    outer: Option<Mark>,
}

impl Mark {
    /// The mark of the policies that have decided, around that of an outer layer.
    pub fn new(limits: &Arc<Limits>, decisions: &[Decision], outer: Option<Self>) -> Self {
        let policies = decisions.iter().map(|decision| decision.policy().clone()).collect();
        Self(Arc::new(Marked { limits: Arc::clone(limits), policies, outer }))
    }

    /// Whether a layer of the same limiter has counted the request under a policy.
    pub fn includes(&self, limits: &Limits, policy: &PolicyName) -> bool {
        let Marked { limits: counted_by, policies, outer } = &*self.0;
        counted_by.shares_engine(limits) && policies.contains(policy)
            || outer.as_ref().is_some_and(|outer| outer.includes(limits, policy))
    }
}

/// How many requests of a layer are still to be marked. Some more than one, since the first may go to a route without nested layers.
#[derive(Debug)]
pub struct Marks(AtomicU8);

impl Default for Marks {
    fn default() -> Self {
        Self(AtomicU8::new(16))
    }
}

impl Marks {
    /// Whether a request is to be marked. Two at the same time may take the same place.
    #[inline]
    pub fn take(&self) -> bool {
        let left = self.0.load(Relaxed);
        if left != 0 {
            self.0.store(left - 1, Relaxed);
        }
        left != 0
    }
}
