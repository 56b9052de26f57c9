//! Finds the layers in which one check decides about nearly every request.

use std::sync::atomic::Ordering::Relaxed;

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
    matches!(only.key, KeySource::Sync(_)) && !only.is_shadow && !only.may_wait()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use http::request::Parts;
    use portcullis_core::store::NoStore;
    use portcullis_core::{Policy, Quota, Secret};

    use crate::config::LiveConfig;
    use crate::{Global, LayerBuilder, Mode, Percent, RateLimitLayer, Registry};

    fn is_straight(layer: &RateLimitLayer) -> bool {
        LiveConfig::of(&layer.config).current().is_straight()
    }

    fn registry() -> Arc<Registry> {
        Arc::new(Registry::new(Arc::new(NoStore), Secret::published()))
    }

    fn layer(registry: &Arc<Registry>) -> RateLimitLayer {
        let all = Policy::gcra("all", Quota::per_second(10));
        LayerBuilder::new(Arc::clone(registry), all).by(Global)
    }

    #[test]
    fn one_enforced_policy_is_straight() {
        let one = || layer(&registry());
        assert!(is_straight(&one()));
        assert!(is_straight(&one().without_charge().cost(|_: &Parts| 2)));
        let day = Policy::fixed_window("day", Quota::per_day(9));
        let waiting = Policy::gcra("waiting", Quota::per_second(10)).wait_at_most(Duration::from_secs(1));
        for more in [
            one().and_policy(day),
            one().shadow(),
            one().enforce(Percent::ZERO),
            one().except(|_: &Parts| false),
            LayerBuilder::new(registry(), waiting).by(Global),
            layer(&Arc::new(Registry::off())),
        ] {
            assert!(!is_straight(&more), "{more:?}");
        }
    }

    #[test]
    fn a_mode_decides_while_it_is_set() {
        let registry = registry();
        let layer = layer(&registry);
        let live = LiveConfig::of(&layer.config);
        for (mode, is_straight) in [(Mode::Shadow, false), (Mode::Off, false), (Mode::Enforce, true)] {
            registry.set_mode(layer.config.last().policy.name(), mode).unwrap();
            assert_eq!(live.current().is_straight(), is_straight, "{mode:?}");
        }
    }
}
