use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use portcullis_core::{FailureMode, Policy, Quota, Strategy};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Fields, Findings, decode};
use crate::diagnostic::Diagnostics;
use crate::load::Loader;
use crate::source::Format;
use crate::tables::{Field, Required, Table, ValueKind};

/// A table with these fields, of which those with a `!` are required.
fn table(names: &str) -> &'static Table {
    let field = |name: &'static str| {
        let required = if name.ends_with('!') { Required::Yes(None) } else { Required::No };
        let name = name.trim_end_matches('!');
        Field { name, kind: ValueKind::Text, about: "", required, default: None }
    };
    let names: &'static str = names.to_owned().leak();
    let fields: Vec<_> = names.split(", ").map(field).collect();
    Box::leak(Box::new(Table { name: "", about: "", fields: fields.leak(), least: 0, most: 1 }))
}

/// The findings of reading a document of TOML with `read`, as a table with these fields.
fn findings(text: &str, names: &str, read: impl FnOnce(&Fields<'_>)) -> String {
    let loaded = Loader::text("limits", Format::Toml, text)
        .environment(|name| (name == "NUMBER").then(|| "42".to_owned()))
        .read();
    let findings = Findings::new(loaded.findings);
    if let Some(document) = loaded.documents.first() {
        read(&Fields::of(document, "", table(names), &findings).unwrap());
    }
    Diagnostics::new(loaded.sources, findings.into_list()).to_string()
}

fn sub<T: DeserializeOwned>(fields: &Fields<'_>, names: &[&'static str]) -> Option<T> {
    fields.sub_with(names, |part| T::deserialize(part))
}

#[test]
fn fields_are_read_by_type() {
    let text = "text = 'x'\nnumber = 7\nlist = ['a']\nquota = '10/s'\nwait = '1m 30s'\nmode = 'off'\nmap = { a = 1.5 }";
    let shown = findings(text, "text, number, list, quota, wait, mode, map, absent", |fields| {
        assert_eq!(fields.read::<String>("text"), Some("x".to_owned()));
        assert_eq!(fields.read::<NonZeroU32>("number").map(NonZeroU32::get), Some(7));
        assert_eq!(fields.read::<Vec<String>>("list"), Some(vec!["a".to_owned()]));
        assert_eq!(fields.parse::<Quota>("quota"), "10/s".parse().ok());
        assert_eq!(fields.duration("wait"), Some(Duration::from_secs(90)));
        assert_eq!(fields.choice("mode", &[("enforce", 1), ("off", 2)]), Some(2));
        assert_eq!(fields.read::<BTreeMap<String, f64>>("map").unwrap()["a"].to_string(), "1.5");
        assert_eq!(fields.read::<bool>("absent"), None);
    });
    assert_eq!(shown, "");
}

#[test]
fn numbers_in_texts_come_from_the_environment_only() {
    let shown =
        findings("a = '${NUMBER}'\nb = '42'\nc = '${NUMBER}'\nd = '${NO:-0.5}'", "a, b, c, d", |fields| {
            assert_eq!(fields.read::<u32>("a"), Some(42));
            assert_eq!(fields.read::<u32>("b"), None);
            assert_eq!(fields.read::<String>("c"), Some("42".to_owned()));
            assert_eq!(fields.read::<f64>("d").map(|number| number.to_string()), Some("0.5".to_owned()));
        });
    assert_eq!(
        shown,
        "limits:2:5: error: b: expected a whole number from 0 to 4294967295, not a text: \"42\" \
         (help: remove the quotes)"
    );
}

#[test]
fn unknown_fields_name_the_nearest_known_one() {
    let text = "quote = 1\nmatch = 2\non-store-failure = 3\nentirely = 4";
    let shown = findings(text, "quota, match, on_store_failure", |_| ());
    assert_eq!(
        shown,
        "limits:1:1: error: quote: unknown field \"quote\" (help: did you mean `quota`?)\n\
         limits:3:1: error: on-store-failure: unknown field \"on-store-failure\" \
         (help: did you mean `on_store_failure`?)\n\
         limits:4:1: error: entirely: unknown field \"entirely\" \
         (help: the fields are `quota`, `match` and `on_store_failure`)"
    );
}

