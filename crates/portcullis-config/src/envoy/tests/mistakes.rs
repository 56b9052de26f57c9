//! The cases of the published test files that Envoy's service refuses, and others that it refuses.

use super::{Descriptors, mistakes};

/// One descriptor with these fields in its limit.
fn limited(fields: &str) -> String {
    format!("{{domain: d, descriptors: [{{key: k, rate_limit: {{{fields}}}}}]}}")
}

#[test]
fn misspelt_field_is_one_finding() {
    for name in ["ratelimit", "rate-limit", "Rate_Limit", "desciptors"] {
        let text = format!(
            "domain: d\ndescriptors:\n  - key: k\n    shadow_mode: true\n    {name}:\n      unit: day\n"
        );
        assert_eq!(mistakes(&text).lines().count(), 1, "{}", mistakes(&text));
    }
}

#[test]
fn each_mistake_has_place_field_value_and_help() {
    for (text, expected) in [
        (
            "domain: d\ndescriptors:\n  - key: k\n    rate_limit:\n      unit: foo\n      requests_per_unit: 5\n",
            "test.yaml:5:13: error: descriptors[0].rate_limit.unit: invalid unit `foo` \
             (help: use one of: second, minute, hour, day, week, month, year)",
        ),
        ("'''\n", "test.yaml:1:1: error: this is not valid YAML: "),
        ("descriptors:\n", "test.yaml:1:1: error: domain: the file has no domain (help: add `domain: name`"),
        ("domain: ''\n", "test.yaml:1:9: error: domain: the file has no domain"),
        ("", "test.yaml:1:1: error: domain: the file has no domain"),
        (
            "domain: d\ndescriptors:\n  - value: v\n",
            "test.yaml:3:5: error: descriptors[0].key: the descriptor has no key (help: add `key: name`)",
        ),
        (
            "domain: d\ndescriptors:\n  - key: ''\n",
            "test.yaml:3:10: error: descriptors[0].key: the descriptor has no key",
        ),
        (
            "domain: d\ndescriptors:\n  - key: k\n    value: v\n  - key: k\n    value: v\n",
            "test.yaml:5:10: error: descriptors[1].key: the descriptor `k_v` is there twice",
        ),
        (
            "domain: d\ndescriptors:\n  - key: k\n    ratelimit:\n      unit: day\n",
            "test.yaml:4:5: error: descriptors[0].ratelimit: unknown field `ratelimit` (help: did you mean `rate_limit`?)",
        ),
        (
            "domain: d\ndescriptors:\n  - key: k\n    rate_limit:\n      unit: day\n      requestsperunit: 5\n",
            "test.yaml:6:7: error: descriptors[0].rate_limit.requestsperunit: unknown field `requestsperunit` \
             (help: did you mean `requests_per_unit`?)",
        ),
        ("0.25: d\n", "test.yaml:1:1: error: the name of a field is not a text: the number `0.25`"),
        ("yes: d\n", "test.yaml:1:1: error: the name of a field is not a text: the truth value `yes`"),
        (
            "domain: d\ndescriptors:\n  - a\n",
            "test.yaml:3:5: error: descriptors[0]: the list has an element that is not a map: the text `a`",
        ),
        (
            "domain: d\ndescriptors:\n  - key: k\n    rate_limit:\n      name: me\n      replaces:\n        - name: me\n",
            "test.yaml:7:17: error: descriptors[0].rate_limit.replaces: the limit `me` replaces itself",
        ),
        (
            "domain: d\ndescriptors:\n  - key: k\n    rate_limit:\n      unit: day\n      replaces:\n        - name:\n",
            "error: descriptors[0].rate_limit.replaces[0].name: an entry of `replaces` has no name",
        ),
        (
            "domain: d\ndescriptors:\n  - key: k\n    rate_limit:\n      unlimited: true\n      unit: day\n",
            "test.yaml:6:13: error: descriptors[0].rate_limit.unit: an unlimited `rate_limit` has no unit, but this one has `day`",
        ),
        (
            "domain: d\ndescriptors:\n  - key: k\n    share_threshold: true\n    value: v\n",
            "test.yaml:4:5: error: descriptors[0].share_threshold: `share_threshold` needs a wildcard, and `k_v` has none",
        ),
        (
            "domain: 1.5\n",
            "test.yaml:1:9: error: domain: the number `1.5` is not a whole number of 64 bits (help: put it in quotes",
        ),
        ("- domain: d\n", "test.yaml:1:1: error: expected the fields of a domain, found a list"),
        (
            "domain: d\ndescriptors: x\n",
            "test.yaml:2:14: error: descriptors: expected a list, found the text `x`",
        ),
        (
            "domain: d\ndescriptors:\n- key: k\n  metadata: 5\n",
            "test.yaml:4:13: error: descriptors[0].metadata: metadata are a map",
        ),
        (
            "domain: d\ndescriptors:\n- {key: [a]}\n",
            "test.yaml:3:9: error: descriptors[0].key: expected a text, found a list",
        ),
        ("domain: d\ndomain: d\n", "test.yaml:2:1: error: this is not valid YAML: duplicated key in mapping"),
        ("<<: 5\n", "test.yaml:1:5: error: <<: a merge key takes a map, or a list of maps"),
    ] {
        let found = mistakes(text);
        assert!(found.contains(expected), "{text}\n{found}");
    }
}

