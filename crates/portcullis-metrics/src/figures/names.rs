//! The names of the metrics of figures.

use std::collections::HashMap;

use portcullis_core::store::{Figure, FigureUnit};

use super::is_counter;
use crate::catalog::{METRICS, MetricKind, STORE_PREFIX};

/// How many kinds of figures are published. A store has a few dozen.
const MAX_NAMES: usize = 1_000;

/// The names so far, by that of the figure and whether it is about one policy. `None` for a figure that is not published.
#[derive(Default)]
pub(super) struct Names(HashMap<(&'static str, bool), Option<Box<str>>>);

impl Names {
    /// The name of the metric of a figure. `None` if another metric has it already: two types under one name would make a scrape invalid.
    pub(super) fn of(&mut self, figure: Figure<'_>) -> Option<&str> {
        let id = (figure.name, figure.policy.is_some());
        if !self.0.contains_key(&id) {
            if self.0.len() >= MAX_NAMES {
                return None;
            }
            let name = name(figure);
            let is_taken = self.0.values().flatten().any(|other| **other == *name) || is_in_catalog(&name);
            self.0.insert(id, (!is_taken).then(|| name.into()));
        }
        self.0.get(&id)?.as_deref()
    }
}

/// Whether a metric of layers has the name, or a histogram one of its series.
fn is_in_catalog(name: &str) -> bool {
    let histogram =
        ["_bucket", "_count", "_sum"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or_default();
    METRICS
        .iter()
        .any(|metric| metric.name == name || metric.kind == MetricKind::Histogram && metric.name == histogram)
}

fn name(figure: Figure<'_>) -> String {
    // A store of a third party may have any text.
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let own: String = figure.name.chars().map(|own| if is_allowed(own) { own } else { '_' }).collect();
    let unit = match figure.unit {
        FigureUnit::Bytes => "bytes",
        FigureUnit::Microseconds => "seconds",
        _ => "",
    };
    let total = if is_counter(figure) { "total" } else { "" };
    // A figure of the whole store has no label. Under one name with those of its policies, a sum would count everything twice.
    let policy = if figure.policy.is_some() { "policy_" } else { "" };
    let mut name = format!("{STORE_PREFIX}{policy}{own}");
    for suffix in [unit, total] {
        if !suffix.is_empty() && !name.ends_with(suffix) {
            name = format!("{name}_{suffix}");
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use portcullis_core::PolicyName;

    use super::*;

    #[test]
    fn figures_get_names_in_the_conventions_of_prometheus() {
        let hits = Figure::counter("lease_hits", 1, "Hits.");
        assert_eq!(name(hits), "portcullis_store_lease_hits_total");
        assert_eq!(name(hits.named("hits_total")), "portcullis_store_hits_total");
        assert_eq!(name(Figure::gauge("entries", 1, "Entries.")), "portcullis_store_entries");
        let policy = PolicyName::literal("search");
        assert_eq!(name(hits.of_policy(&policy)), "portcullis_store_policy_lease_hits_total");
        let bytes = Figure::gauge("bytes", 1, "Bytes.").in_unit(FigureUnit::Bytes);
        assert_eq!(name(bytes), "portcullis_store_bytes");
        assert_eq!(name(bytes.named("heap")), "portcullis_store_heap_bytes");
        let degraded = Figure::counter("degraded", 1, "Time.").in_unit(FigureUnit::Microseconds);
        assert_eq!(name(degraded), "portcullis_store_degraded_seconds");
    }

    #[test]
    fn odd_names_are_made_valid_and_never_collide() {
        let mut names = Names::default();
        let gauge = |name| Figure::gauge(name, 1, "A number.");
        assert_eq!(names.of(gauge("cache-größe {a=\"b\"}")), Some("portcullis_store_cache_gr__e__a__b__"));
        assert_eq!(names.of(gauge("a b")), Some("portcullis_store_a_b"));
        assert_eq!(names.of(gauge("a-b")), None);
        assert_eq!(names.of(gauge("a b")), Some("portcullis_store_a_b"));
        // Names of metrics that layers have.
        assert_eq!(names.of(Figure::counter("call_errors", 1, "Errors.")), None);
        let duration = gauge("call_duration").in_unit(FigureUnit::Microseconds);
        assert_eq!(names.of(duration), None);
        assert_eq!(names.of(gauge("call_decisions_sum")), None);
        // A figure is of the whole store, or of a policy.
        let policy = PolicyName::literal("search");
        assert_eq!(names.of(gauge("policy_entries")), Some("portcullis_store_policy_entries"));
        assert_eq!(names.of(gauge("entries").of_policy(&policy)), None);
    }

    #[test]
    fn number_of_names_is_bounded() {
        let mut names = Names::default();
        for number in 0..MAX_NAMES + 10 {
            let name: &'static str = format!("figure_{number}").leak();
            assert_eq!(names.of(Figure::gauge(name, 1, "A number.")).is_some(), number < MAX_NAMES);
        }
    }
}
