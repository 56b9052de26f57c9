//! Finds the layers in which one check decides about nearly every request.

use std::sync::atomic::Ordering::Relaxed;

use super::LayerConfig;
use crate::limit::KeySource;

impl LayerConfig {
    /// Whether a request is decided by one check under the only policy, so that nothing else has to be considered: no list, look-up,
    /// shadow policy, wait, permit, reservation, outcome or soft limit. Most layers are like this.
    #[inline]
    pub(crate) fn is_fast(&self) -> bool {
        self.is_fast.load(Relaxed)
    }

    /// Finds out whether the layer is fast, once nothing of it changes any more.
    pub(super) fn find_fast_path(&self) {
        let ([only], [limit]) = (self.policies(), self.limits.policies()) else {
            return self.is_fast.store(false, Relaxed);
        };
        let has_more = self.registry.is_off()
            || self.lists.is_some()
            || self.has_caller_quotas
            || self.limits.holds_permits()
            || self.reserves
            || self.limits.corrects()
            || !self.responses.soft_limits().is_empty();
        let is_simple = matches!(only.key, KeySource::Sync(_))
            && !only.is_shadow()
            && !limit.may_wait()
            && !limit.policy.is_unlimited();
        self.is_fast.store(!has_more && is_simple, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use http::request::Parts;
    use portcullis_core::store::NoStore;
    use portcullis_core::{Policy, Quota, Secret};

    use crate::config::LiveConfig;
    use crate::{Global, Limit, Mode, Percent, PolicyExt as _, RateLimitLayer, Registry};

    fn is_fast(layer: &RateLimitLayer) -> bool {
        LiveConfig::of(&layer.config).current().is_fast()
    }

    fn registry() -> Arc<Registry> {
        Arc::new(Registry::new(Arc::new(NoStore), Secret::published()))
    }

    fn all() -> Limit {
        Policy::gcra("all", Quota::per_second(10)).by(Global)
    }

    fn layer(limit: Limit) -> RateLimitLayer {
        RateLimitLayer::new(registry(), limit)
    }

    #[test]
    fn one_enforced_policy_is_fast() {
        assert!(is_fast(&layer(all())));
        assert!(is_fast(&layer(all().cost(2)).with_charge()));
        let day = Policy::fixed_window("day", Quota::per_day(9));
        let waiting = Policy::gcra("waiting", Quota::per_second(10)).wait_at_most(Duration::from_secs(1));
        for more in [
            layer(all()).and(day),
            layer(all().shadow()),
            layer(all().enforce(Percent::ZERO)),
            layer(all()).except(|_: &Parts| false),
            layer(waiting.by(Global)),
            RateLimitLayer::new(Arc::new(Registry::off()), all()),
        ] {
            assert!(!is_fast(&more), "{more:?}");
        }
    }

    #[test]
    fn a_mode_decides_while_it_is_set() {
        let registry = registry();
        let layer = RateLimitLayer::new(Arc::clone(&registry), all());
        let live = LiveConfig::of(&layer.config);
        for (mode, is_fast) in [(Mode::Shadow, false), (Mode::Off, false), (Mode::Enforce, true)] {
            registry.set_mode(layer.config.policies()[0].policy.name(), mode).unwrap();
            assert_eq!(live.current().is_fast(), is_fast, "{mode:?}");
        }
    }
}
