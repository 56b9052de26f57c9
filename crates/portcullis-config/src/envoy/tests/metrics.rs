//! The keys for metrics in the published cases.

use super::{Entries, file, full_key, text};

const D: &str = "library";

#[test]
fn detailed_metric_of_the_last_descriptor_adds_all_values() {
    let descriptors = text(
        "
domain: d
descriptors:
  - key: a
    detailed_metric: true
    rate_limit: {unit: minute, requests_per_unit: 500}
  - key: a
    value: v
    rate_limit: {unit: minute, requests_per_unit: 500}
  - key: b
    detailed_metric: true
    rate_limit: {unit: minute, requests_per_unit: 5000}
    descriptors:
      - key: c
        value: w
        detailed_metric: true
        rate_limit: {unit: minute, requests_per_unit: 5}
      - key: p
        rate_limit: {unit: minute, requests_per_unit: 5}
",
    );
    let keys: [(&[(&str, &str)], &str); 6] = [
        (&[("a", "x")], "d.a_x"),
        (&[("a", "v")], "d.a_v"),
        (&[("b", "x")], "d.b_x"),
        (&[("b", "x"), ("c", "w")], "d.b_x.c_w"),
        (&[("b", "x"), ("p", "w")], "d.b.p"),
        (&[("a", "")], "d.a_"),
    ];
    for (descriptor, key) in keys {
        assert_eq!(full_key(&descriptors, "d", descriptor), key);
    }
}

#[test]
fn value_to_metric_adds_the_value_at_its_level() {
    let descriptors = text(
        "
domain: d
descriptors:
  - key: a
    value_to_metric: true
    descriptors:
      - key: b
        rate_limit: {unit: second, requests_per_unit: 1}
      - key: m
        value: GET
        value_to_metric: true
        descriptors: [{key: c, rate_limit: {unit: second, requests_per_unit: 1}}]
      - key: m
        value_to_metric: true
        descriptors:
          - {key: c, rate_limit: {unit: second, requests_per_unit: 1}}
          - {key: e, detailed_metric: true, rate_limit: {unit: second, requests_per_unit: 1}}
  - key: n
    descriptors:
      - key: b
        value_to_metric: true
        descriptors: [{key: c, rate_limit: {unit: second, requests_per_unit: 1}}]
",
    );
    let keys: [(&[(&str, &str)], &str); 7] = [
        (&[("a", "1"), ("b", "2")], "d.a_1.b"),
        (&[("a", "1"), ("m", "GET"), ("c", "2")], "d.a_1.m_GET.c"),
        (&[("a", "1"), ("m", "PUT"), ("c", "2")], "d.a_1.m_PUT.c"),
        (&[("a", ""), ("m", "PUT"), ("c", "2")], "d.a.m_PUT.c"),
        (&[("a", ""), ("m", ""), ("c", "2")], "d.a.m.c"),
        (&[("a", "1"), ("m", "PUT"), ("e", "2")], "d.a_1.m_PUT.e_2"),
        (&[("n", "1"), ("b", "2"), ("c", "3")], "d.n.b_2.c"),
    ];
    for (descriptor, key) in keys {
        assert_eq!(full_key(&descriptors, "d", descriptor), key);
    }
}

#[test]
fn shared_values_have_the_wildcard_in_their_key() {
    let descriptors = file("shared.yaml");
    let keys: [(Entries<'_>, u32, &str); 11] = [
        (&[("path", "/books/1")], 100, "library.path_/books/*"),
        (&[("path", "/books/2")], 100, "library.path_/books/*"),
        (&[("branch", "north"), ("path", "/maps/1")], 200, "library.branch_north.path_/maps/*"),
        (&[("path", "/rooms/1"), ("path", "/maps/1")], 300, "library.path_/rooms/*.path_/maps/*"),
        (&[("route", "api/v1"), ("method", "GET")], 60, "library.route_api/*.method"),
        (&[("service", "loans/a"), ("endpoint", "get")], 80, "library.service_loans/*.endpoint_get"),
        (
            &[("room", "room/1"), ("seat", "seat/2"), ("lamp", "3")],
            120,
            "library.room_room/*.seat_seat/*.lamp",
        ),
        (&[("file", "scan1")], 50, "library.file_scan1"),
        (&[("file", "scan2")], 100, "library.file_scan*"),
        (&[("file", "scan23")], 100, "library.file_scan*"),
        (&[("tenant", "t1prod"), ("resource", "a1b2c")], 60, "library.tenant_t*prod.resource_a*b*c"),
    ];
    for (descriptor, requests, key) in keys {
        assert_eq!(full_key(&descriptors, D, descriptor), key);
        let found = descriptors.limit(D, descriptor).expect("it has a limit");
        assert_eq!(found.limit().requests_per_unit(), requests);
    }
}

#[test]
fn wildcards_in_keys_match_key_and_value_together() {
    let descriptors =
        text("{domain: d, descriptors: [{key: pa*, rate_limit: {unit: day, requests_per_unit: 1}}]}");
    assert_eq!(full_key(&descriptors, "d", &[("path", "x")]), "d.path_pa*");
    assert!(descriptors.limit("d", &[("pet", "x")]).is_none());
}
