//! Metrics of the Portcullis rate limiter, through the [`metrics`] facade.
//!
//! [`Metrics`] observes the layers of a registry and the calls of its store, and counts them with handles that are made once. A request
//! costs an addition to a few counters: no allocation, and no lock. The names follow the conventions of Prometheus, and begin with
//! `portcullis_`; [`METRICS`] has those of the layers, and those of the store are the [figures](portcullis_core::store::Store::figures) that
//! it reports.
//!
//! Labels are bounded: a policy, and texts of closed lists. No label and no value is an identity, a key, an address or a path. Policies
//! beyond the [first thousand](MAX_POLICIES) are counted together, as policy `other`.
//!
//! ```
//! use std::sync::Arc;
//!
//! use http::{Request, Response};
//! use metrics_exporter_prometheus::PrometheusBuilder;
//! use portcullis_core::{ManualClock, Policy, Quota, Secret};
//! use portcullis_memory::MemoryStore;
//! use portcullis_metrics::Metrics;
//! use portcullis_tower::{Global, PolicyExt as _, RateLimitLayer, Registry};
//! use tower::{Layer as _, ServiceExt as _, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let recorder = PrometheusBuilder::new().build_recorder();
//! let exporter = recorder.handle();
//! metrics::set_global_recorder(recorder)?;
//!
//! let store = MemoryStore::builder().clock(ManualClock::default()).build();
//! let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
//! let metrics = Metrics::new();
//! metrics.observe(&registry);
//! let layer = RateLimitLayer::new(Arc::clone(&registry), Policy::gcra("search", Quota::per_minute(1)).by(Global));
//! let service = layer.layer(service_fn(async |_: Request<String>| {
//!     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
//! }));
//! for status in [200, 429, 429] {
//!     assert_eq!(service.clone().oneshot(Request::new(String::new())).await?.status(), status);
//! }
//!
//! metrics.refresh(&registry);
//! let text = exporter.render();
//! assert!(text.contains(r#"portcullis_decisions_total{policy="search",outcome="allowed"} 1"#));
//! assert!(text.contains(r#"portcullis_decisions_total{policy="search",outcome="denied"} 2"#));
//! # Ok(())
//! # }
//! ```
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod calls;
mod catalog;
mod events;
mod figures;
mod handles;
mod labels;
mod limiter;
mod lookups;
mod policies;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use metrics::Recorder;
use portcullis_tower::{LayerSummary, Registry};

use crate::calls::Calls;
use crate::events::Events;
use crate::figures::Figures;
use crate::handles::Handles;
use crate::lookups::Lookups;

pub use crate::catalog::{CALL_BUCKETS, DECISIONS_BUCKETS, METRICS, Metric, MetricKind, WAIT_BUCKETS};
pub use crate::policies::MAX_POLICIES;

/// The metrics of a limiter. Clones share everything.
///
/// The handles of the metrics belong to one recorder of the `metrics` facade: the global one, which must be installed
/// before [`Metrics::new`] is called, or the one given to [`Metrics::with_recorder`]. What is counted without a recorder is lost, and of a
/// recorder that is installed later only policies and figures that are first seen after it have series.
///
/// A policy has the series that it can have, by its quota, its options and the store. [`refresh`](Self::refresh) begins them at zero,
/// so an alert sees the first increase. What cannot be foreseen, such as a request without an identity, begins with its first event.
#[derive(Clone)]
pub struct Metrics {
    events: Arc<Events>,
    calls: Arc<Calls>,
    figures: Arc<Figures>,
    lookups: Arc<Lookups>,
}

impl Metrics {
    /// Makes the handles of the metrics at the recorder that is installed now.
    pub fn new() -> Self {
        Self::of(&Handles::global())
    }

    /// Makes the handles at a recorder which is not installed, such as one of a test.
    ///
    /// ```
    /// use metrics_exporter_prometheus::PrometheusBuilder;
    /// use portcullis::metrics::Metrics;
    ///
    /// let recorder = PrometheusBuilder::new().build_recorder();
    /// let exporter = recorder.handle();
    /// let metrics = Metrics::with_recorder(recorder);
    /// assert!(exporter.render().contains("portcullis_requests_total{outcome=\"admitted\"} 0"));
    /// # let _ = metrics;
    /// ```
    pub fn with_recorder(recorder: impl Recorder + Send + Sync + 'static) -> Self {
        Self::of(&Handles::of(Arc::new(recorder)))
    }

    fn of(handles: &Handles) -> Self {
        handles.describe(METRICS);
        Self {
            events: Arc::new(Events::new(handles)),
            calls: Arc::new(Calls::new(handles)),
            figures: Arc::new(Figures::new(handles)),
            lookups: Arc::new(Lookups::new(handles)),
        }
    }

    /// Counts from now on what the layers of a registry do, those that exist already included, and the calls of its store to a server.
    ///
    /// Called twice for one registry, everything counts twice. Several registries may be observed, each by its own call: their numbers are
    /// added, also under one name of a policy.
    pub fn observe(&self, registry: &Registry) {
        registry.observe(Arc::clone(&self.events) as _);
        self.calls.observe(&**registry.store());
    }

    /// Publishes what is not counted by events: the [figures](portcullis_core::store::Store::figures) of the store, those of
    /// look-ups, and how many requests wait. Begins the series of policies that are new, or can count more since they have changed.
    ///
    /// Call it before each scrape, or every few seconds; calls at the same time wait for each other. It does no I/O. The numbers of several
    /// registries are added up: those that each has published last, until its store is dropped. Registries with one store in common count as
    /// one.
    pub fn refresh(&self, registry: &Registry) {
        self.begin_series(registry);
        let waiting = self.figures.refresh(&self.events, registry.store(), registry.waiting_requests());
        self.events.limiter().waiting_requests(waiting);
        self.lookups.refresh(registry);
    }

    /// Begins the series that the policies of a registry can have, at zero.
    fn begin_series(&self, registry: &Registry) {
        let (policies, has_server) = (self.events.policies(), self.calls.has_server());
        let layers = registry.layers();
        let in_layers = || layers.iter().flat_map(LayerSummary::policies);
        let names: HashSet<_> = in_layers().map(|summary| summary.policy().name()).collect();
        for policy in registry.policies() {
            let metrics = policies.get(policy.name());
            metrics.begin(&policy, has_server);
            // Without a layer it is checked by handlers.
            if !names.contains(policy.name()) {
                metrics.begin_enforced();
            }
        }
        for summary in in_layers() {
            policies.get(summary.policy().name()).begin_in_layer(summary, has_server);
        }
    }

    /// Publishes the number of the rules that apply: from 1, and 0 without rules. Each reload publishes it as well.
    pub fn set_rules_generation(&self, generation: u64) {
        self.events.limiter().rules_generation(generation);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("policies", &self.events.policies().len()).finish_non_exhaustive()
    }
}
