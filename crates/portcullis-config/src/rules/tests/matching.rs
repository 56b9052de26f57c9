//! Which requests a rule applies to.

use std::fmt::Write as _;

use http::Request;
use http::header::HOST;

use super::{parts, rules};

fn matching(conditions: &str) -> crate::Rules {
    rules(&format!(
        "[policy.p]\nstrategy = \"gcra\"\nquota = \"1/s\"\nkey = \"global\"\nmatch = {conditions}"
    ))
}

#[track_caller]
fn assert_matches(conditions: &str, requests: &[(&str, bool)]) {
    let rules = matching(conditions);
    for (request, expected) in requests {
        let (method, uri) = request.split_once(' ').unwrap();
        let found = !rules.matching(&parts(method, uri)).is_empty();
        assert_eq!(found, *expected, "{request} under {conditions}");
        assert_eq!(rules.explain(&parts(method, uri))[0].matches(), found);
    }
}

#[test]
fn a_pattern_matches_whole_segments() {
    assert_matches(
        "{ path = \"/a/{id}/b\" }",
        &[
            ("GET /a/1/b", true),
            ("POST /a/1/b?q=1", true),
            ("GET /a/1/b/", true),
            ("GET /a/1", false),
            ("GET /a/1/bc", false),
            ("GET /a/1/b/c", false),
            ("GET /a/1/2/b", false),
            ("GET /A/1/b", true),
            ("GET /a//b", false),
        ],
    );
    assert_matches(
        "{ path = \"/a/{*rest}\" }",
        &[
            ("GET /a/1", true),
            ("GET /a/1/2", true),
            ("GET /a/", true),
            ("GET /a", false),
            ("GET /ab/1", false),
        ],
    );
    assert_matches("{ path = \"/\" }", &[("GET /", true), ("GET /a", false), ("GET //", true)]);
    assert_matches("{ path = \"/{*rest}\" }", &[("GET /", true), ("GET /a/b", true)]);
}

#[test]
fn get_includes_head() {
    assert_matches(
        "{ path = \"/a\", methods = [\"GET\"] }",
        &[("GET /a", true), ("HEAD /a", true), ("POST /a", false), ("get /a", true), ("Head /a", true)],
    );
    assert_matches("{ methods = \"HEAD\" }", &[("GET /a", false), ("HEAD /a", true)]);
    // A web socket over HTTP/2.
    let handshake = "CONNECT https://a.example/a";
    assert_matches("{ methods = \"GET\" }", &[("GET /a", true), ("HEAD /a", true), (handshake, true)]);
    assert_matches("{ methods = \"POST\" }", &[("HEAD /a", false), (handshake, false)]);
}

#[test]
fn hosts_are_compared_without_case_and_port() {
    let rules = matching("{ hosts = [\"API.example.com\", \"*.example.org\"] }");
    for (host, expected) in [
        ("api.example.com", true),
        ("Api.Example.COM:8443", true),
        ("api.example.com.", true),
        ("x.api.example.com", false),
        ("a.example.org", true),
        ("a.b.EXAMPLE.org:1", true),
        ("example.org", false),
        (".example.org", false),
        ("badexample.org", false),
    ] {
        let (by_header, ()) = Request::get("/").header(HOST, host).body(()).unwrap().into_parts();
        assert_eq!(!rules.matching(&by_header).is_empty(), expected, "{host}");
    }
    let found = |uri: &str| !rules.matching(&parts("GET", uri)).is_empty();
    assert!(found("http://API.example.com:80/") && !found("http://other.com/") && !found("/"));
}

#[test]
fn a_service_or_a_method_of_grpc_is_its_path() {
    assert_matches(
        "{ grpc = \"a.B/C\" }",
        &[("POST /a.B/C", true), ("POST /a.B/D", false), ("POST /a%2eB/C", true), ("POST /A.b/c", true)],
    );
    assert_matches(
        "{ grpc = \"a.B\" }",
        &[("POST /a.B/C", true), ("POST /a.B/D", true), ("POST /a.C/D", false)],
    );
}

#[test]
fn a_list_means_any_and_the_nearest_is_explained() {
    let conditions = "[{ path = \"/a\", methods = [\"POST\"] }, { path = \"/b\", hosts = [\"x.com\"] }]";
    assert_matches(
        conditions,
        &[("POST /a", true), ("GET /a", false), ("GET http://x.com/b", true), ("GET /b", false)],
    );
    let rules = matching(conditions);
    let mismatch = |method, uri| rules.explain(&parts(method, uri))[0].mismatch().map(ToOwned::to_owned);
    assert_eq!(mismatch("GET", "/b").as_deref(), Some("hosts = [\"x.com\"]"));
    assert_eq!(mismatch("DELETE", "/c").as_deref(), Some("path = \"/b\""));
    assert_eq!(mismatch("POST", "/a"), None);
    let shown = rules.get("p").unwrap().matcher().to_string();
    assert_eq!(shown, "path = \"/a\", methods = [\"POST\"]; or path = \"/b\", hosts = [\"x.com\"]");
}

#[test]
fn all_matching_rules_apply_in_order() {
    let mut text = String::new();
    for number in 0..70 {
        let _ = write!(
            text,
            "[policy.p{number}]\nstrategy = \"gcra\"\nquota = \"1/s\"\nkey = \"global\"\nmatch = {{ path = \"/{}\" }}\n",
            number % 35
        );
    }
    let rules = rules(&text);
    let set = rules.matching(&parts("GET", "/34"));
    assert_eq!(set.iter().collect::<Vec<_>>(), [34, 69]);
    let (registry, _) = super::registry();
    let layer = rules.layer(&registry, &set).unwrap().unwrap();
    assert_eq!(layer.policies().map(portcullis_core::PolicyName::as_str).collect::<Vec<_>>(), ["p34", "p69"]);
    assert!(rules.layer(&registry, &rules.matching(&parts("GET", "/none"))).unwrap().is_none());
}
