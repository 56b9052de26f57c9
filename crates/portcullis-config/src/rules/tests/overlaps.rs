//! More policies on one request than a decision may have.

use std::fmt::Write as _;

use super::{errors, rules};

fn policies(conditions: impl IntoIterator<Item = String>) -> String {
    let mut text = String::new();
    for (number, condition) in conditions.into_iter().enumerate() {
        let _ = writeln!(
            text,
            "[policy.p{number}]\nstrategy = \"gcra\"\nquota = \"1/s\"\nkey = \"global\"\nmatch = {condition}"
        );
    }
    text
}

#[test]
fn sixteen_policies_may_match_and_not_seventeen() {
    let same = |count: usize| policies((0..count).map(|_| "{ path = \"/a\" }".to_owned()));
    assert_eq!(rules(&same(16)).iter().len(), 16);
    let found = errors(&same(17));
    assert!(
        found.contains("policy.p16: 17 policies match a request for /a: one decision may have 16"),
        "{found}"
    );
}

#[test]
fn an_overlap_of_patterns_is_found_where_it_is() {
    let literal = (0..8).map(|_| "{ path = \"/a/{x}\", methods = [\"GET\"] }".to_owned());
    let wild = (0..8).map(|_| "{ path = \"/{x}/b\", hosts = [\"*.example.com\"] }".to_owned());
    let rest = "{ path = \"/{*rest}\", hosts = [\"api.example.com\"] }".to_owned();
    let text = policies(literal.clone().chain(wild.clone()).chain([rest]));
    let found = errors(&text);
    assert!(found.contains("17 policies match GET for /a/b of host api.example.com"), "{found}");
    for apart in [
        "{ path = \"/a/c\" }",
        "{ path = \"/a/b\", methods = [\"POST\"] }",
        "{ path = \"/a/b/{x}\" }",
        "{ path = \"/a/b\", hosts = [\"example.com\"] }",
    ] {
        rules(&policies(literal.clone().chain(wild.clone()).chain([apart.to_owned()])));
    }
}

#[test]
fn overlap_within_segments_is_found_where_it_is() {
    let begin = (0..8).map(|_| "{ path = \"/user-{id}\" }".to_owned());
    let end = (0..8).map(|_| "{ path = \"/{name}:follow\" }".to_owned());
    let all = || begin.clone().chain(end.clone());
    let both = errors(&policies(all().chain(["{ path = \"/user-a{x}d:follow\" }".to_owned()])));
    assert!(
        both.contains("17 policies match a request for /user-axd:follow: one decision may have 16"),
        "{both}"
    );
    let literal = errors(&policies(all().chain(["{ path = \"/user-7:follow\" }".to_owned()])));
    assert!(literal.contains("17 policies match a request for /user-7:follow: "), "{literal}");
    for apart in ["/group-{id}", "/{name}:block", "/user-"] {
        rules(&policies(all().chain([format!("{{ path = \"{apart}\" }}")])));
    }
}

#[test]
fn many_patterns_within_segments_are_checked_quickly() {
    rules(&policies((0..300).map(|number| format!("{{ path = \"/v1/{{id}}:verb{number}\" }}"))));
}

#[test]
fn many_patterns_apart_are_checked_quickly() {
    rules(&policies(
        (0..500)
            .map(|number| format!("[{{ path = \"/p{number}/{{id}}\" }}, {{ path = \"/{{x}}/q{number}\" }}]")),
    ));
}

#[test]
fn too_much_work_in_one_decision_is_an_error() {
    let window = |name: &str| {
        format!(
            "[policy.{name}]\nstrategy = \"sliding_window\"\nquota = \"1000/min\"\nslots = 1000\nkey = \"global\"\n"
        )
    };
    let found = errors(&(window("a") + &window("b")));
    assert!(
        found.contains("policy.b: the policies that match a request for / are too much work: 2"),
        "{found}"
    );
}
