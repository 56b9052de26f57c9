use crate::load::Loader;
use crate::overlay::Overlay;
use crate::source::Format;
use crate::tree::{Node, Value};

const KEY: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
const FILE: &str = "
[policy.search]
quota = '10/s burst 20'
mode = 'enforce'
[policy.flight]
strategy = 'in_flight'
limit = 4
";

fn document(text: &str) -> Overlay {
    Overlay {
        name: "remote".into(),
        text: text.into(),
        key: "portcullis-rules".to_owned(),
        verify_key: KEY.to_owned(),
        number: 1,
    }
}

/// The field of a policy after the change, and the messages of what is wrong.
fn changed(settings: &str, overlay: &str, policy: &str, field: &str) -> (Option<Value>, Vec<String>) {
    let file = format!("[remote]\nverify_key = '{KEY}'\n{settings}{FILE}");
    let overlay = document(overlay);
    let loaded = Loader::text("local", Format::Toml, file).with_overlay(Some(overlay)).read();
    let get = |node: &Node| Some(node.get("policy")?.node.get(policy)?.node.get(field)?.node.value.clone());
    let findings =
        loaded.findings.into_iter().map(|finding| format!("{}: {}", finding.field, finding.message));
    (loaded.documents.first().and_then(get), findings.collect())
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

#[test]
fn limits_bursts_and_modes_are_replaced() {
    let change = r#"{"policy": {"search": {"limit": 50, "mode": "shadow"}, "flight": {"limit": 9}}}"#;
    assert_eq!(changed("", change, "search", "quota"), (Some(text("50/s burst 20")), vec![]));
    assert_eq!(changed("", change, "search", "mode"), (Some(text("shadow")), vec![]));
    assert_eq!(changed("", change, "search", "limit"), (None, vec![]));
    assert_eq!(changed("", change, "flight", "limit"), (Some(Value::Integer(9)), vec![]));
    let change = r#"{"policy": {"search": {"burst": 5, "limit": 7}}}"#;
    assert_eq!(changed("", change, "search", "quota"), (Some(text("7/s burst 5")), vec![]));
    let change = r#"{"policy": {"search": {"quota": "7/s"}}}"#;
    assert_eq!(changed("", change, "search", "quota"), (Some(text("7/s")), vec![]));
}

#[test]
fn what_is_not_allowed_is_refused() {
    for (change, refused) in [
        (
            r#"{"policy": {"search": {"quota": "7/min"}}}"#,
            "policy.search.quota: remote rules may not change `period`",
        ),
        (
            r#"{"policy": {"search": {"key": "global"}}}"#,
            "policy.search.key: remote rules may not change `key`",
        ),
        (
            r#"{"policy": {"flight": {"quota": "7/s"}}}"#,
            "policy.flight.quota: remote rules may not change `quota`",
        ),
        (
            r#"{"policy": {"other": {"limit": 7}}}"#,
            "policy.other: remote rules name a policy that the local file does not have",
        ),
        (r#"{"layer": {}}"#, "layer: remote rules change policies and nothing else"),
        (r#"{"include": ["a.toml"]}"#, "include: remote rules change policies and nothing else"),
        (r#"{"remote": {"allow": ["key"]}}"#, "remote: remote rules change policies and nothing else"),
        (r#"{"policy": {"search": {"limit": "7"}}}"#, "policy.search.limit: expected a number, not a text"),
        (r#"{"policy": {"search": {"limit": -1}}}"#, "policy.search.limit: -1 is not a number of units"),
        (r#"{"policy": {"search": 7}}"#, "policy.search: expected a table, not a number"),
        ("7", ": a file of rules is a table, and this is a number"),
    ] {
        let (_, findings) = changed("", change, "search", "quota");
        assert_eq!(findings, [refused], "{change}");
    }
    let (quota, findings) =
        changed("allow = ['mode']\n", r#"{"policy": {"search": {"limit": 7}}}"#, "search", "quota");
    assert_eq!((quota, findings.len()), (Some(text("10/s burst 20")), 1));
}

#[test]
fn the_local_file_may_allow_more() {
    let change = r#"{"policy": {"search": {"quota": "7/min", "match": {"path": "/find"}}}}"#;
    let allow = "allow = ['quota', 'match']\n";
    assert_eq!(changed(allow, change, "search", "quota"), (Some(text("7/min")), vec![]));
    assert!(
        matches!(changed(allow, change, "search", "match"), (Some(Value::Map(_)), findings) if findings.is_empty())
    );
    let change = r#"{"policy": {"search": {"quota": "10/min burst 20"}}}"#;
    assert_eq!(
        changed("allow = ['period']\n", change, "search", "quota"),
        (Some(text("10/min burst 20")), vec![])
    );
}

#[test]
fn a_file_without_remote_rules_ignores_them() {
    let overlay = document(r#"{"policy": {"search": {"limit": 7}}}"#);
    let loaded = Loader::text("local", Format::Toml, FILE).with_overlay(Some(overlay)).read();
    assert_eq!((loaded.findings, loaded.remote), (vec![], None));
}

#[test]
fn mistakes_in_the_settings_are_found() {
    for (remote, finding) in [
        ("[remote]", "remote"),
        ("[remote]\nverify_key = 'abc'", "remote.verify_key"),
        (&format!("[remote]\nverify_key = '{KEY}'\nkey = ''"), "remote.key"),
        (&format!("[remote]\nverify_key = '{KEY}'\npoll = '1ms'"), "remote.poll"),
        (&format!("[remote]\nverify_key = '{KEY}'\nminimum_number = -1"), "remote.minimum_number"),
        (&format!("[remote]\nverify_key = '{KEY}'\nalow = []"), "remote.alow"),
    ] {
        let loaded = Loader::text("local", Format::Toml, remote).read();
        let fields: Vec<_> = loaded.findings.iter().map(|finding| finding.field.as_str()).collect();
        assert_eq!((fields, loaded.remote), (vec![finding], None), "{remote}");
    }
}
