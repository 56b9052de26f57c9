//! The limits of Envoy's files, which can be exchanged while they are used.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use portcullis::rules::envoy::Descriptors;

/// The limits of Envoy's files, which can be [replaced](Self::replace) while a service uses them. Clones share them.
///
/// Each call is decided by one version of the limits. The units that are charged stay, as far as the limit has the same
/// [name](portcullis::rules::envoy::Limit::policy_name) and the same unit of time: a number of requests that differs applies from the next
/// call on.
#[derive(Clone, Debug)]
pub struct SharedDescriptors(Arc<ArcSwap<Descriptors>>);

impl SharedDescriptors {
    /// Begins with these limits.
    pub fn new(descriptors: Descriptors) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(descriptors)))
    }

    /// Replaces the limits, from the next call on. Returns the former ones.
    ///
    /// A store in memory has room for a bounded number of limits:
    /// [`RateLimitService::replace`](crate::RateLimitService::replace) replaces them only if the store has room for all.
    pub fn replace(&self, descriptors: Descriptors) -> Arc<Descriptors> {
        self.0.swap(Arc::new(descriptors))
    }

    /// Returns the limits as they are now.
    pub fn current(&self) -> Arc<Descriptors> {
        self.0.load_full()
    }

    pub(crate) fn load(&self) -> Guard<Arc<Descriptors>> {
        self.0.load()
    }
}

impl From<Descriptors> for SharedDescriptors {
    fn from(descriptors: Descriptors) -> Self {
        Self::new(descriptors)
    }
}
