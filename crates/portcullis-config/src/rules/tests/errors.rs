//! Mistakes, each at its field.

use super::{errors, rules};

/// A policy with one more field.
fn with(fields: &str) -> String {
    format!("[policy.p]\nstrategy = \"gcra\"\nquota = \"10/s burst 20\"\nkey = \"client_ip\"\n{fields}\n")
}

#[track_caller]
pub(super) fn assert_errors(text: &str, expected: &str) {
    let found = errors(text);
    assert!(found.contains(expected), "{expected:?} is not in\n{found}");
}

#[track_caller]
pub(super) fn assert_warns(text: &str, expected: &str) {
    let found = rules(text).warnings().to_string();
    assert!(found.contains(expected), "{expected:?} is not in\n{found}");
}

#[test]
fn what_builders_refuse_is_an_error_at_its_field() {
    for (fields, expected) in [
        ("lease = 1000", "limits.toml:5:9: error: policy.p.lease: "),
        ("warn_at = 1.5", "limits.toml:5:11: error: policy.p.warn_at: a policy cannot warn at 1.5"),
        (
            "until = \"headers\"",
            "limits.toml:5:9: error: policy.p.until: policy p does not limit requests in flight",
        ),
        (
            "reserve = \"used\"\ncharge_after = true",
            "error: policy.p.charge_after: policy p reserves units and is charged after the response",
        ),
        (
            "match = \"/search\"",
            "error: policy.p.match: expected a table, not a text: \"/search\" (help: write { path = \"/search\" })",
        ),
        ("lock_out = { after = 0 }", "error: policy.p.lock_out.after: a lock-out after 0 denials"),
        (
            "on_missing = \"shared\"\nlock_out = { after = 3 }",
            "error: policy.p.lock_out: policy p cannot lock out keys",
        ),
        ("wait = \"3days\"", "error: policy.p.wait: "),
        ("on_store_failure = { local = 0 }", "error: policy.p.on_store_failure"),
        ("cost = { method = { post = 5 } }", "error: policy.p.cost.method.post: methods are case-sensitive"),
        (
            "cost = { method = { POST = 5 }, path = { \"/a\" = 2 } }",
            "error: policy.p.cost: the table is no cost",
        ),
        ("reject_with = { status = 401 }", "error: policy.p.reject_with.status: the status 401 does not fit"),
        ("reject_with = { status = 200 }", "error: policy.p.reject_with.status: the status 200 does not fit"),
        ("reject_with = { content_type = \"text/html\" }", "error: policy.p.reject_with: there is no `body`"),
        (
            "reject_with = { function = \"page\", status = 503 }",
            "error: policy.p.reject_with.status: `function` and `status` are both given",
        ),
        ("tiers = { pro = \"10/min\" }", "error: policy.p.tiers.pro: callers cannot have 10/min"),
        (
            "tiers = { pro = \"10/min\" }",
            "write a second policy for the other period, and in each make the callers",
        ),
        ("caller_quotas = [\"11/s\", \"20/s\"]", "error: policy.p.caller_quotas: "),
        ("in_flight = { limit = 0 }", "error: policy.p.in_flight.limit: "),
        ("in_flight = { limit = 1, lease = \"1ms\" }", "error: policy.p.in_flight.lease: "),
        ("mode = \"shdow\"", "error: policy.p.mode: unknown mode \"shdow\" (help: did you mean \"shadow\"?)"),
        ("mode = \"shadow 101%\"", "error: policy.p.mode: shadow 101% is no share of the keys"),
        ("mode = { percent = 101 }", "error: policy.p.mode.percent: 101 percent is no share of the keys"),
        (
            "match = { path = \"search\" }",
            "error: policy.p.match.path: \"search\" does not begin with a slash",
        ),
        ("match = { path = \"/a/*rest\" }", "\"*rest\" is no segment"),
        ("match = { path = \"/a/\" }", "ends with a slash"),
        ("match = { methods = [\"get\"] }", "error: policy.p.match.methods: methods are case-sensitive"),
        ("match = { hosts = [\"a:80\"] }", "error: policy.p.match.hosts: \"a:80\" is no host"),
        ("match = { grpc = \"/a\" }", "error: policy.p.match.grpc: \"/a\" is neither"),
        ("cost = { header = \"x\" }", "error: policy.p.cost: `max` is missing"),
        ("charge_when = { status = 99 }", "error: policy.p.charge_when.status: 99 is no status"),
        (
            "quota_lookup = \"plans\"",
            "policy.p.quota_lookup: no look-up of quotas \"plans\" is registered (help: register it in the program",
        ),
        (
            "tiers = { pro = \"9/s\" }\nquota_lookup = \"plans\"",
            "policy.p.quota_lookup: `tiers` and `quota_lookup` are both given",
        ),
        ("charge_after = 1025", "policy.p.charge_after: a policy cannot wait for 1025 responses of a key"),
        ("charge_after = -1", "policy.p.charge_after: "),
        ("charge_after = 2.5", "policy.p.charge_after: "),
        ("charge_after = \"20\"", "policy.p.charge_after: expected true, false or a number of requests"),
        ("quoto = 1", "error: policy.p.quoto: unknown field"),
        ("except = [{ path = \"/a/{b}\" }]", "error: policy.p.except.path: "),
    ] {
        assert_errors(&with(fields), expected);
    }
    let in_flight = "[policy.p]\nstrategy = \"in_flight\"\nlimit = 4\nkey = \"client_ip\"\n";
    assert_errors(
        &format!("{in_flight}refund_unanswered = true"),
        "policy.p.refund_unanswered: policy p limits requests in flight",
    );
    assert_errors(
        &format!("{in_flight}in_flight = {{ limit = 1 }}"),
        "policy.p.in_flight: the policy limits requests in flight already",
    );
}

