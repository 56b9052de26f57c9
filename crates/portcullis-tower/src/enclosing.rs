//! The layers without a [`Charge`](crate::Charge) around the request that a thread handles.
//!
//! Such a layer leaves nothing in a request that a layer inside of it could find. It is on a stack of the thread instead, while
//! it calls or polls the inner service.

use std::cell::RefCell;
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
    #[inline]
    pub(crate) fn enter(layer: &'a mut Option<Enclosing>) -> Option<Self> {
        let enclosing = layer.take()?;
        STACK.with_borrow_mut(|stack| stack.push(enclosing));
        Some(Self(layer))
    }
}

impl Drop for Scope<'_> {
    #[inline]
    fn drop(&mut self) {
        *self.0 = STACK.with_borrow_mut(Vec::pop);
    }
}

/// Whether a layer without charges that is called or polled has counted the request.
#[inline]
pub(crate) fn is_enclosed() -> bool {
    STACK.with_borrow(|stack| !stack.is_empty())
}

/// Whether such a layer of the same limiter has counted the request under a policy.
pub(crate) fn includes(store: &LayerStore, policy: &PolicyName) -> bool {
    let counts = |outer: &Enclosing| {
        outer.config.store.shares_backend(store)
            && outer.counted.indexes().any(|index| outer.config.policies()[index].policy.name() == policy)
    };
    STACK.with_borrow(|stack| stack.iter().any(counts))
}

thread_local! {
    static STACK: RefCell<Vec<Enclosing>> = const { RefCell::new(Vec::new()) };
}
