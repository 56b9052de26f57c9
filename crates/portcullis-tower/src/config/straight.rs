//! Finds the layers in which one check decides about nearly every request.

use std::sync::atomic::Ordering::Relaxed;

use portcullis_core::Strategy;

use super::LayerConfig;
use crate::policy::{KeySource, LayerPolicy};

impl LayerConfig {
    /// What a straight layer is.
    pub(crate) const STRAIGHT: &str = "a straight layer has one enforced policy with a synchronous key";

    /// Whether a request is decided by one check under the only policy, so that nothing else has to be considered: no list, look-up,
    /// shadow policy, wait, permit, reservation, outcome or soft limit. Most layers are like this.
    #[inline]
    pub(crate) fn is_straight(&self) -> bool {
        self.is_straight.load(Relaxed)
    }

    /// Finds out whether the layer is straight, once nothing of it changes any more.
    pub(super) fn find_straight(&self) {
        let [only] = self.policies() else { return self.is_straight.store(false, Relaxed) };
        let has_more = self.is_for_handlers
            || self.registry.is_off()
            || self.lists.is_some()
            || self.has_caller_quotas
            || self.holds_permits
            || self.reserves
            || self.by_outcome.any()
            || !self.responses.soft_limits().is_empty();
        self.is_straight.store(!has_more && is_straight(only), Relaxed);
    }
}

fn is_straight(only: &LayerPolicy) -> bool {
    let waits =
        matches!(only.policy.strategy(), Strategy::LeakyBucket(_)) || only.policy.max_wait().is_some();
    matches!(only.key, KeySource::Sync(_)) && !only.is_shadow && !waits
}