#[test]
fn values_of_other_kinds_name_both_kinds() {
    let text = "a = 1\nb = []\nc = 5\nd = 'shadw'\ne = '5 parsecs'\nf = 300\ng = 'x'\nh = { }";
    let shown = findings(text, "a, b, c, d, e, f, g, h, missing!", |fields| {
        fields.parse::<Quota>("a");
        fields.read::<bool>("b");
        fields.duration("c");
        fields.choice("d", &[("shadow", ()), ("enforce", ()), ("off", ())]);
        fields.duration("e");
        fields.read::<u8>("f");
        fields.parse::<Quota>("g");
        fields.choice("h", &[("shadow", ()), ("off", ())]);
    });
    assert_eq!(
        shown,
        r#"limits:1:1: error: `missing` is missing
limits:1:5: error: a: expected a text, not a number: 1
limits:2:5: error: b: expected true or false, not a list
limits:3:5: error: c: expected a duration, not a number: 5 (help: write a number with a unit: "500ms", "2s", "1m 30s")
limits:4:5: error: d: "shadw" is not one of "shadow", "enforce" or "off" (help: did you mean "shadow"?)
limits:5:5: error: e: "5 parsecs" is no duration (help: write a number with a unit: "500ms", "2s", "1m 30s")
limits:6:5: error: f: expected a whole number from 0 to 255, not a number: 300
limits:7:5: error: g: cannot read the quota "x": expected `<limit>/<period>` and optionally `burst <n>`, as in `10/s burst 20`, or `unlimited`
limits:8:5: error: h: expected one of "shadow" or "off", not a table"#
    );
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Inner {
    #[allow(dead_code)]
    after: u32,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Choice {
    Plain,
    One(u32),
    Many { a: u8 },
}

#[test]
fn the_innermost_value_is_at_fault() {
    let text = "[p]\nlist = [{ after = 1 }, { after = 'x' }]\nmissing = [{ }]\nextra = { after = 1, befor = 2 }\n\
                pair = [1, 2, 3]\n\"odd name\" = { after = -1 }";
    let shown = findings(text, "p", |fields| {
        let table = table("list, missing, extra, pair, odd name");
        let inner = Fields::of(fields.node("p").unwrap(), "p", table, fields.findings).unwrap();
        assert!(inner.read::<Vec<Inner>>("list").is_none());
        assert!(inner.read::<Vec<Inner>>("missing").is_none());
        assert!(inner.read::<Inner>("extra").is_none());
        assert!(inner.read::<(u8, u8)>("pair").is_none());
        assert!(inner.read::<Inner>("odd name").is_none());
    });
    assert_eq!(
        shown,
        r#"limits:2:34: error: p.list[1].after: expected a whole number from 0 to 4294967295, not a text: "x"
limits:3:12: error: p.missing[0]: `after` is missing
limits:4:22: error: p.extra.befor: unknown field "befor" (help: the only field is `after`)
limits:5:15: error: p.pair: expected 2 values in the list, not 3
limits:6:24: error: p."odd name".after: expected a whole number from 0 to 4294967295, not a number: -1"#
    );
}

#[test]
fn enums_are_names_or_tables_with_one_field() {
    let text = "a = 'plain'\nb = { one = 1 }\nc = { many = { a = 1 } }\nd = 'plan'\ne = { one = 'x' }\nf = { many = { a = 256 } }\n\
                g = 5\nh = { one = 1, plain = 2 }\ni = 'one'\nj = { plain = 1 }";
    let shown = findings(text, "a, b, c, d, e, f, g, h, i, j", |fields| {
        assert_eq!(fields.read("a"), Some(Choice::Plain));
        assert_eq!(fields.read("b"), Some(Choice::One(1)));
        assert_eq!(fields.read("c"), Some(Choice::Many { a: 1 }));
        for field in ["d", "e", "f", "g", "h", "i", "j"] {
            assert_eq!(fields.read::<Choice>(field), None, "{field}");
        }
    });
    assert_eq!(
        shown,
        r#"limits:4:5: error: d: "plan" is not one of "plain", "one" or "many" (help: did you mean "plain"?)
limits:5:13: error: e.one: expected a whole number from 0 to 4294967295, not a text: "x"
limits:6:20: error: f.many.a: expected a whole number from 0 to 255, not a number: 256
limits:7:5: error: g: expected a name, or a table with one field, not a number: 5
limits:8:5: error: h: expected a table with one field, not with 2
limits:9:5: error: i: `one` needs a value
limits:10:15: error: j: "plain" has no value"#
    );
}

const STRATEGY: [&str; 8] = ["strategy", "quota", "limit", "period", "burst", "refill", "anchor", "slots"];
const NAMES: &str = "strategy, quota, limit, period, burst, refill, anchor, slots, name";

#[test]
fn fields_of_a_strategy_are_read_together() {
    let text = "strategy = 'gcra'\nname = 'x'\nlimit = 10\nperiod = '1s'";
    let shown = findings(text, NAMES, |fields| {
        let strategy: Option<Strategy> = sub(fields, &STRATEGY);
        assert!(matches!(strategy, Some(Strategy::Gcra(_))));
        assert!(fields.read::<String>("name").is_some());
    });
    assert_eq!(shown, "");
}

#[test]
fn mistakes_of_a_strategy_are_at_their_field() {
    let mut all = String::new();
    for text in [
        "strategy = 'grca'\nquota = '1/s'",
        "strategy = 'gcra'\nquota = '1/parsec'",
        "strategy = 'gcra'",
        "quota = '1/s'",
        "strategy = 'gcra'\nquota = '1/s'\nslots = 5",
        "strategy = 'sliding_window'\nquota = '1/s'\nslots = 5000",
        "strategy = 'gcra'\nlimit = 'x'\nperiod = 5",
        "strategy = 'gcra'\nquota = '1/s'\nlimit = 5",
    ] {
        all += &findings(text, NAMES, |fields| {
            assert!(sub::<Strategy>(fields, &STRATEGY).is_none(), "{text}");
        });
        all.push('\n');
    }
    assert_eq!(
        all,
        r#"limits:1:12: error: strategy: unknown strategy `grca`, expected one of `token_bucket`, `gcra`, `leaky_bucket`, `fixed_window`, `calendar_window`, `sliding_window`, `sliding_log`, `in_flight` (help: did you mean "gcra"?)
limits:2:9: error: quota: cannot read the quota "1/parsec": the period must end in us, ms, s, min, h, d or w
limits:1:1: error: missing field `quota`, such as "10/s burst 20"
limits:1:1: error: missing field `strategy`, one of `token_bucket`, `gcra`, `leaky_bucket`, `fixed_window`, `calendar_window`, `sliding_window`, `sliding_log`, `in_flight`
limits:3:9: error: slots: unknown field `slots` of gcra, which has its quota and `burst`: `slots` is for `sliding_window`
limits:3:9: error: slots: `slots` of sliding_window: a period of 1s cannot have 5000 slots: there must be 1 to 1000, each a whole number of microseconds
limits:2:9: error: limit: expected `limit`, a whole number of units or "unlimited", not a text: "x"
limits:3:10: error: period: expected `period`, a duration such as "15min", not a number: 5
limits:3:9: error: limit: `quota = "1/s"` and `limit` are both given: write either `quota`, with the burst in it, or `limit`, `period` and `burst`
"#
    );
}

#[test]
fn failure_modes_and_policies_are_read() {
    let text = "a = { local = 4 }\nb = 'opn'\nc = { local = 0 }\nd = { open_for = 5 }";
    let shown = findings(text, "a, b, c, d", |fields| {
        assert_eq!(fields.read("a"), Some(FailureMode::local(4)));
        assert_eq!(fields.read::<FailureMode>("b"), None);
        assert_eq!(fields.read::<FailureMode>("c"), None);
        assert_eq!(fields.read::<FailureMode>("d"), None);
    });
    assert_eq!(
        shown,
        r#"limits:2:5: error: b: unknown failure mode `opn`, expected "open", "closed", "local", { local = 4 } or { open_for = "30s" } (help: did you mean "open"?)
limits:3:5: error: c: a local share among 0 instances: there must be at least 1
limits:4:18: error: d.open_for: expected `open_for`, a duration such as "30s", not a number: 5"#
    );
    let shown = findings("name = 'a'\nstrategy = 'gcra'\nquota = '1/s'", NAMES, |fields| {
        assert!(sub::<Policy>(fields, &["name", "strategy", "quota"]).is_some());
    });
    assert_eq!(shown, "");
}

#[test]
fn null_is_absent() {
    let loaded = Loader::text("limits", Format::Json, "{\"a\": null, \"b\": [null]}").read();
    let findings = Findings::default();
    let fields = Fields::of(&loaded.documents[0], "", table("a!, b"), &findings).unwrap();
    assert_eq!(fields.read::<u8>("a"), None);
    assert_eq!(fields.read::<Vec<Option<u8>>>("b"), Some(vec![None]));
    let shown = Diagnostics::new(loaded.sources, findings.into_list()).to_string();
    assert_eq!(shown, "limits:1:1: error: `a` is missing");
}

#[test]
fn a_node_that_is_no_table_is_a_finding() {
    let shown = findings("a = 'x'", "a", |fields| {
        let node = fields.node("a").unwrap();
        assert!(Fields::of(node, "a", table("b"), fields.findings).is_none());
        assert_eq!(decode::<u8>(node, "a", fields.findings), None);
    });
    assert_eq!(shown.lines().next(), Some("limits:1:5: error: a: expected a table, not a text: \"x\""));
}

#[test]
fn known_misspellings_have_a_nearest_name() {
    let known = ["strategy", "quota", "key", "match", "tiers", "mode", "lock_out", "on_missing"];
    for (name, nearest) in [
        ("stratgy", Some("strategy")),
        ("Quota", Some("quota")),
        ("keys", Some("key")),
        ("matches", Some("match")),
        ("tier", Some("tiers")),
        ("lockout", Some("lock_out")),
        ("lock-out", Some("lock_out")),
        ("x", None),
        ("colour", None),
        ("", None),
    ] {
        assert_eq!(super::nearest(name, known), nearest, "{name}");
    }
    assert_eq!(super::nearest(&"quota".repeat(1000), known), None);
}

#[test]
fn a_misspelt_field_is_not_missing_as_well() {
    let shown = findings("quotta = '1/s'\nafer = 1\nother = 2", "quota!, after!, key!", |_| ());
    assert_eq!(
        shown,
        "limits:1:1: error: quotta: unknown field \"quotta\" (help: did you mean `quota`?)\n\
         limits:1:1: error: `key` is missing\n\
         limits:2:1: error: afer: unknown field \"afer\" (help: did you mean `after`?)\n\
         limits:3:1: error: other: unknown field \"other\" (help: the fields are `quota`, `after` and `key`)"
    );
    let shown = findings("strateggy = 'gcra'\nquota = '1/s'", NAMES, |fields| {
        assert!(sub::<Strategy>(fields, &STRATEGY).is_none());
    });
    assert_eq!(
        shown,
        "limits:1:1: error: strateggy: unknown field \"strateggy\" (help: did you mean `strategy`?)"
    );
}
