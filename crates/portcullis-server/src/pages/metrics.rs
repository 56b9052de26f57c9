//! The exporter for Prometheus.

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use portcullis::metrics::{CALL_BUCKETS, DECISIONS_BUCKETS, WAIT_BUCKETS};
use tokio::task::JoinHandle;

/// Why a server has no metrics: another recorder is installed in this process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metrics cannot be exported: {0}")]
pub struct MetricsError(String);

/// The recorder of this process, which is kept up while this exists.
#[derive(Clone, Debug)]
pub(crate) struct Exporter {
    handle: PrometheusHandle,
    _upkeep: Arc<Upkeep>,
}

impl Exporter {
    pub(crate) fn install() -> Result<Self, MetricsError> {
        let handle = build().map_err(|error| MetricsError(error.to_string()))?;
        // Otherwise histograms would grow while nothing scrapes them.
        let kept = handle.clone();
        let upkeep = tokio::spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP).await;
                kept.run_upkeep();
            }
        });
        Ok(Self { handle, _upkeep: Arc::new(Upkeep(upkeep)) })
    }

    pub(crate) fn render(&self) -> String {
        self.handle.render()
    }
}

fn build() -> Result<PrometheusHandle, BuildError> {
    let named = |name: &str| Matcher::Full(name.to_owned());
    PrometheusBuilder::new()
        .set_buckets_for_metric(named("portcullis_store_call_duration_seconds"), &CALL_BUCKETS)?
        .set_buckets_for_metric(named("portcullis_store_call_decisions"), &DECISIONS_BUCKETS)?
        .set_buckets_for_metric(named("portcullis_wait_seconds"), &WAIT_BUCKETS)?
        .install_recorder()
}

#[derive(Debug)]
struct Upkeep(JoinHandle<()>);

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.0.abort();
    }
}

const UPKEEP: Duration = Duration::from_secs(5);
