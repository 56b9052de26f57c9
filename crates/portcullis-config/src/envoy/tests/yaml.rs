//! YAML as Envoy's service reads it.

use super::{limit, mistakes, text};
use crate::envoy::{Descriptors, Unit};

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

/// The first of the values of a descriptor with a limit, and its limit.
fn written(value: &str, requests: &str) -> Result<(String, u32), String> {
    let content = format!(
        "domain: d\ndescriptors:\n- key: k\n  value: {value}\n  rate_limit: {{unit: day, requests_per_unit: {requests} }}\n"
    );
    let descriptors = Descriptors::parse(&[("test.yaml", &content)]).map_err(|found| found.to_string())?;
    let limit = &descriptors.limits()[0];
    Ok((limit.key().trim_start_matches("d.k_").to_owned(), limit.requests_per_unit()))
}

#[test]
fn parsed_values_count_in_descriptors() {
    for (value, expected) in [
        ("&big 42", "42"),
        ("&big '42'", "42"),
        ("&b !!str 42", "42"),
        ("!!str 1.5", "1.5"),
        ("!!str &b 1.5", "1.5"),
        ("!!int 42", "42"),
        ("!!int '42'", "42"),
        ("!!bool yes", "yes"),
        ("! 42", "42"),
        ("! '42'", "42"),
        ("!<tag:yaml.org,2002:str> 42", "42"),
        ("&b \"a # b\" # c", "a # b"),
        ("\t42", "42"),
        ("'a:\tb'", "a:\tb"),
    ] {
        assert_eq!(written(value, "5"), Ok((expected.to_owned(), 5)), "{value}");
    }
    for requests in ["&n 5", "!!int 5", "!!int '5'", "&n !!int 0x5", "! 5", "! '5'"] {
        assert_eq!(written("v", requests), Ok(("v".to_owned(), 5)), "{requests}");
    }
    for (value, requests, expected) in [
        ("!!float 5", "5", "is not a whole number of 64 bits"),
        ("1.5", "5", "is not a whole number of 64 bits"),
        ("&v 1.5", "5", "is not a whole number of 64 bits"),
        ("!!int x", "5", "test.yaml:4:10: error: a tag that is not supported, or does not fit the value"),
        ("!own x", "5", "a tag that is not supported, or does not fit the value"),
        ("v", "!!str 5", "expected a number of requests, found the text `5`"),
        ("v", "!!float 5", "expected a number of requests"),
        ("v", "'5'", "expected a number of requests, found the text `5`"),
        ("v", "&n '5'", "expected a number of requests, found the text `5`"),
    ] {
        let found = written(value, requests).unwrap_err();
        assert!(found.contains(expected), "{value} {requests}: {found}");
    }
}

#[test]
fn anchored_fields_and_flags_are_read() {
    let descriptors = text(
        "domain:\td\ndescriptors:\t&l\n- key:\t&k user\n  shadow_mode: &v true\n  quota_mode: *v\n  value: *k\n  \
         rate_limit: &r {unit: &u day, requests_per_unit: &n 5}\n- {key: &five 5, value: *five, rate_limit: *r}\n\
         - {key: n, value: *n, rate_limit: {unit:\t*u, requests_per_unit:\t*n}}\n",
    );
    for descriptor in [("user", "user"), ("5", "5"), ("n", "5")] {
        assert_eq!(limit(&descriptors, "d", &[descriptor]), Some((5, Unit::Day)), "{descriptor:?}");
    }
    assert!(descriptors.limits()[0].shadow_mode() && descriptors.limits()[0].quota_mode());
    assert_eq!(descriptors.warnings().iter().len(), 0, "{}", descriptors.warnings());
}

#[test]
fn names_in_quotes_are_given_twice() {
    let found = mistakes("domain: d\n\"domain\": e\ndescriptors: []\n");
    assert!(found.starts_with("test.yaml:2:1: error: this is not valid YAML: duplicated key"), "{found}");
}

#[test]
fn aliases_inside_of_themselves_are_refused() {
    let found = mistakes("domain: d\ndescriptors: &d [*d]\n");
    assert!(
        found.starts_with("test.yaml:2:18: error: an alias that is inside of what it stands for"),
        "{found}"
    );
}
