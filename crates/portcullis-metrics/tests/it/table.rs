//! The dashboard shows all metrics.

use portcullis_metrics::METRICS;

const DASHBOARD: &str = include_str!("../../../../docs/grafana/portcullis.json");

#[test]
fn the_dashboard_shows_each_metric() {
    let expressions: Vec<_> = DASHBOARD.lines().filter(|line| line.contains("\"expr\":")).collect();
    let is_shown = |name: &str| expressions.iter().any(|expression| expression.contains(name));
    let missing: Vec<_> = METRICS.iter().map(|metric| metric.name).filter(|name| !is_shown(name)).collect();
    assert!(missing.is_empty(), "not in the dashboard: {missing:?}");
}
