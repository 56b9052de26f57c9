//! Reloads of rules.

use std::path::Path;

use crate::support::Recorded;

#[test]
fn reloads_are_counted_by_whether_they_apply() {
    let (registry, recorded) = Recorded::registry(10);
    let names = ["portcullis_rules_reloads_total", "portcullis_rules_generation"];
    assert!(recorded.nonzero(&names).is_empty());
    for generation in 1..=5 {
        registry.rules_reloaded(generation, Path::new("limits.toml"));
        if generation % 2 == 0 {
            registry.rules_rejected(generation, "a mistake");
        }
    }
    registry.rules_rejected(5, "another mistake");
    let expected = [
        ("portcullis_rules_generation", 5),
        ("portcullis_rules_reloads_total{outcome=\"applied\"}", 5),
        ("portcullis_rules_reloads_total{outcome=\"rejected\"}", 3),
    ];
    assert_eq!(recorded.nonzero(&names), expected.map(|(series, value)| (series.to_owned(), value)).into());
}