#[test]
fn options_of_the_layer_are_checked() {
    for (options, expected) in [
        ("headers = \"ietff\"", "layer.headers: unknown headers \"ietff\" (help: did you mean \"ietf\"?)"),
        ("spread_retries = \"2h\"", "layer.spread_retries: retries cannot be spread over 7200s"),
        ("reject_as = \"html\"", "layer.reject_as: \"html\" is not one of"),
        (
            "grpc_status = 0",
            "layer.grpc_status: 0 is no status of a failed call of gRPC (help: write 1 to 16",
        ),
        ("deny = [{}]", "layer.deny: the table names no requests"),
        (
            "except = [{ network = \"10.0.0.1/8\" }]",
            "layer.except.network: 10.0.0.1/8 has bits outside of its prefix",
        ),
        (
            "except = [{ network = [\"10.0.0.1/8\", \"office\"] }]",
            "layer.except.network: \"office\" is neither an address nor a network",
        ),
    ] {
        assert_errors(&format!("[layer]\n{options}\n{}", with("")), expected);
    }
    for (table, expected) in [
        ("header = \"x-forwarded-for\"", "client_ip.header: no proxy is trusted"),
        ("trusted_proxies = [\"10.0.0.0/8\"]", "client_ip: `header` is missing"),
        ("header = \"a b\"\nhops = 1", "client_ip.header: \"a b\": "),
        ("or_peer = true", "client_ip.or_peer: no header is named, so that the peer is the client anyway"),
        (
            "header = \"forwarded\"\nhops = 1\nor_peer = false",
            "client_ip.or_peer: forwarded is a list: where a proxy sends none, the proxy is the client",
        ),
        ("ipv6_prefix = 129", "client_ip.ipv6_prefix: a prefix of 129 bits"),
    ] {
        assert_errors(&format!("[client_ip]\n{table}\n{}", with("")), expected);
    }
}

#[test]
fn keys_are_checked() {
    let key = |key: &str| with("").replace("\"client_ip\"", key);
    assert_errors(
        &key("\"clientip\""),
        "policy.p.key: unknown key \"clientip\" (help: did you mean \"client_ip\"?)",
    );
    assert_errors(&key("{}"), "policy.p.key: the table names 0 sources of a key");
    assert_errors(
        &key("{ extension = \"user\" }"),
        "policy.p.key.extension: no extension \"user\" is registered",
    );
    assert_errors(
        &key("[{ lookup = \"user\" }, \"peer\"]"),
        "policy.p.key.lookup: a look-up cannot be combined",
    );
    assert_errors(&key("[]"), "policy.p.key: the list is empty");
    assert_errors(
        &key("{ path = \"channels\" }"),
        "policy.p.key.path: \"channels\" does not begin with a slash",
    );
    assert_errors(
        &key("{ path = \"/channels\" }"),
        "policy.p.key.path: \"/channels\" names no segment (help: write {name} in place of the segment; key = \"path\" is the whole path)",
    );
    assert_errors(
        &key("{ path = \"/channels/{channel}\", segment = \"chanel\" }"),
        "policy.p.key.segment: \"/channels/{channel}\" has no segment \"chanel\" (help: did you mean \"channel\"?)",
    );
    assert_errors(&key("{ segment = \"channel\" }"), "policy.p.key: `segment` is one of a path");
    for unverified in ["\"path\"", "\"host\"", "{ path = \"/a/{b}\" }"] {
        assert_errors(&key(unverified), "policy.p.key: nothing verifies the key");
    }
    assert_warns(
        &key("[{ header = \"host\" }, \"client_ip\"]"),
        "policy.p.key.header: over HTTP/2 requests have no header host, and its spellings are several keys (help: write key = \"host\")",
    );
    assert_errors("[policy.p]\nstrategy = \"gcra\"\nquota = \"1/s\"", "policy.p: `key` is missing");
    assert_warns(&key("[\"client_ip\", \"global\"]"), "each request has client_ip");
}

