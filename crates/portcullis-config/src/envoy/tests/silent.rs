//! Warnings where a file loads and does not limit as it seems to.

use super::{file, limit, text, warnings};
use crate::envoy::Unit;

#[test]
fn published_files_warn_only_about_their_exemption() {
    let found = file("basic.yaml").warnings().to_string();
    assert_eq!(found.lines().count(), 1, "{found}");
    assert!(
        found.contains(
            "descriptors[3]: the descriptor `shelf_returned` has no `rate_limit` and no descriptors"
        ),
        "{found}"
    );
    for name in ["wildcards.yaml", "shadow.yaml", "metadata.yaml", "shared.yaml"] {
        assert_eq!(file(name).warnings().to_string(), "", "{name}");
    }
}

#[test]
fn descriptors_that_do_not_limit_have_a_warning() {
    let limited = "rate_limit: {unit: day, requests_per_unit: 1}";
    for (descriptors, expected) in [
        ("{key: k}", "the descriptor `k` has no `rate_limit` and no descriptors: it never limits"),
        ("{key: k, rate_limit: }", "an empty `rate_limit` is the same as none"),
        ("{key: k, descriptors: []}", "the descriptor `k` has no `rate_limit` and no descriptors"),
        (
            "{key: k, unit: day, requests_per_unit: 5}",
            "`unit` has no effect in a descriptor (help: it belongs in `rate_limit`)",
        ),
        ("{key: k, unlimited: true}", "`unlimited` has no effect in a descriptor"),
        (
            "{key: k, rate_limit: {unit: day, requests_per_unit: 1, shadow_mode: true}}",
            "`shadow_mode` has no effect in `rate_limit` (help: it belongs in a descriptor)",
        ),
        (
            "{key: k, rate_limit: {unit: day, requests_per_unit: 1, key: j}}",
            "`key` has no effect in `rate_limit`",
        ),
        (
            "{key: k, shadow_mode: true, descriptors: [{key: j, rate_limit: {unlimited: true}}]}",
            "`shadow_mode` has no effect without a `rate_limit` in the same descriptor",
        ),
        ("{key: k, quota_mode: true}", "`quota_mode` has no effect without"),
        ("{key: k, detailed_metric: true}", "`detailed_metric` has no effect without"),
        ("{key: k, rate_limit: {unlimited: true, requests_per_unit: 5}}", "5 requests per unit are ignored"),
        ("{key: k, rate_limit: {unlimited: true, unit: dya}}", "the unit `dya` is ignored"),
        (
            "{key: k, rate_limit: {unit: day}}",
            "without `requests_per_unit` the limit is 0: every request is denied",
        ),
        ("{key: k, rate_limit: {unit: day, requests_per_unit: 0100}}", "`0100` is read as the number 64"),
        ("{key: k, value: '', rate_limit: {unlimited: true}}", "an empty value is the same as none"),
        ("{key: k, value: null, rate_limit: {unlimited: true}}", "an empty value is the same as none"),
        (
            "{key: k*, rate_limit: {unlimited: true}}",
            "`*` in the key `k*` is a wildcard over the key and the value",
        ),
        (
            "{key: k, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: o*}]}}",
            "no limit of the domain `d` has the name `o*` (help: nothing is replaced",
        ),
        (
            "{key: k, rate_limit: {unlimited: true, replaces: [{name: x, unit: day}]}}",
            "`unit` has no effect in an entry of `replaces`",
        ),
    ] {
        let found = warnings(&format!("{{domain: d, descriptors: [{descriptors}]}}"));
        assert!(found.contains(expected), "{descriptors}\n{found}");
        assert!(found.lines().all(|line| line.contains(" warning: ")), "{found}");
    }
    let unreachable = "`k_ab*` never applies: the wildcard `k_a*` matches the same entries and precedes it";
    let earlier = format!(
        "{{domain: d, descriptors: [{{key: k, value: a*, {limited}}}, {{key: k, value: ab*, {limited}}}]}}"
    );
    assert!(warnings(&earlier).contains(unreachable));
    let any =
        format!("{{domain: d, descriptors: [{{key: k, {limited}}}, {{key: k, value: '*', {limited}}}]}}");
    assert!(warnings(&any).contains("descriptors[0]: `k` never applies: the wildcard `k_*`"));
    let specific = format!(
        "{{domain: d, descriptors: [{{key: k, value: ab*, {limited}}}, {{key: k, value: a*, {limited}}}]}}"
    );
    assert_eq!(warnings(&specific), "");
}

#[test]
fn values_that_limit_less_than_others_have_a_warning() {
    let found = warnings(
        "
domain: d
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 1}
    descriptors:
      - {key: path, rate_limit: {unit: day, requests_per_unit: 1}}
      - {key: host, value: a, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: user, value: ada, rate_limit: {unit: day, requests_per_unit: 1}, descriptors: [{key: host, rate_limit: {unlimited: true}}]}
  - {key: user, value: eve, descriptors: [{key: host, rate_limit: {unlimited: true}}, {key: path, rate_limit: {unlimited: true}}]}
",
    );
    let lines: Vec<_> = found.lines().collect();
    assert_eq!(lines.len(), 2, "{found}");
    assert!(
        lines[0]
            .contains("descriptors[1]: `user_ada` takes the place of `user`, and has no descriptor `path`"),
        "{found}"
    );
    assert!(
        lines[1].contains("descriptors[2]: `user_eve` takes the place of `user`, and has no `rate_limit`"),
        "{found}"
    );
}

#[test]
fn files_that_do_not_limit_have_a_warning() {
    assert!(warnings("domain: d\ndescriptors:\n").contains("the domain `d` has no descriptors in this file"));
    assert!(warnings("domain: d*\n").contains("`*` in the domain `d*` is taken literally"));
    let second = "domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true}}]\n---\ndomain: e\n";
    assert_eq!(
        warnings(second),
        "test.yaml:4:1: warning: only the first document of a file is read: this one limits nothing \
         (help: put it into a file of its own)"
    );
    assert!(
        warnings("{domain: d, unit: 5, descriptors: []}")
            .contains("`unit` has no effect in the top level of the file")
    );
}

#[test]
fn ignored_fields_are_checked_nevertheless() {
    for (ignored, expected) in [
        ("rate_limit: {unti: day}", "unknown field `unti`"),
        ("unit: 1.5", "the number `1.5` is not a whole number"),
        ("replaces: [x]", "the list has an element that is not a map"),
    ] {
        let found = super::mistakes(&format!("{{domain: d, {ignored}}}"));
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn warnings_are_there_beside_mistakes() {
    let found = super::mistakes("{domain: d, descriptors: [{key: k}, {kay: k}]}");
    assert!(found.contains(": warning: ") && found.contains(": error: "), "{found}");
}

#[test]
fn a_first_wildcard_wins_whatever_is_more_specific() {
    let descriptors = text(
        "
domain: d
descriptors:
  - {key: k, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: k, value: a*, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: k, value: '*b', rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: k, value: ab, rate_limit: {unit: day, requests_per_unit: 4}}
",
    );
    for (value, requests) in [("x", 1), ("", 1), ("acb", 2), ("cb", 3), ("ab", 4)] {
        assert_eq!(limit(&descriptors, "d", &[("k", value)]), Some((requests, Unit::Day)), "{value}");
    }
}
