//! The cases of the published test files of Envoy's service that load.

use super::{Entries, file, full_key, limit, path};
use crate::envoy::{Loader, MetadataValue, Unit};

const D: &str = "library";

#[test]
fn basic_files_match_by_level_value_and_key() {
    let descriptors = file("basic.yaml");
    let nothing: [&[(&str, &str)]; 7] = [
        &[],
        &[("branch", "south")],
        &[("branch", "north")],
        &[("shelf", "novels"), ("row", "1")],
        &[("desk", "front"), ("clerk", "eve")],
        &[("shelf", "returned")],
        &[("unknown", "")],
    ];
    for descriptor in nothing {
        assert_eq!(limit(&descriptors, D, descriptor), None, "{descriptor:?}");
    }
    assert!(descriptors.limit("bakery", &[]).is_none());
    assert!(descriptors.has_domain(D) && !descriptors.has_domain("bakery"));

    let limits: [(Entries<'_>, u32, Unit, &str); 8] = [
        (&[("branch", "north"), ("reader", "ada")], 5, Unit::Second, "library.branch_north.reader"),
        (
            &[("branch", "north"), ("reader", "teacher")],
            10,
            Unit::Second,
            "library.branch_north.reader_teacher",
        ),
        (&[("shelf", "maps")], 20, Unit::Minute, "library.shelf"),
        (&[("shelf", "novels")], 30, Unit::Minute, "library.shelf_novels"),
        (&[("catalogue", "x")], 1, Unit::Hour, "library.catalogue"),
        (&[("renewal", "x")], 1, Unit::Day, "library.renewal"),
        (&[("desk", "front"), ("clerk", "ada")], 25, Unit::Day, "library.desk_front.clerk_ada"),
        (&[("printer", "any")], 70, Unit::Minute, "library.printer_any"),
    ];
    for (descriptor, requests, unit, key) in limits {
        assert_eq!(limit(&descriptors, D, descriptor), Some((requests, unit)));
        assert_eq!(full_key(&descriptors, D, descriptor), key);
    }
    let renewal = descriptors.limit(D, &[("renewal", "x")]).expect("it has a limit");
    assert_eq!(renewal.limit().name(), Some("renewals"));
    let catalogue = descriptors.limit(D, &[("catalogue", "x")]).expect("it has a limit");
    assert_eq!(catalogue.limit().name(), None);
    let staff = descriptors.limit(D, &[("staff", "ada")]).expect("it has a limit");
    assert!(staff.limit().is_unlimited());
    assert_eq!((staff.limit().unit(), staff.full_key().as_str()), (None, "library.staff"));
}

#[test]
fn domains_are_merged_on_request() {
    let (first, second) = (path("merged_1.yaml"), path("merged_2.yaml"));
    let merge = Loader::new().merge_domains(true);
    let descriptors = merge.load_files(&[&first, &second]).expect("the domains are merged");
    assert_eq!(limit(&descriptors, D, &[("shelf", "novels")]), Some((10, Unit::Minute)));
    assert_eq!(limit(&descriptors, D, &[("shelf", "poems")]), Some((20, Unit::Minute)));

    let refused = Loader::new().load_files(&[&first, &second]).expect_err("the domain is in both");
    assert!(
        refused
            .to_string()
            .contains("merged_2.yaml:1:9: error: domain: the domain `library` is in another file")
    );
    let twice = merge.load_files(&[&first, &first]).expect_err("the descriptor is in both");
    assert!(twice.to_string().contains("descriptors[0].key: the descriptor `shelf_novels` is there twice"));
}

#[test]
fn shadow_mode_is_of_one_descriptor() {
    let descriptors = file("shadow.yaml");
    let shadow = |descriptor: &[(&str, &str)]| {
        descriptors
            .limit(D, descriptor)
            .map(|found| (found.limit().requests_per_unit(), found.limit().shadow_mode()))
    };
    assert_eq!(shadow(&[("branch", "north"), ("reader", "ada")]), Some((5, false)));
    assert_eq!(shadow(&[("branch", "north"), ("reader", "teacher")]), Some((10, true)));
    assert_eq!(shadow(&[("shelf", "maps")]), Some((20, true)));
    assert_eq!(shadow(&[("shelf", "novels")]), Some((30, false)));
}

#[test]
fn wildcards_match_at_any_place() {
    let descriptors = file("wildcards.yaml");
    let key = |key: &str, value: &str| {
        let descriptor = [(key, value)];
        descriptors.limit(D, &descriptor).map(|found| found.full_key())
    };
    assert_eq!(key("any", "1").as_deref(), Some("library.any"));
    assert_eq!(key("path", "/books/1").as_deref(), Some("library.path_/books/*"));
    assert_eq!(key("path", "/books/2"), key("path", "/books/1"));
    assert_eq!(key("path", "/book"), None);
    assert_eq!(key("exact", "book").as_deref(), Some("library.exact_book"));
    assert_eq!(key("exact", "book1"), None);
    for (value, matches) in [
        ("newbook", true),
        ("new123ok", true),
        ("newok", true),
        ("newbooks", false),
        ("renewok", false),
        ("neok", false),
    ] {
        assert_eq!(key("middle", value), matches.then(|| "library.middle_new*ok".to_owned()), "{value}");
    }
    for (value, matches) in [
        ("a1b2c", true),
        ("abc", true),
        ("abbc", true),
        ("ac", false),
        ("b1c", false),
        ("a1c1b", false),
        ("acb", false),
    ] {
        assert_eq!(key("several", value), matches.then(|| "library.several_a*b*c".to_owned()), "{value}");
    }
    let nested = [("branch", "north"), ("path", "/maps/2")];
    assert_eq!(full_key(&descriptors, D, &nested), "library.branch_north.path_/maps/*");
}

#[test]
fn the_parts_of_a_wildcard_do_not_overlap() {
    let descriptors =
        super::text("{domain: d, descriptors: [{key: k, value: ab*ba, rate_limit: {unit: day}}]}");
    assert!(descriptors.limit("d", &[("k", "aba")]).is_none());
    assert!(descriptors.limit("d", &[("k", "abba")]).is_some());
}

#[test]
fn metadata_belong_to_their_limit() {
    let descriptors = file("metadata.yaml");
    let text = |text: &str| MetadataValue::Text(text.to_owned());
    let reader = descriptors.limit(D, &[("branch", "north"), ("reader", "ada")]).expect("it has a limit");
    assert_eq!(reader.limit().metadata(), &[("desk".to_owned(), text("front"))]);
    let teacher =
        descriptors.limit(D, &[("branch", "north"), ("reader", "teacher")]).expect("it has a limit");
    assert!(teacher.limit().metadata().is_empty());
    let shelf = descriptors.limit(D, &[("shelf", "maps")]).expect("it has a limit");
    let weights = vec![MetadataValue::Number(0.5), MetadataValue::Bool(true), MetadataValue::Null];
    let quota = vec![
        ("room".to_owned(), text("reading")),
        ("seats".to_owned(), MetadataValue::Number(12.0)),
        ("weights".to_owned(), MetadataValue::List(weights)),
    ];
    assert_eq!(shelf.limit().metadata(), &[("quota".to_owned(), MetadataValue::Map(quota))]);
}

#[test]
fn quotas_deny_only_if_all_are_used_up() {
    let descriptors = super::text(
        "
domain: d
descriptors:
  - {key: a, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: b, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: c, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: s, quota_mode: true, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 4}}
",
    );
    let request: [&[(&str, &str)]; 4] = [&[("a", "")], &[("b", "")], &[("c", "")], &[("unknown", "")]];
    let over = |count: usize, over: &[usize]| {
        descriptors.request("d", &request[..count]).is_over_limit(|index| over.contains(&index))
    };
    assert!(over(1, &[0]));
    assert!(!over(2, &[0]));
    assert!(!over(2, &[1]));
    assert!(over(2, &[0, 1]));
    assert!(!over(4, &[0]));
    assert!(over(4, &[2]));
    assert!(over(4, &[0, 1]));
    // A quota that is only observed has not failed.
    let shadow: [&[(&str, &str)]; 2] = [&[("a", "")], &[("s", "")]];
    assert!(!descriptors.request("d", &shadow).is_over_limit(|_| true));
}

