//! Requires the key of a policy before there is a layer.

use std::fmt;
use std::sync::Arc;

use portcullis_core::Policy;

use crate::config::LayerConfig;
use crate::policy::{KeySource, LayerPolicy};
use crate::registry::Registry;
use crate::{AsyncKeyExtractor, KeyExtractor, LayerError, RateLimitLayer};
use portcullis_engine::policies::{Member, Membership};

/// A policy without a key. [`by`](LayerBuilder::by) sets the key and makes the layer.
///
/// ```
/// use std::sync::Arc;
///
/// use portcullis_core::{Policy, Quota, Secret};
/// use portcullis_memory::MemoryStore;
/// use portcullis_tower::{Header, LayerBuilder, RateLimitLayer, Registry};
///
/// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
/// let search = Policy::gcra("search", Quota::per_second(10).burst(20));
/// let layer: RateLimitLayer = LayerBuilder::new(registry, search).by(Header::named("x-api-key"));
/// assert_eq!(format!("{layer:?}"), r#"RateLimitLayer { policies: ["search"] }"#);
/// ```
///
/// A builder is not a layer, so that code without a key does not compile:
///
/// ```compile_fail,E0277
/// use std::sync::Arc;
///
/// use portcullis_core::{Policy, Quota, Secret};
/// use portcullis_memory::MemoryStore;
/// use portcullis_tower::{LayerBuilder, Registry};
///
/// fn wrap(layer: impl tower_layer::Layer<()>) {}
///
/// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
/// let search = Policy::gcra("search", Quota::per_second(10).burst(20));
/// wrap(LayerBuilder::new(registry, search));
/// ```
#[must_use = "a policy limits nothing until `.by(key)` sets the key to charge"]
pub struct LayerBuilder {
    registry: Arc<Registry>,
    policy: Policy,
    membership: Arc<Membership>,
}

impl LayerBuilder {
    /// Starts a layer with its first policy, and registers the policy.
    ///
    /// # Panics
    ///
    /// If [`try_new`](Self::try_new) returns an error.
    #[track_caller]
    pub fn new(registry: Arc<Registry>, policy: Policy) -> Self {
        match Self::try_new(registry, policy) {
            Ok(builder) => builder,
            Err(error) => panic!("{error}"),
        }
    }

    /// Like [`LayerBuilder::new`], for policies that are not literals.
    ///
    /// # Errors
    ///
    /// If the registry has a different policy of the same name, or its store refuses the policy.
    pub fn try_new(registry: Arc<Registry>, policy: Policy) -> Result<Self, LayerError> {
        let member = Member { policy: policy.name().clone(), has_chosen_key: false };
        let membership = registry.engine().join(Box::new([member]), Some(&policy))?;
        Ok(Self { registry, policy, membership })
    }

    /// Sets the key to charge.
    pub fn by(self, key: impl KeyExtractor) -> RateLimitLayer {
        self.with(KeySource::Sync(Arc::new(key)))
    }

    /// Sets the key to charge, where it has to be looked up.
    pub fn by_async(self, key: impl AsyncKeyExtractor) -> RateLimitLayer {
        key.count_in(self.registry.lookup_counts());
        self.with(KeySource::Async(Arc::new(key)))
    }

    fn with(self, key: KeySource) -> RateLimitLayer {
        let first = LayerPolicy::new(self.policy, key);
        RateLimitLayer::new(LayerConfig::new(&self.registry, first, self.membership))
    }
}

impl fmt::Debug for LayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { registry, policy, .. } = self;
        f.debug_struct("LayerBuilder").field("registry", registry).field("policy", policy).finish()
    }
}
