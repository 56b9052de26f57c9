//! Conditions on headers and on the query.

use std::net::SocketAddr;

use http::HeaderValue;

use super::{errors, loader, parts, rules};
use crate::{Door, Rules, Severity};

const ADDRESS: &str = "[policy.address]\nstrategy = \"gcra\"\nquota = \"9/s\"\nkey = \"client_ip\"\n";
const PROXIES: &str = "[client_ip]\nheader = \"x-forwarded-for\"\ntrusted_proxies = [\"10.0.0.0/8\"]\n";

fn policy(fields: &str) -> String {
    format!("[policy.p]\nstrategy = \"gcra\"\nquota = \"10/s burst 20\"\nkey = \"client_ip\"\n{fields}\n")
}

/// Whether `p` matches a request with these headers.
fn matches(rules: &Rules, uri: &str, headers: &[(&'static str, &[u8])]) -> bool {
    let mut parts = parts("GET", uri);
    for (name, value) in headers {
        parts.headers.append(*name, HeaderValue::from_bytes(value).unwrap());
    }
    parts.extensions.insert(SocketAddr::from(([10, 0, 0, 1], 1)));
    let matches = rules.matching(&parts).contains(0);
    assert_eq!(rules.explain(&parts)[0].matches(), matches);
    matches
}

#[test]
fn irregular_value_meets_what_restricts() {
    let long = vec![b'a'; 1_025];
    for condition in ["\"present\"", "\"absent\"", "{ equals = [\"pro\", \"max\"] }", "{ prefix = \"pro/\" }"]
    {
        let text = policy(&format!("match = {{ headers = {{ x-plan = {condition} }} }}")) + ADDRESS;
        let of_header = rules(&text);
        for headers in [
            &[("x-plan", &b"free"[..]), ("x-plan", b"free")][..],
            &[("x-plan", b"\xff")],
            &[("x-plan", b"")],
            &[("x-plan", &long)],
            &[("x_plan", b"free")],
        ] {
            assert!(matches(&of_header, "/", headers), "{condition} {headers:?}");
        }
        let of_query = rules(&text.replace("headers", "query"));
        for uri in
            ["/?x-plan=free&x-plan=free", "/?x-plan=%ff", "/?x-plan", "/?X-Plan=free", "/?a;x-plan=free"]
        {
            assert!(matches(&of_query, uri, &[]), "{condition} {uri}");
        }
        for (value, expected) in [
            (None, condition.contains("absent")),
            (Some("free"), condition.contains("present")),
            (Some("max"), condition.contains("present") || condition.contains("equals")),
            (Some("pro/7"), condition.contains("present") || condition.contains("prefix")),
        ] {
            let header = value.map(|value| ("x-plan", value.as_bytes()));
            assert_eq!(matches(&of_header, "/", header.as_slice()), expected, "{condition} {value:?}");
            let uri = value.map_or_else(|| "/".to_owned(), |value| format!("/?x-plan={value}"));
            assert_eq!(matches(&of_query, &uri, &[]), expected, "{condition} {uri}");
        }
    }
}

#[test]
fn all_values_have_to_hold_and_are_shown() {
    let text = policy(
        "match = { path = \"/a\", headers = { X-Plan = { equals = \"pro\" }, authorization = \"present\" }, query = { expand = \"present\" } }",
    );
    let rules = rules(&text);
    let both: &[(&str, &[u8])] = &[("x-plan", b"pro"), ("authorization", b"Bearer t")];
    assert!(matches(&rules, "/a?expand=x", both));
    assert!(!matches(&rules, "/a", both) && !matches(&rules, "/b?expand=x", both));
    assert!(!matches(&rules, "/a?expand=x", &both[..1]) && !matches(&rules, "/a?expand=x", &both[1..]));
    assert_eq!(
        rules.get("p").unwrap().matcher().to_string(),
        "path = \"/a\", headers.x-plan = { equals = [\"pro\"] }, headers.authorization = \"present\", query.expand = \"present\""
    );
    let mismatch = rules.explain(&parts("GET", "/a"));
    assert_eq!(mismatch[0].mismatch(), Some("headers.x-plan = { equals = [\"pro\"] }"));
    let read: Vec<_> = rules.headers_read().map(|(field, name)| format!("{field} {name}")).collect();
    assert_eq!(
        read,
        ["policy.p.match.headers.X-Plan x-plan", "policy.p.match.headers.authorization authorization"]
    );
}

#[test]
fn written_condition_relaxes_no_limit() {
    let relaxing = [
        ("match", "match = { path = \"/a\", headers = { authorization = \"absent\" } }"),
        ("match", "match = [{ path = \"/a\", query = { token = { present = false } } }]"),
        ("except", "except = { headers = { x-internal = \"present\" } }"),
        (
            "except",
            "except = [{ path = \"/a\" }, { path = \"/b\", query = { internal = { equals = \"1\" } } }]",
        ),
        ("cost", "cost = { when = { match = { headers = { x-token = \"absent\" } }, units = 5 } }"),
    ];
    for (field, fields) in relaxing {
        let found = errors(&policy(fields));
        assert!(
            found.contains(&format!("error: policy.p.{field}: a client that writes")),
            "{fields}\n{found}"
        );
        let shadow = ADDRESS.to_owned() + "mode = \"shadow\"\n";
        let narrower = ADDRESS.to_owned() + "match = { path = \"/a\", methods = [\"GET\"] }\n";
        let same = ADDRESS.to_owned()
            + "match = { headers = { authorization = \"absent\", x-token = \"absent\" } }\n";
        let exempt = ADDRESS.to_owned() + "except = { headers = { x-other = \"present\" } }\n";
        for other in [shadow, narrower, same, exempt] {
            let found = errors(&(policy(fields) + &other));
            assert!(found.contains(&format!("policy.p.{field}: a client that writes")), "{other}\n{found}");
        }
        assert_eq!(rules(&(policy(fields) + ADDRESS)).warnings().to_string(), "", "{fields}");
    }
    let of_path = ADDRESS.to_owned() + "match = { path = \"/{*rest}\" }\n";
    rules(&(policy(relaxing[0].1) + &of_path));
    for list in ["except", "only"] {
        let found = errors(&format!("[layer]\n{list} = {{ headers = {{ x-a = \"present\" }} }}\n{ADDRESS}"));
        assert!(
            found.contains(&format!("error: layer.{list}: a client writes the header or parameter")),
            "{found}"
        );
    }
    rules(&format!("[layer]\ndeny = {{ headers = {{ user-agent = \"absent\" }} }}\n{ADDRESS}"));
}

#[test]
fn written_condition_adds_limits_and_costs() {
    let adding = "match = { headers = { x-debug = \"present\" } }";
    let found = rules(&policy(adding)).warnings().to_string();
    assert!(
        found.contains("warning: policy.p.match: a client that does not write headers.x-debug = \"present\" is not limited"),
        "{found}"
    );
    assert_eq!(rules(&(policy(adding) + ADDRESS)).warnings().to_string(), "");
    let raising = "cost = { when = [{ match = { query = { expand = \"present\" } }, units = 5 }, { match = { path = \"/export\" }, units = 9 }] }";
    assert_eq!(rules(&policy(raising)).warnings().to_string(), "");
}

#[test]
fn trusted_condition_may_relax() {
    let fields = "match = { headers = { x-plan = { present = false, trusted = true } } }\n\
                  except = { headers = { x-internal = { equals = \"yes\", trusted = true } } }";
    let found = rules(&(PROXIES.to_owned() + &policy(fields)));
    assert!(found.warnings().iter().all(|one| one.severity == Severity::Note), "{}", found.warnings());
    let layer = "[layer]\nexcept = { headers = { x-internal = { present = true, trusted = true } } }\n";
    rules(&format!("{PROXIES}{layer}{ADDRESS}"));
    assert!(matches(&found, "/", &[]), "absent");
    assert!(!matches(&found, "/", &[("x-plan", b"pro")]));
}

#[test]
fn values_are_checked() {
    for (value, expected) in [
        (
            "\"yes\"",
            "headers.x-a: \"yes\" is not one of \"present\" or \"absent\" (help: write { equals = \"yes\" } for its value)",
        ),
        ("{}", "headers.x-a: the table has 0 conditions"),
        ("{ present = true, equals = \"a\" }", "headers.x-a: the table has 2 conditions"),
        ("{ equals = \"\" }", "headers.x-a.equals: a value that is empty"),
        ("{ equals = [] }", "headers.x-a.equals: the list is empty"),
        ("{ equal = \"a\" }", "headers.x-a.equal: unknown field \"equal\" (help: did you mean `equals`?)"),
        (
            "{ present = true, trusted = true }",
            "headers.x-a.trusted: no proxy is named, so that any client could write header x-a",
        ),
    ] {
        let found = errors(&(policy(&format!("match = {{ headers = {{ x-a = {value} }} }}")) + ADDRESS));
        assert!(found.contains(&format!("error: policy.p.match.{expected}")), "{found}");
    }
    let found = errors(&policy("match = { headers = { \"x a\" = \"present\" } }"));
    assert!(found.contains("\"x a\" is no name of a header"), "{found}");
    for trusted in ["true", "false"] {
        let query = format!("query = {{ a = {{ present = true, trusted = {trusted} }} }}");
        let found = errors(&policy(&format!("match = {{ {query} }}")));
        assert!(
            found.contains("query.a.trusted: a client writes it, so that it cannot be trusted"),
            "{found}"
        );
    }
    let found = errors(&policy("cost = { when = { match = { path = \"/a\" }, units = 0 } }"));
    assert!(found.contains("policy.p.cost.when.units: a cost of 0 relieves"), "{found}");
    let found = errors(&policy("cost = { max = 5, when = { match = { path = \"/a\" }, units = 2 } }"));
    assert!(found.contains("policy.p.cost.max: `max` and `when` are both given"), "{found}");
}

#[test]
fn headers_of_conditions_are_those_of_door() {
    let text = policy("match = { headers = { te = \"present\" } }") + ADDRESS;
    let found = Rules::load(&loader(&text).for_door(Door::Check)).unwrap_err().to_string();
    assert!(found.contains("policy.p.match.headers.te: header te is never seen here"), "{found}");
    let text =
        PROXIES.to_owned() + &policy("match = { headers = { x-plan = { present = true, trusted = true } } }");
    let found = Rules::load(&loader(&text).for_door(Door::Serve)).unwrap_err().to_string();
    assert!(
        found.contains("`trusted` needs the connection of a named proxy, and Envoy shows only descriptors"),
        "{found}"
    );
    Rules::load(&loader(&text).for_door(Door::Check).for_door(Door::Proxy)).unwrap();
}
