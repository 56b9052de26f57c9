//! The way to a layer.

use std::sync::Arc;

use portcullis_core::Policy;

use crate::gate::Gate;
use crate::rules::{KeySource, Rule, Rules};
use crate::{AsyncKeyExtractor, KeyExtractor, LayerError, RateLimitLayer};

/// A policy that does not know yet whom to charge: [`by`](LayerBuilder::by) tells it and makes the layer.
///
/// ```
/// # mod support { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support.rs")); }
/// use portcullis_core::{Policy, Quota};
/// use portcullis_tower::{Header, LayerBuilder, RateLimitLayer};
///
/// # let gate = support::gate();
/// let search = Policy::gcra("search", Quota::per_second(10).burst(20));
/// let layer: RateLimitLayer = LayerBuilder::new(gate, search).by(Header::named("x-api-key"));
/// assert_eq!(format!("{layer:?}"), r#"RateLimitLayer { policies: ["search"] }"#);
/// ```
///
/// It is no layer by itself, so that a forgotten key does not compile:
///
/// ```compile_fail,E0277
/// # mod support { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support.rs")); }
/// # use portcullis_core::{Policy, Quota};
/// # use portcullis_tower::LayerBuilder;
/// fn wrap(layer: impl tower_layer::Layer<()>) {}
///
/// # let gate = support::gate();
/// let search = Policy::gcra("search", Quota::per_second(10).burst(20));
/// wrap(LayerBuilder::new(gate, search));
/// ```
#[derive(Debug)]
#[must_use = "a policy limits nobody until `.by(key)` says whom to charge"]
pub struct LayerBuilder {
    gate: Arc<Gate>,
    policy: Policy,
}

impl LayerBuilder {
    /// Starts a layer with its first policy, and registers the policy.
    ///
    /// # Panics
    ///
    /// If [`try_new`](Self::try_new) refuses the policy.
    #[track_caller]
    pub fn new(gate: Arc<Gate>, policy: Policy) -> Self {
        match Self::try_new(gate, policy) {
            Ok(builder) => builder,
            Err(error) => panic!("{error}"),
        }
    }

    /// Like [`LayerBuilder::new`], for policies that come from elsewhere.
    ///
    /// # Errors
    ///
    /// If the gate knows a different policy of the same name, or its store refuses the policy.
    pub fn try_new(gate: Arc<Gate>, policy: Policy) -> Result<Self, LayerError> {
        gate.register(&policy)?;
        Ok(Self { gate, policy })
    }

    /// Says whom to charge.
    pub fn by(self, key: impl KeyExtractor) -> RateLimitLayer {
        self.with(KeySource::Now(Arc::new(key)))
    }

    /// Says whom to charge, where that has to be looked up.
    pub fn by_async(self, key: impl AsyncKeyExtractor) -> RateLimitLayer {
        self.with(KeySource::Later(Arc::new(key)))
    }

    fn with(self, key: KeySource) -> RateLimitLayer {
        RateLimitLayer::new(Rules::new(self.gate, Rule::new(self.policy, key)))
    }
}
