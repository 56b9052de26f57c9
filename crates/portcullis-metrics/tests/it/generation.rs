//! The number of the rules.

use std::path::Path;

use crate::support::Recorded;

#[test]
fn of_two_reloads_the_newer_one_is_shown_in_any_order() {
    let (registry, recorded) = Recorded::registry(10);
    let shown = || recorded.nonzero(&["portcullis_rules_generation"]).into_values().next();
    assert_eq!(shown(), None);
    for (generation, newest) in [(3, 3), (2, 3), (4, 4)] {
        registry.rules_reloaded(generation, Path::new("limits.toml"));
        assert_eq!(shown(), Some(newest));
    }
    registry.rules_rejected(2, "a file of before");
    assert_eq!(shown(), Some(4));
    // The rules of another limiter.
    recorded.metrics.set_rules_generation(1);
    assert_eq!(shown(), Some(1));
}
