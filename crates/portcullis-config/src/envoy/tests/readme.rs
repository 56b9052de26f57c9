//! The examples in the documentation of Envoy's service, in its order.

use super::{full_key, limit, text, warnings};
use crate::envoy::{Applied, Unit};

#[test]
fn example_1_one_limit_for_each_of_two_values() {
    let descriptors = text(
        "
domain: mongo
descriptors:
  - key: database
    value: users
    rate_limit:
      unit: second
      requests_per_unit: 500
  - key: database
    value: default
    rate_limit:
      unit: second
      requests_per_unit: 500
",
    );
    for value in ["users", "default"] {
        assert_eq!(limit(&descriptors, "mongo", &[("database", value)]), Some((500, Unit::Second)));
    }
    assert_eq!(limit(&descriptors, "mongo", &[("database", "other")]), None);
    assert_eq!(limit(&descriptors, "mongo", &[("Database", "users")]), None);
    assert_eq!(limit(&descriptors, "mango", &[("database", "users")]), None);
}

#[test]
fn example_2_nested_and_for_each_value() {
    let descriptors = text(
        "
domain: messages
descriptors:
  # Five advertisements a day
  - key: kind
    value: advertisement
    descriptors:
      - key: number
        rate_limit:
          unit: day
          requests_per_unit: 5
  # A hundred messages a day
  - key: number
    rate_limit:
      unit: day
      requests_per_unit: 100
",
    );
    assert_eq!(descriptors.warnings().iter().len(), 0);
    let advertisement = [("kind", "advertisement"), ("number", "2061111111")];
    let any = [("number", "2061111111")];
    let request: [&[(&str, &str)]; 2] = [&advertisement, &any];
    let request = descriptors.request("messages", &request);
    let limits: Vec<_> = request
        .as_slice()
        .iter()
        .map(|applied| applied.limit().map(|found| found.limit().requests_per_unit()))
        .collect();
    assert_eq!(limits, [Some(5), Some(100)]);
    // Either limit denies.
    assert!(request.is_over_limit(|index| index == 0));
    assert!(request.is_over_limit(|index| index == 1));
    assert!(!request.is_over_limit(|_| false));
    assert_eq!(limit(&descriptors, "messages", &[("kind", "advertisement")]), None);
}

#[test]
fn example_3_the_most_specific_match_applies() {
    let descriptors = text(
        "
domain: addresses
descriptors:
  - key: remote_address
    rate_limit:
      unit: second
      requests_per_unit: 10
  - key: remote_address
    value: 50.0.0.5
    rate_limit:
      unit: second
      requests_per_unit: 0
",
    );
    assert_eq!(limit(&descriptors, "addresses", &[("remote_address", "50.0.0.1")]), Some((10, Unit::Second)));
    assert_eq!(limit(&descriptors, "addresses", &[("remote_address", "50.0.0.5")]), Some((0, Unit::Second)));
}

#[test]
fn example_4_the_levels_of_request_and_file_are_equal() {
    let request = [("key", "value"), ("subkey", "subvalue")];
    let one_level = text(
        "
domain: levels
descriptors:
  - key: key
    value: value
    rate_limit:
      requests_per_unit: 300
      unit: second
",
    );
    assert_eq!(limit(&one_level, "levels", &request), None);
    let two_levels = text(
        "
domain: levels
descriptors:
  - key: key
    value: value
    descriptors:
      - key: subkey
        rate_limit:
          requests_per_unit: 300
          unit: second
",
    );
    assert_eq!(limit(&two_levels, "levels", &request), Some((300, Unit::Second)));
    assert_eq!(limit(&two_levels, "levels", &request[..1]), None);
}

#[test]
fn example_5_unlimited() {
    let descriptors = text(
        "
domain: internal
descriptors:
  - key: directory
    rate_limit:
      unlimited: true
  - key: cloud
    rate_limit:
      unit: minute
      requests_per_unit: 100
",
    );
    let request: [&[(&str, &str)]; 3] = [&[("directory", "a")], &[("cloud", "a")], &[("other", "a")]];
    let request = descriptors.request("internal", &request);
    let [Applied::Unlimited(_), Applied::Limit(cloud), Applied::NoLimit] = request.as_slice() else {
        panic!("{request:?}");
    };
    assert_eq!(cloud.limit().requests_per_unit(), 100);
    assert!(!request.is_over_limit(|index| index != 1));
}

#[test]
fn example_6_shadow_mode_never_denies() {
    let descriptors = text(
        "
domain: services
descriptors:
  - key: service
    descriptors:
      - key: user
        value: user-a
        rate_limit:
          requests_per_unit: 10
          unit: second
        shadow_mode: true
      - key: user
        value: user-b
        rate_limit:
          requests_per_unit: 20
          unit: second
",
    );
    for (user, requests, denied) in [("user-a", 10, false), ("user-b", 20, true)] {
        let descriptor = [("service", "auth-service"), ("user", user)];
        assert_eq!(limit(&descriptors, "services", &descriptor), Some((requests, Unit::Second)));
        let request: [&[(&str, &str)]; 1] = [&descriptor];
        assert_eq!(descriptors.request("services", &request).is_over_limit(|_| true), denied);
    }
}