#[test]
fn an_unverified_key_needs_an_address_beside_it() {
    let header = with("match = { path = \"/a\" }").replace("\"client_ip\"", "{ header = \"x-api-key\" }");
    assert_errors(
        &header,
        "policy.p.key: nothing verifies the key (header x-api-key): a client may send another one with each request, and no policy by address",
    );
    assert_errors(
        &header.replace("{ header = \"x-api-key\" }", "\"bearer\""),
        "nothing verifies the key (bearer)",
    );
    let beside = |fields: &str| {
        format!("{header}[policy.all]\nstrategy = \"gcra\"\nquota = \"1/s\"\nkey = \"client_ip\"\n{fields}")
    };
    assert_warns(&beside(""), "policy.p.key: nothing verifies the key (header x-api-key)");
    assert_warns(&beside("match = { path = \"/{*rest}\" }"), "nothing verifies the key");
    for elsewhere in [
        "match = { path = \"/b\" }",
        "match = { path = \"/a\", methods = [\"GET\"] }",
        "mode = \"shadow\"",
        "charge_when = { status = 401 }",
    ] {
        assert_errors(&beside(elsewhere), "no policy by address is beside it");
    }
    assert_warns(
        &with("").replace("\"client_ip\"", "[{ header = \"x-api-key\" }, \"client_ip\"]"),
        "nothing verifies the key (header x-api-key, else client_ip)",
    );
    rules(&header.replace("[policy.p]", "[policy.p]\nmode = \"shadow\""));
    assert_errors(
        &header.replace("[policy.p]", "[policy.p]\nmode = { percent = 5 }"),
        "policy.p.mode: policy p cannot be enforced for a share",
    );
}

#[test]
fn rules_that_limit_nothing_are_warned_about() {
    assert_warns(&with("mode = \"off\""), "policy.p.mode: the policy is off");
    assert_warns(
        &with("charge_when = { status = 401 }\ncharge_after = 0"),
        "policy.p.charge_after: every request is rejected",
    );
    assert_warns(&with("cost = 0"), "policy.p.cost: a cost of 0 charges nothing");
    assert_warns(
        &with("cost = 21"),
        "policy.p.cost: a cost of 21 never fits: the policy admits at most 20 at once",
    );
    assert_warns(&with("cost = { path = { \"/a\" = 99 } }"), "a cost of 99 never fits");
    for fields in
        ["cost = 20", "cost = 21\noverrides = true", "cost = 21\ntiers = { pro = \"10/s burst 50\" }"]
    {
        assert_eq!(rules(&with(fields)).warnings().to_string(), "", "{fields}");
    }
    assert_warns("", "warning: policy: there are no policies");
    assert_warns("[layer]\nheaders = \"ietf\"", "policy: there are no policies");
    assert_warns(&with("match = []"), "policy.p.match: the list is empty");
    assert_warns(&with("match = { path = \"/a\", grpc = \"b.C\" }"), "policy.p.match: no request can fulfil");
    assert_warns(&with("match = { methods = [] }"), "policy.p.match: no request can fulfil");
    assert_warns(
        &with("on_missing = \"shared\""),
        "policy.p.on_missing: all requests without an identity share",
    );
    assert_eq!(rules(&with("")).warnings().to_string(), "");
}

#[test]
fn trust_of_every_address_is_warned_about() {
    for networks in ["[\"0.0.0.0/0\"]", "[\"10.0.0.0/8\", \"::/0\"]", "\"0.0.0.0/0\""] {
        let clients = format!("[client_ip]\nheader = \"x-forwarded-for\"\ntrusted_proxies = {networks}\n");
        assert_warns(
            &format!("{clients}{}", with("")),
            "client_ip.trusted_proxies: every address is trusted",
        );
    }
}

