//! Metrics for Prometheus, and everything else that reads the `metrics` facade. See [`Limiter::metrics`](crate::Limiter::metrics) and
//! their [list].

pub use portcullis_metrics::{
    CALL_BUCKETS, DECISIONS_BUCKETS, MAX_POLICIES, METRICS, Metric, MetricKind, Metrics, WAIT_BUCKETS,
};
