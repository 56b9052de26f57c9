//! What each door cannot do of rules.

use super::*;
use crate::rules::Door;

/// The refused fields, with the words of their places.
fn refused(rules: &Rules, door: Door) -> Vec<(String, String)> {
    let Err(findings) = rules.usable_by(door) else { return Vec::new() };
    let text = |one: &crate::Diagnostic| {
        let span = one.span.unwrap();
        findings.sources().get(span.file).unwrap().text[span.start..span.end].to_owned()
    };
    let errors = findings.iter().filter(|one| one.severity == crate::Severity::Error);
    errors.map(|one| (one.field.clone(), text(one))).collect()
}

fn with_program(text: &str) -> Rules {
    let loader = loader(text).extension::<u8>("account", |id, key| key.part("id", &[*id]));
    Rules::load(&loader).unwrap_or_else(|findings| panic!("{findings}"))
}

fn policy(more: &str) -> Rules {
    with_program(&format!("[policy.p]\nstrategy = \"gcra\"\nquota = \"5/s\"\n{more}\n"))
}

const OUTSIDE: [Door; 3] = [Door::Proxy, Door::Check, Door::Serve];

#[test]
fn rules_by_heads_are_for_every_door() {
    for more in [
        "key = \"client_ip\"\nwait = \"1s\"\ncost = { header = \"x-cost\", max = 5 }",
        "key = \"client_ip\"\ntiers = { pro = \"9/s\" }\ntier = { header = \"x-plan\" }",
        "key = [{ query = \"user\" }, \"client_ip\"]\nlock_out = { after = 5 }",
        "key = \"grpc_method\"\ndebt = 5\nwarn_at = 0.8\nrefund_unanswered = false",
        "key = { header = \"route\" }\n[policy.q]\nstrategy = \"gcra\"\nquota = \"9/s\"\nkey = \"client_ip\"",
    ] {
        for door in OUTSIDE {
            assert_eq!(refused(&policy(more), door), [], "{more}");
        }
    }
}

#[test]
fn each_door_names_what_it_lacks() {
    let by_address = |more: &str| format!("key = \"client_ip\"\n{more}");
    for (more, field, text, doors) in [
        (by_address("charge_when = { status = 401 }"), "charge_when", "{ status = 401 }", &OUTSIDE[1..]),
        (by_address("refund_unanswered = true"), "refund_unanswered", "true", &OUTSIDE[1..]),
        (by_address("in_flight = { limit = 2 }"), "in_flight", "{ limit = 2 }", &OUTSIDE[1..]),
        (by_address("reserve = \"used\"\ncost = 2"), "reserve", "\"used\"", &OUTSIDE[..]),
        (by_address("tiers = { pro = \"9/s\" }"), "tiers", "{ pro = \"9/s\" }", &OUTSIDE),
        (by_address("except = { route = \"/a/{b}\" }"), "except.route", "\"/a/{b}\"", &OUTSIDE),
        ("key = \"route\"".to_owned(), "key", "\"route\"", &OUTSIDE),
        ("key = { all = [\"client_ip\", \"route\"] }".to_owned(), "key", "\"route\"", &OUTSIDE),
        ("key = { extension = \"account\" }".to_owned(), "key", "{ extension = \"account\" }", &OUTSIDE),
        (
            "key = [{ all = [{ extension = \"account\" }, \"method\"] }, \"client_ip\"]".to_owned(),
            "key",
            "{ extension = \"account\" }",
            &OUTSIDE,
        ),
    ] {
        let rules = policy(&more);
        for door in [Door::Code, Door::Proxy, Door::Check, Door::Serve] {
            let expected = vec![(format!("policy.p.{field}"), text.to_owned())];
            let expected = if doors.contains(&door) { expected } else { Vec::new() };
            assert_eq!(refused(&rules, door), expected, "{door:?}: {more}");
        }
    }
}

#[test]
fn refusal_names_everything_at_once() {
    let rules = with_program(
        "[layer]\ndeny = [{ path = \"/a\" }, { route = \"/b\" }]\n\
         [policy.p]\nstrategy = \"gcra\"\nquota = \"5/s\"\nkey = \"route\"\n\
         charge_when = { status = 401 }\nlook_first = true\n\
         [policy.q]\nstrategy = \"in_flight\"\nlimit = 2\nkey = \"client_ip\"\n",
    );
    let fields = |door| refused(&rules, door).into_iter().map(|(field, _)| field).collect::<Vec<_>>();
    assert_eq!(fields(Door::Proxy), ["layer.deny.route", "policy.p.key"]);
    let all = [
        "layer.deny.route",
        "policy.p.key",
        "policy.p.charge_when",
        "policy.p.look_first",
        "policy.q.strategy",
    ];
    assert_eq!(fields(Door::Check), all);
    let text = rules.usable_by(Door::Serve).unwrap_err().to_string();
    assert!(
        text.contains(
            "`strategy` needs the end of each request, and Envoy shows only descriptors of the request"
        ) && text.contains("limits.toml:10:12: error: policy.q.strategy"),
        "{text}"
    );
}
