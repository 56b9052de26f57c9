//! The table in the guide has the metrics that are exported, and no others. The dashboard shows all of them.

use portcullis_metrics::METRICS;

const GUIDE: &str = include_str!("../../../../docs/metrics.md");
const DASHBOARD: &str = include_str!("../../../../docs/grafana/portcullis.json");

#[test]
fn the_guide_has_each_metric_with_its_type_and_labels() {
    let (guide, _) = GUIDE.split_once("## Figures of the store").expect("a table of their own");
    let rows: Vec<&str> = guide.lines().filter(|line| line.starts_with("| `portcullis_")).collect();
    let expected = METRICS.iter().map(|metric| {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, labels) = (metric.name, metric.kind.as_str(), labels.join(", "));
        format!("| `{name}` | {kind} | {labels} |").replace("|  |", "| |")
    });
    for expected in expected {
        assert!(rows.iter().any(|row| row.starts_with(&expected)), "the guide has no row\n{expected}");
    }
    let is_known = |row: &&&str| {
        let name = row.split('`').nth(1).unwrap_or_default();
        METRICS.iter().any(|metric| metric.name == name)
    };
    let unknown: Vec<_> = rows.iter().filter(|row| !is_known(row)).collect();
    assert!(unknown.is_empty(), "not exported: {unknown:?}");
}

#[test]
fn the_dashboard_shows_each_metric() {
    let expressions: Vec<_> = DASHBOARD.lines().filter(|line| line.contains("\"expr\":")).collect();
    let is_shown = |name: &str| expressions.iter().any(|expression| expression.contains(name));
    let missing: Vec<_> = METRICS.iter().map(|metric| metric.name).filter(|name| !is_shown(name)).collect();
    assert!(missing.is_empty(), "not in the dashboard: {missing:?}");
}