#[test]
fn example_7_one_limit_replaces_another() {
    let descriptors = text(
        "
domain: replaced
descriptors:
  - key: key_1
    value: value_1
    descriptors:
      - key: user
        value: ada
        rate_limit:
          name: specific_limit
          requests_per_unit: 5
          unit: second
  - key: key_2
    value: value_2
    descriptors:
      - key: user
        value: ada
        rate_limit:
          replaces:
            - name: specific_limit
          requests_per_unit: 10
          unit: second
",
    );
    let first = [("key_1", "value_1"), ("user", "ada")];
    let second = [("key_2", "value_2"), ("user", "ada")];
    assert_eq!(limit(&descriptors, "replaced", &first), Some((5, Unit::Second)));
    assert_eq!(limit(&descriptors, "replaced", &second), Some((10, Unit::Second)));
    let both: [&[(&str, &str)]; 2] = [&first, &second];
    let both = descriptors.request("replaced", &both);
    let [Applied::Replaced(_), Applied::Limit(remaining)] = both.as_slice() else {
        panic!("{both:?}");
    };
    assert_eq!(remaining.limit().requests_per_unit(), 10);
    let alone: [&[(&str, &str)]; 1] = [&first];
    assert!(matches!(descriptors.request("replaced", &alone).as_slice(), [Applied::Limit(_)]));
}

#[test]
fn example_8_detailed_metric_adds_the_value() {
    let descriptors = text(
        "
domain: example8
descriptors:
  - key: key1
    detailed_metric: true
    rate_limit:
      unit: minute
      requests_per_unit: 10
  - key: key1
    value: value1
    rate_limit:
      unit: minute
      requests_per_unit: 20
",
    );
    for (value, requests) in [("unspecified", 10), ("unspecified2", 10), ("value1", 20)] {
        let descriptor = [("key1", value)];
        assert_eq!(limit(&descriptors, "example8", &descriptor), Some((requests, Unit::Minute)));
        assert_eq!(full_key(&descriptors, "example8", &descriptor), format!("example8.key1_{value}"));
    }
}

#[test]
fn example_9_wildcards() {
    let descriptors = text(
        "
domain: example9
descriptors:
  - {key: key1, value: value*, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: path, value: /api/*/action, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: route, value: /api/*/resource/*/action, rate_limit: {unit: minute, requests_per_unit: 20}}
",
    );
    for (key, value, matches) in [
        ("key1", "value1", true),
        ("key1", "value2", true),
        ("key1", "valueXYZ", true),
        ("key1", "value", true),
        ("key1", "valu", false),
        ("path", "/api/123/action", true),
        ("path", "/api/user-id/action", true),
        ("path", "/api/123/other", false),
        ("route", "/api/v1/resource/123/action", true),
        ("route", "/api/v2/resource/456/action", true),
        ("route", "/api/v2/456/resource/action", false),
    ] {
        let found = limit(&descriptors, "example9", &[(key, value)]);
        assert_eq!(found, matches.then_some((20, Unit::Minute)), "{key} {value}");
    }
}

#[test]
fn example_10_value_to_metric_adds_values_of_the_request() {
    let descriptors = text(
        "
domain: example10
descriptors:
  - key: route
    value_to_metric: true
    descriptors:
      - key: method
        value_to_metric: true
        descriptors:
          - key: subject
            rate_limit: {unit: minute, requests_per_unit: 60}
  - key: user
    value_to_metric: true
    descriptors:
      - key: action
        value: read*
        value_to_metric: true
        descriptors:
          - key: resource
            rate_limit: {unit: minute, requests_per_unit: 100}
",
    );
    for (descriptor, key) in [
        ([("route", "api"), ("method", "GET"), ("subject", "123")], "example10.route_api.method_GET.subject"),
        ([("route", "web"), ("method", "POST"), ("subject", "4")], "example10.route_web.method_POST.subject"),
        (
            [("user", "ada"), ("action", "readfile"), ("resource", "maps")],
            "example10.user_ada.action_readfile.resource",
        ),
    ] {
        assert_eq!(full_key(&descriptors, "example10", &descriptor), key);
    }
}

#[test]
fn example_11_values_of_a_wildcard_share_a_limit() {
    let descriptors = text(
        "
domain: example11
descriptors:
  - key: files
    value: files/*
    share_threshold: true
    rate_limit: {unit: hour, requests_per_unit: 10}
  - key: apart
    value: apart/*
    share_threshold: false
    rate_limit: {unit: hour, requests_per_unit: 10}
",
    );
    let key = |key: &str, value: &str| super::policies::key(&descriptors, "example11", &[(key, value)]);
    assert_eq!(key("files", "files/a.pdf"), key("files", "files/b.csv"));
    assert_ne!(key("apart", "apart/a.pdf"), key("apart", "apart/b.csv"));
    assert_eq!(warnings("{domain: d, descriptors: [{key: k, rate_limit: {unlimited: true}}]}"), "");
}