#[test]
fn replacing_ignores_order_and_chains() {
    let descriptors = super::text(
        "
domain: d
descriptors:
  - {key: a, rate_limit: {unit: day, requests_per_unit: 1, name: a}}
  - {key: b, rate_limit: {unit: day, requests_per_unit: 1, name: b, replaces: [{name: a}]}}
  - {key: c, rate_limit: {unlimited: true, name: c, replaces: [{name: b}]}}
  - {key: e, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: c}]}}
",
    );
    let applied = |keys: &[&str]| -> String {
        let entries: Vec<_> = keys.iter().map(|key| [(*key, "x")]).collect();
        let request: Vec<&[(&str, &str)]> = entries.iter().map(|entry| &entry[..]).collect();
        let limits = descriptors.request("d", &request);
        limits.as_slice().iter().map(|applied| format!("{applied:?}").chars().next().unwrap_or(' ')).collect()
    };
    assert_eq!(applied(&["a"]), "L");
    assert_eq!(applied(&["b", "a"]), "LR");
    assert_eq!(applied(&["a", "b"]), "RL");
    // A replaced limit replaces, an unlimited one as well, and it is not replaced itself.
    assert_eq!(applied(&["a", "b", "c"]), "RRU");
    assert_eq!(applied(&["c", "e"]), "UL");
}
