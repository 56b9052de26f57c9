//! Metrics of a test, a service behind layers, and another count of what happens.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use portcullis_core::{ManualClock, Secret};
use portcullis_memory::MemoryStore;
use portcullis_metrics::Metrics;
use portcullis_tower::{Event, EventKind, Observer, RateLimitLayer, Registry};
use tower::{Layer as _, ServiceExt as _, service_fn};

/// Metrics with a recorder of their own.
pub(crate) struct Recorded {
    pub(crate) metrics: Metrics,
    exporter: PrometheusHandle,
}

impl Recorded {
    pub(crate) fn new() -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let exporter = recorder.handle();
        Self { metrics: Metrics::with_recorder(recorder), exporter }
    }

    /// A registry with state in memory under a clock that stands still, and its metrics.
    pub(crate) fn registry(capacity: usize) -> (Arc<Registry>, Self) {
        let store = MemoryStore::builder().clock(ManualClock::default()).capacity(capacity).build();
        let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
        let recorded = Self::new();
        recorded.metrics.observe(&registry);
        (registry, recorded)
    }

    pub(crate) fn text(&self) -> String {
        self.exporter.render()
    }

    /// The series, with their values.
    pub(crate) fn series(&self) -> BTreeMap<String, f64> {
        let text = self.text();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let series = lines.map(|line| line.rsplit_once(' ').expect("a series has a value"));
        series.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
    }

    /// The series that are not zero and whose names begin with one of these.
    pub(crate) fn nonzero(&self, names: &[&str]) -> BTreeMap<String, u64> {
        let mut series = self.series();
        series.retain(|name, value| *value > 0.0 && names.iter().any(|start| name.starts_with(start)));
        series.into_iter().map(|(name, value)| (name, format!("{value}").parse().unwrap())).collect()
    }
}

/// Sends a request through a layer to a service that answers at once. Returns the status.
pub(crate) async fn send(layer: &RateLimitLayer, request: Request<String>) -> u16 {
    let service =
        layer.layer(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(String::new()))));
    service.oneshot(request).await.unwrap().status().as_u16()
}

pub(crate) fn from_user(user: &str) -> Request<String> {
    Request::builder().header("x-user", user).body(String::new()).unwrap()
}

/// Another observer, which counts what the metrics should show.
#[derive(Clone, Default)]
pub(crate) struct Truth(Arc<Mutex<BTreeMap<String, u64>>>);

impl Truth {
    fn add(&self, series: String, units: u64) {
        *self.0.lock().unwrap().entry(series).or_default() += units;
    }

    pub(crate) fn counted(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap().clone()
    }
}

impl Observer for Truth {
    fn on_event(&self, event: &Event<'_>) {
        let decisions = match event.kind {
            EventKind::Admitted { decisions } | EventKind::Rejected { decisions, .. } => decisions,
            _ => &[],
        };
        for decision in decisions.iter().filter(|decision| decision.is_metered()) {
            let outcome = if decision.is_allowed() { "allowed" } else { "denied" };
            let policy = decision.policy();
            self.add(format!("portcullis_decisions_total{{policy=\"{policy}\",outcome=\"{outcome}\"}}"), 1);
        }
        match event.kind {
            EventKind::Admitted { .. } => {
                self.add("portcullis_requests_total{outcome=\"admitted\"}".to_owned(), 1);
            }
            EventKind::Rejected { reason, .. } => {
                let reason = format!("{reason:?}").to_lowercase();
                self.add(format!("portcullis_requests_total{{outcome=\"{reason}\"}}"), 1);
            }
            EventKind::Charged { decision, units } => {
                let policy = decision.policy();
                self.add(format!("portcullis_charged_units_total{{policy=\"{policy}\"}}"), units);
            }
            EventKind::ShadowWouldReject { decision } => {
                let policy = decision.policy();
                let series =
                    format!("portcullis_would_reject_total{{policy=\"{policy}\",cause=\"limited\"}}");
                self.add(series, 1);
            }
            _ => {}
        }
    }
}
