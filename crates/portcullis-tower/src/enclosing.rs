//! The layers without a [`Charge`](crate::Charge) around the request that a thread handles.
//!
//! Such a layer leaves nothing in a request that a layer inside of it could find. It is on a stack of the thread instead, while
//! it calls or polls the inner service.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use portcullis_core::PolicyName;

use crate::config::LayerConfig;
use crate::layer_store::LayerStore;
use crate::policy::PolicySet;

/// A layer without charges that has counted a request.
pub(crate) struct Enclosing {
    pub(crate) config: Arc<LayerConfig>,
    /// The policies that count the request.
    pub(crate) counted: PolicySet,
}

/// Keeps a layer on the stack until it is dropped. Then the layer is where it was before.
#[must_use]
pub(crate) struct Scope<'a>(&'a mut Option<Enclosing>);

impl<'a> Scope<'a> {
    /// Moves a layer to the stack; a clone would count a reference, in a cache line that all threads write. `None` if there is no
    /// layer.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "most of it is a call")]
    pub(crate) fn enter(layer: &'a mut Option<Enclosing>) -> Option<Self> {
        let enclosing = layer.take()?;
        let below = INNERMOST.with(|innermost| innermost.replace(Some(enclosing)));
        DEPTH.set(DEPTH.get() + 1);
        if let Some(below) = below {
            push(below);
        }
        Some(Self(layer))
    }
}

impl Drop for Scope<'_> {
    #[inline]
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        let below = if depth > 0 { pop() } else { None };
        *self.0 = INNERMOST.with(|innermost| innermost.replace(below));
    }
}

#[cold]
fn push(enclosing: Enclosing) {
    OUTER.with_borrow_mut(|outer| outer.push(enclosing));
}

#[cold]
fn pop() -> Option<Enclosing> {
    OUTER.with_borrow_mut(Vec::pop)
}

/// Whether a layer without charges that is called or polled has counted the request.
#[inline]
pub(crate) fn is_enclosed() -> bool {
    DEPTH.get() > 0
}

/// Whether such a layer of the same limiter has counted the request under a policy.
pub(crate) fn includes(store: &LayerStore, policy: &PolicyName) -> bool {
    let counts = |outer: &Enclosing| {
        outer.config.store.shares_backend(store)
            && outer.counted.indexes().any(|index| outer.config.policies()[index].policy.name() == policy)
    };
    let innermost = INNERMOST.take();
    let is_included = innermost.as_ref().is_some_and(counts);
    INNERMOST.set(innermost);
    is_included || OUTER.with_borrow(|outer| outer.iter().any(counts))
}

// The stack. Nearly always it has one layer, which needs neither a vector nor a check that this is not borrowed.
thread_local! {
    /// The number of layers. Read for each request.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static INNERMOST: Cell<Option<Enclosing>> = const { Cell::new(None) };
    /// The other layers, from the outermost on.
    static OUTER: RefCell<Vec<Enclosing>> = const { RefCell::new(Vec::new()) };
}

#[cfg(test)]
mod tests {
    use portcullis_core::store::NoStore;
    use portcullis_core::{Policy, Quota, Secret};

    use super::*;
    use crate::{Global, LayerBuilder, Registry};

    #[test]
    fn each_of_several_layers_is_found_and_comes_back() {
        let registry = Arc::new(Registry::new(Arc::new(NoStore), Secret::published()));
        let layers = ["outer", "middle", "inner"].map(|name| {
            let policy = Policy::gcra(name, Quota::per_second(1));
            LayerBuilder::new(Arc::clone(&registry), policy).by(Global).config
        });
        let counted = PolicySet::one(0);
        let mut stacked =
            layers.each_ref().map(|config| Some(Enclosing { config: Arc::clone(config), counted }));
        let found = || {
            let policies = layers.each_ref().map(|config| (&config.store, &config.policies()[0].policy));
            policies.map(|(store, policy)| includes(store, policy.name()))
        };
        let [outer, middle, inner] = &mut stacked;
        let outer = Scope::enter(outer);
        assert_eq!((is_enclosed(), found()), (true, [true, false, false]));
        let middle = Scope::enter(middle);
        let inner = Scope::enter(inner);
        assert_eq!(found(), [true; 3]);
        drop(inner);
        assert_eq!(found(), [true, true, false]);
        drop(middle);
        drop(outer);
        assert_eq!((is_enclosed(), found()), (false, [false; 3]));
        for (stacked, config) in stacked.iter().zip(&layers) {
            assert!(stacked.as_ref().is_some_and(|stacked| Arc::ptr_eq(&stacked.config, config)));
        }
    }
}
