//! What each door cannot do of rules.

use super::*;
use crate::door::Door;

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
        "key = [{ all = [\"path\", \"client_ip\"] }, \"host\"]\n\
         [policy.q]\nstrategy = \"gcra\"\nquota = \"9/s\"\nkey = \"client_ip\"",
        "key = { path = \"/a/{b}\" }\n[policy.q]\nstrategy = \"gcra\"\nquota = \"9/s\"\nkey = \"client_ip\"",
        "key = \"grpc_method\"\nwarn_at = 0.8\nreport = false\nrefund_unanswered = false\ndebt = 5",
        "key = { header = \"upgrade-insecure-requests\" }\non_missing = \"exempt\"\n\
         [policy.q]\nstrategy = \"gcra\"\nquota = \"9/s\"\nkey = \"client_ip\"",
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
        (by_address("reserve = \"used\"\ncost = 2"), "reserve", "\"used\"", &OUTSIDE[..2]),
        (by_address("report = true"), "report", "true", &OUTSIDE[..2]),
        (by_address("tiers = { pro = \"9/s\" }"), "tiers", "{ pro = \"9/s\" }", &OUTSIDE),
        (by_address("except = { route = \"/a/{b}\" }"), "except.route", "\"/a/{b}\"", &OUTSIDE),
        ("key = \"route\"".to_owned(), "key", "\"route\"", &OUTSIDE),
        ("key = { all = [\"client_ip\", \"route\"] }".to_owned(), "key", "\"route\"", &OUTSIDE),
        ("key = { extension = \"account\" }".to_owned(), "key", "\"account\"", &OUTSIDE),
        (
            "key = [{ all = [{ extension = \"account\" }, \"method\"] }, \"client_ip\"]".to_owned(),
            "key",
            "\"account\"",
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
#[cfg(feature = "usage")]
fn proxy_reserves_where_responses_state_their_usage() {
    let both = ["policy.p.reserve", "policy.p.usage"].as_slice();
    // Calls of Envoy commit what they reserve, and have no body to read.
    for (more, at_proxy, at_check, at_serve) in [
        ("usage = \"openai\"", &[][..], both, &both[1..]),
        ("usage = { pointer = \"/tokens\" }", &[], both, &both[1..]),
        ("", &both[..1], &both[..1], &[]),
    ] {
        let rules = policy(&format!("key = \"client_ip\"\nreserve = \"used\"\ncost = 2\n{more}"));
        for (door, expected) in [(Door::Proxy, at_proxy), (Door::Check, at_check), (Door::Serve, at_serve)] {
            let refused: Vec<_> = refused(&rules, door).into_iter().map(|(field, _)| field).collect();
            assert_eq!(refused, expected, "{door:?}: {more}");
        }
    }
    let rules = policy("key = \"client_ip\"\nreserve = \"used\"");
    let text = rules.usable_by(Door::Proxy).unwrap_err().to_string();
    assert!(text.contains("such as usage = \"openai\""), "{text}");
}

#[test]
fn refusal_names_everything_at_once() {
    let rules = with_program(
        "[layer]\ndeny = [{ path = \"/a\" }, { route = \"/b\" }]\n\
         [policy.p]\nstrategy = \"gcra\"\nquota = \"5/s\"\nkey = \"route\"\n\
         charge_when = { status = 401 }\ncharge_after = true\n\
         [policy.q]\nstrategy = \"in_flight\"\nlimit = 2\nkey = \"client_ip\"\n",
    );
    let fields = |door| refused(&rules, door).into_iter().map(|(field, _)| field).collect::<Vec<_>>();
    assert_eq!(fields(Door::Proxy), ["layer.deny.route", "policy.p.key"]);
    let all = [
        "layer.deny.route",
        "policy.p.key",
        "policy.p.charge_when",
        "policy.p.charge_after",
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

#[test]
fn layer_options_are_for_some_doors() {
    for (option, text, doors) in [
        ("show_generation = \"x-rules\"", "\"x-rules\"", &[Door::Serve][..]),
        ("with_charge = true", "", &[]),
        ("grpc_status = 14", "14", &[Door::Check, Door::Serve]),
        ("reject_as = \"problem\"", "", &[]),
        ("decision_in_response = true", "", &[]),
        ("limit_preflights = true\nspread_retries = \"1s\"\nheaders = \"ietf\"", "", &[]),
    ] {
        let rules = with_program(&format!("[layer]\n{option}\n{ADDRESS}"));
        for door in [Door::Code, Door::Proxy, Door::Check, Door::Serve] {
            let refused: Vec<_> = refused(&rules, door).into_iter().map(|(_, text)| text).collect();
            let expected = if doors.contains(&door) { vec![text] } else { vec![] };
            assert_eq!(refused, expected, "{door:?}: {option}");
        }
    }
}

#[test]
fn headers_of_connections_are_refused() {
    for (more, field, doors) in [
        ("cost = { header = \"Content-Length\", max = 9 }", "policy.p.cost.header", &[Door::Check][..]),
        ("tiers = { pro = \"9/s\" }\ntier = { header = \"te\" }", "policy.p.tier.header", &OUTSIDE[..2]),
        (
            "[policy.q]\nstrategy = \"gcra\"\nquota = \"5/s\"\nkey = [{ header = \"proxy-authorization\" }, \"client_ip\"]",
            "policy.q.key.header",
            &[Door::Proxy],
        ),
        (
            "[client_ip]\nheader = \"upgrade\"\ntrusted_proxies = [\"10.0.0.0/8\"]",
            "client_ip.header",
            &OUTSIDE[..2],
        ),
        ("[layer]\nshow_generation = \"x-rules\"", "layer.show_generation", &[Door::Serve]),
    ] {
        let rules = with_program(&format!("{ADDRESS}{more}\n"));
        for door in [Door::Code, Door::Proxy, Door::Check, Door::Serve] {
            let refused: Vec<_> = refused(&rules, door).into_iter().map(|(field, _)| field).collect();
            let expected = if doors.contains(&door) { vec![field] } else { vec![] };
            assert_eq!(refused, expected, "{door:?}: {more}");
        }
    }
}

#[test]
fn loader_refuses_with_all_other_mistakes() {
    let text = "[layer]\nshow_generation = \"x-rules\"\n[policy.p]\nstrategy = \"gcra\"\nquota = \"5/fortnight\"\n\
                key = { all = [\"route\", { extension = \"account\" }, \"route\"] }\n\
                cost = { header = \"content-length\", max = 9 }\n\
                [policy.q]\nstrategy = \"gcra\"\nquota = \"5/s\"\nkey = { lookup = \"owner\" }\n\
                caller_quotas = [\"1/s\", \"9/s\"]\nquota_lookup = \"plans\"\n\
                except = [{ function = \"staff\" }, { route = \"/a\" }]\nin_flight = { limit = 4 }\n";
    let load = |doors: &[Door]| {
        let loader = doors.iter().fold(loader(text), |loader, door| loader.for_door(*door));
        let findings = Rules::load(&loader).unwrap_err();
        let errors = findings.iter().filter(|one| one.severity == crate::Severity::Error);
        errors.map(|one| (findings.location(one).unwrap().line, one.field.clone())).collect::<Vec<_>>()
    };
    let all = [
        (2, "layer.show_generation"),
        (5, "policy.p.quota"),
        (6, "policy.p.key"),
        (6, "policy.p.key.all.extension"),
        (6, "policy.p.key"),
        (7, "policy.p.cost.header"),
        (11, "policy.q.key.lookup"),
        (13, "policy.q.quota_lookup"),
        (14, "policy.q.except.function"),
        (14, "policy.q.except.route"),
        (15, "policy.q.in_flight"),
    ];
    let all = all.map(|(line, field)| (line, field.to_owned()));
    assert_eq!(load(&[Door::Serve, Door::Check]), all);
    assert_eq!(load(&[Door::Check, Door::Serve]), all);
    let proxy: Vec<_> = all.into_iter().filter(|(line, _)| ![2, 7, 15].contains(line)).collect();
    assert_eq!(load(&[Door::Proxy]), proxy);
}

#[test]
fn refusal_of_name_asks_for_no_builder() {
    let text = format!("{ADDRESS}cost = {{ function = \"size\" }}\n");
    let findings = Rules::load(&loader(&text).for_door(Door::Proxy)).unwrap_err().to_string();
    assert_eq!(
        findings,
        "limits.toml:5:21: error: policy.p.cost.function: only a program has cost \"size\", and none is here (help: write what a \
         file can say by itself, or limit in the program)"
    );
}

const ADDRESS: &str = "[policy.p]\nstrategy = \"gcra\"\nquota = \"5/s\"\nkey = \"client_ip\"\n";
