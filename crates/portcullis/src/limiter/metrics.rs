//! Metrics of the limiter.

use super::Limiter;
use crate::metrics::Metrics;

impl Limiter {
    /// Counts from now on what all layers of this limiter and of its clones do, with the recorder of the `metrics` facade that is installed
    /// now: install it before, because what is counted without one is lost. A second call changes nothing.
    ///
    /// ```
    /// use metrics_exporter_prometheus::PrometheusBuilder;
    /// use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
    ///
    /// let exporter = PrometheusBuilder::new().install_recorder()?;
    /// let limiter = Limiter::memory().metrics();
    /// let layer = limiter.layer(Policy::gcra("search", Quota::per_second(10)).by(ClientIp::peer()));
    ///
    /// // In the handler of `/metrics`:
    /// limiter.refresh_metrics();
    /// let text = exporter.render();
    /// assert!(text.contains("portcullis_requests_total{outcome=\"admitted\"} 0"));
    /// # let _ = layer;
    /// # Ok::<(), metrics_exporter_prometheus::BuildError>(())
    /// ```
    #[must_use]
    pub fn metrics(self) -> Self {
        self.metrics_of(Metrics::new)
    }

    /// Like [`metrics`](Self::metrics), but with metrics of a recorder that is not installed, or of several limiters together.
    #[must_use]
    pub fn metrics_with(self, metrics: &Metrics) -> Self {
        self.metrics_of(|| metrics.clone())
    }

    fn metrics_of(self, metrics: impl FnOnce() -> Metrics) -> Self {
        self.metrics.get_or_init(|| {
            let metrics = metrics();
            metrics.observe(&self.registry);
            metrics
        });
        self
    }

    /// Publishes the metrics that are not counted by events: the state of the store, how many requests wait, and the number of the
    /// rules. Call it before each scrape, or every few seconds. It does no I/O, and nothing without [`metrics`](Self::metrics).
    pub fn refresh_metrics(&self) {
        if let Some(metrics) = self.metrics.get() {
            metrics.refresh(&self.registry);
            #[cfg(feature = "rules")]
            if let Some(rules) = &self.rules {
                metrics.set_rules_generation(rules.generation());
            }
        }
    }
}
