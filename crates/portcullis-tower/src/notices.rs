//! What a layer writes to the log: transitions, never requests.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use portcullis_core::StoreError;

use crate::KeyError;

/// What a layer has said already.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    store_is_failing: AtomicBool,
    misconfigured: AtomicBool,
}

impl Notices {
    pub(crate) fn store_failed(&self, error: &StoreError) {
        if !self.store_is_failing.swap(true, Relaxed) {
            tracing::warn!(%error, "the store of the rate limiter cannot answer");
        }
    }

    pub(crate) fn store_answered(&self) {
        // A load first: in good times no core takes the cache line from another.
        if self.store_is_failing.load(Relaxed) && self.store_is_failing.swap(false, Relaxed) {
            tracing::info!("the store of the rate limiter answers again");
        }
    }

    pub(crate) fn misconfigured(&self, error: &KeyError) {
        if !self.misconfigured.swap(true, Relaxed) {
            tracing::error!(%error, "the rate limiter answers requests with 500");
        }
    }
}

impl Clone for Notices {
    /// A layer that is made from another has said nothing yet.
    fn clone(&self) -> Self {
        Self::default()
    }
}
