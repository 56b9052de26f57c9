//! What a layer writes to the log: transitions, never requests.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use portcullis_core::StoreError;
use tokio::time::Instant;

use crate::KeyError;

/// What a layer has said already.
#[derive(Debug)]
pub(crate) struct Notices {
    store_is_failing: AtomicBool,
    born: Instant,
    /// Milliseconds since then.
    last_failure: AtomicU64,
    misconfigured: AtomicBool,
}

impl Notices {
    pub(crate) fn store_failed(&self, error: &StoreError) {
        self.last_failure.store(self.millis(), Relaxed);
        if !self.store_is_failing.swap(true, Relaxed) {
            tracing::warn!(%error, "the store of the rate limiter cannot answer");
        }
    }

    pub(crate) fn store_answered(&self) {
        // A load first: in good times no core takes the cache line from another.
        if !self.store_is_failing.load(Relaxed) {
            return;
        }
        // A store that limps fails and answers by turns; it is well when it has not failed for a while.
        let since = Duration::from_millis(self.millis().saturating_sub(self.last_failure.load(Relaxed)));
        if since >= WELL_AFTER && self.store_is_failing.swap(false, Relaxed) {
            tracing::info!("the store of the rate limiter answers again");
        }
    }

    pub(crate) fn misconfigured(&self, error: &KeyError) {
        if !self.misconfigured.swap(true, Relaxed) {
            tracing::error!(%error, "the rate limiter answers requests with 500");
        }
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Default for Notices {
    fn default() -> Self {
        let (store_is_failing, misconfigured) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { store_is_failing, born: Instant::now(), last_failure: AtomicU64::new(0), misconfigured }
    }
}

const WELL_AFTER: Duration = Duration::from_secs(1);

impl Clone for Notices {
    /// A layer that is made from another has said nothing yet.
    fn clone(&self) -> Self {
        Self::default()
    }
}