#[test]
fn look_ups_of_quotas_are_those_that_builders_accept() {
    use portcullis_tower::QuotaLookup;

    let load = |fields: &str| {
        let plans = QuotaLookup::new(|_: &http::request::Parts| async { Ok(None) });
        let named = super::loader(&with(fields)).quota_lookup("plans", plans);
        let any_name = super::loader(&with(fields)).accept_unknown_names();
        let load = |loader| crate::Rules::load(&loader).map_err(|findings| findings.to_string());
        let [named, any_name] = [load(named), load(any_name)].map(Result::err);
        assert_eq!(named, any_name, "{fields}");
        named
    };
    assert_eq!(load("quota_lookup = \"plans\"\ncaller_quotas = [\"1/s\", \"20/s burst 40\"]"), None);
    let error = load("quota_lookup = \"plans\"").unwrap_or_default();
    assert!(error.starts_with("limits.toml:5:16: error: policy.p.quota_lookup: "), "{error}");
}

#[test]
fn names_that_collide_name_both_places() {
    let text = format!(
        "{}[policy.\"p.in_flight\"]\nstrategy = \"gcra\"\nquota = \"1/s\"\nkey = \"peer\"",
        with("in_flight = { limit = 1 }")
    );
    assert_errors(&text, "policy p.in_flight is in limits.toml:1:9 already");
}

#[test]
fn a_thousand_policies_are_the_most() {
    let many = |count: usize| {
        (0..count)
            .map(|number| {
                with(&format!("match = {{ path = \"/{number}\" }}"))
                    .replace("policy.p", &format!("policy.p{number}"))
            })
            .collect::<String>()
    };
    assert_eq!(rules(&many(1_000)).iter().len(), 1_000);
    assert_errors(&many(1_001), "there are more than 1000 policies");
}

#[test]
fn all_mistakes_are_found_together() {
    let found = errors(&format!(
        "{}[policy.q]\nstrategy = \"gcra\"\nquota = \"1/x\"\n",
        with("mode = 1\ncost = -1\nwarn_at = \"x\"")
    ));
    assert!(found.lines().count() >= 5, "{found}");
}

/// The fields with errors, in the order of the file.
fn fields_at_fault(fields: &str) -> Vec<String> {
    let text = format!("[policy.p]\nkey = \"client_ip\"\n{fields}\n");
    let found = errors(&text);
    let field = |line: &str| Some(line.split_once("error: policy.p.")?.1.split_once(": ")?.0.to_owned());
    found.lines().filter_map(field).collect()
}

#[test]
fn a_mistake_hides_no_other_one_beside_it() {
    for (fields, expected) in [
        ("strategy = \"gcra\"\nlimit = 10\nperiod = \"soon\"\nburst = 0", &["period", "burst"][..]),
        ("strategy = \"gcra\"\nlimit = 1000000000000000\nperiod = \"1s\"\nburst = 0", &["limit", "burst"]),
        (
            "strategy = \"gcra\"\nlimit = 1000000000000000\nperiod = \"soon\"\nburst = 0",
            &["limit", "period", "burst"],
        ),
        ("strategy = \"fixed_window\"\nquota = \"9/s burst 10\"\nburst = 5", &["quota", "burst"]),
        ("strategy = \"sliding_window\"\nquota = \"9/s\"\nslots = 7\nburst = 3", &["slots", "burst"]),
        (
            "strategy = \"sliding_window\"\nlimit = 1000000000000000\nperiod = \"1s\"\nslots = 7",
            &["limit", "slots"],
        ),
        // Whether these are wrong depends on what is not known.
        ("strategy = \"sliding_window\"\nlimit = 5\nperiod = \"soon\"\nslots = 7", &["period"]),
        (
            "strategy = \"gcra\"\nlimit = 1000000000000000\nperiod = \"1s\"\nburst = 900000000000000",
            &["limit"],
        ),
        ("strategy = \"gcra\"\nquota = \"1/x\"\nwait = \"400d\"", &["quota", "wait"]),
        (
            "strategy = \"gcra\"\nquota = \"1/s\"\nlock_out = { after = 0, within = \"x\", block_for = \"1h\", up_to = \"1m\" }",
            &["lock_out.after", "lock_out.within", "lock_out.up_to"],
        ),
        (
            "strategy = \"gcra\"\nquota = \"1/s\"\nin_flight = { limit = 0, lease = \"1ms\" }",
            &["in_flight.limit", "in_flight.lease"],
        ),
        (
            "strategy = \"gcra\"\nquota = \"1/s\"\ncaller_quotas = [\"0/x\", \"x\"]",
            &["caller_quotas[0]", "caller_quotas[1]"],
        ),
    ] {
        assert_eq!(fields_at_fault(fields), expected, "{fields}");
    }
}

#[test]
fn an_error_of_main_is_shown_as_lines() {
    let found = crate::Rules::load(&super::loader("[polices]")).expect_err("a misspelt table");
    assert_eq!(format!("{found:?}"), found.to_string());
    assert!(format!("{found:?}").starts_with("limits.toml:1:2: error: polices: "), "{found:?}");
}