#[test]
fn limits_need_a_unit_and_a_whole_number() {
    for (fields, expected) in [
        ("requests_per_unit: 5", "rate_limit.unit: the limit has no unit"),
        ("unit: seconds, requests_per_unit: 5", "invalid unit `seconds`"),
        ("unit: unknown, requests_per_unit: 5", "invalid unit `unknown`"),
        ("unit: 5, requests_per_unit: 5", "invalid unit `5`"),
        ("unit: day, requests_per_unit: -1", "expected a number of requests, found the number `-1`"),
        ("unit: day, requests_per_unit: 4294967296", "found the number `4294967296`"),
        ("unit: day, requests_per_unit: 1.5", "found the number `1.5`"),
        ("unit: day, requests_per_unit: 1e3", "found the number `1e3`"),
        ("unit: day, requests_per_unit: '5'", "found the text `5`"),
        ("unit: day, requests_per_unit: yes", "found the truth value `yes`"),
        ("unlimited: 'true'", "rate_limit.unlimited: expected `true` or `false`, found the text `true`"),
    ] {
        let found = mistakes(&limited(fields));
        assert!(found.contains(expected), "{fields}\n{found}");
    }
    assert!(
        mistakes("{domain: d, descriptors: [{key: k, rate_limit: {}}]}").contains("the limit has no unit")
    );
    assert!(
        mistakes("{domain: d, descriptors: [{key: k, rate_limit: 5}]}")
            .contains("expected the fields of a limit")
    );
}

#[test]
fn all_mistakes_of_all_files_are_reported() {
    let files = [
        (
            "a.yaml",
            "domain: d\ndescriptors:\n- {kay: k}\n- {key: k, rate_limit: {unit: x, requests_per_unit: y}}\n",
        ),
        ("b.yaml", "domain: d\n"),
        ("c.yaml", "domain: [\n"),
    ];
    let found = Descriptors::parse(&files).unwrap_err();
    let errors: Vec<_> = found.iter().filter(|one| one.severity == crate::Severity::Error).collect();
    let fields: Vec<_> = errors.iter().map(|one| one.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "descriptors[0].key",
            "descriptors[0].kay",
            "descriptors[1].rate_limit.unit",
            "descriptors[1].rate_limit.requests_per_unit",
            "domain",
            ""
        ],
        "{found}"
    );
    assert!(errors.iter().all(|one| one.help.is_some()));
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let missing = super::path("missing.yaml");
    let found = Descriptors::from_files(&[&missing]).unwrap_err().to_string();
    assert!(found.contains("missing.yaml cannot be read: "), "{found}");
    let folder = Descriptors::from_files(&[super::path("")]).unwrap_err().to_string();
    assert!(folder.contains("cannot be read: "), "{folder}");
}
