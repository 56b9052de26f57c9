//! The shortest way from a policy to a limit.

use portcullis_core::Policy;

use super::Limit;
use crate::{AsyncKeyExtractor, KeyExtractor};

/// Makes a [`Limit`] of a policy, by naming its key.
///
/// ```
/// use portcullis_core::{Policy, Quota};
/// use portcullis_tower::{Header, Limit, PolicyExt as _};
///
/// let search: Limit = Policy::gcra("search", Quota::per_second(10).burst(20)).by(Header::named("x-api-key"));
/// assert_eq!(search.policy().name().as_str(), "search");
/// ```
///
/// A policy without a key is no limit of a layer, so that this does not compile:
///
/// ```compile_fail,E0308
/// use std::sync::Arc;
///
/// use portcullis_core::{Policy, Quota, Secret};
/// use portcullis_memory::MemoryStore;
/// use portcullis_tower::{RateLimitLayer, Registry};
///
/// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
/// let _ = RateLimitLayer::new(registry, Policy::gcra("search", Quota::per_second(10)));
/// ```
pub trait PolicyExt: Into<Policy> {
    /// Charges requests to this key: [`Limit::by`].
    fn by(self, key: impl KeyExtractor) -> Limit {
        Limit::new(self).by(key)
    }

    /// Charges requests to this key, which has to be looked up: [`Limit::by_async`].
    fn by_async(self, key: impl AsyncKeyExtractor) -> Limit {
        Limit::new(self).by_async(key)
    }
}

/// A policy, and what becomes one, such as a [`Concurrency`](portcullis_core::Concurrency).
impl<P: Into<Policy>> PolicyExt for P {}
