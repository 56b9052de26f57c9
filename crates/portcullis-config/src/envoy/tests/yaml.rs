//! YAML as Envoy's service reads it.

use super::{limit, mistakes, text};
use crate::envoy::Unit;

#[test]
fn values_are_texts_as_they_are_written() {
    let descriptors = text(
        "
domain: 5
descriptors:
  - {key: k, value: 010, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: k, value: yes, rate_limit: {unit: MINUTE, requests_per_unit: 0x10}}
  - {key: k, value: '1.50', rate_limit: {unit: Hour, requests_per_unit: 1_000}}
  - {key: k, value: 2026-01-31, rate_limit: {unit: week, requests_per_unit: 4294967295}}
  - {key: true, value: !!str 7, shadow_mode: on, rate_limit: {unit: month, requests_per_unit: 5}}
  - {key: 'true', value: \"\\u00e9\", rate_limit: {unit: year, requests_per_unit: 6}}
",
    );
    for (key, value, expected) in [
        ("k", "010", (1, Unit::Second)),
        ("k", "yes", (16, Unit::Minute)),
        ("k", "1.50", (1_000, Unit::Hour)),
        ("k", "2026-01-31", (u32::MAX, Unit::Week)),
        ("true", "7", (5, Unit::Month)),
        ("true", "é", (6, Unit::Year)),
    ] {
        assert_eq!(limit(&descriptors, "5", &[(key, value)]), Some(expected), "{value}");
    }
    let shadow = [("true", "7")];
    assert!(descriptors.limit("5", &shadow).is_some_and(|found| found.limit().shadow_mode()));
    assert!(mistakes("domain: d\ndescriptors: [{key: phone, value: 0899}]").contains("put it in quotes"));
}

#[test]
fn aliases_and_merge_keys_are_resolved() {
    let descriptors = text(
        "
domain: d
descriptors:
  - key: a
    rate_limit: &daily
      unit: day
      requests_per_unit: 5
  - key: b
    rate_limit: *daily
  - key: c
    rate_limit:
      <<: *daily
      requests_per_unit: 6
  - &e
    key: e
    rate_limit: {requests_per_unit: 7, <<: *daily}
  - <<: *e
    key: f
  - <<: *e
    key: g
    rate_limit: {unit: hour}
  - <<: [{key: x, value: 1}, {key: y, rate_limit: *daily}]
",
    );
    for (key, value, expected) in [
        ("a", "", (5, Unit::Day)),
        ("b", "", (5, Unit::Day)),
        ("c", "", (6, Unit::Day)),
        // What a merge key has replaces what is in front of it.
        ("e", "", (5, Unit::Day)),
        ("f", "", (5, Unit::Day)),
        ("g", "", (5, Unit::Hour)),
        ("x", "1", (5, Unit::Day)),
    ] {
        assert_eq!(limit(&descriptors, "d", &[(key, value)]), Some(expected), "{key}");
    }
}

#[test]
fn places_are_right_behind_other_characters() {
    for start in ["", "\u{feff}", "# é 🦀\n", "# é\r\n"] {
        let line = 1 + start.matches('\n').count();
        let found = mistakes(&format!("{start}{{domain: 'é🦀', descriptors: [{{key: k, unti: 5}}]}}"));
        assert!(found.contains(&format!("test.yaml:{line}:39: error: ")), "{start:?} {found}");
    }
}

#[test]
fn texts_of_several_lines_and_styles() {
    let descriptors = text(
        "domain: |\n  d\ndescriptors:\n- key: >-\n    a\n    b\n  value: c\n    d\n  rate_limit:\n    unlimited: y\n",
    );
    let found = [("a b", "c d")];
    assert!(descriptors.limit("d\n", &found).is_some_and(|found| found.limit().is_unlimited()));
}
