use crate::load::{Loaded, Loader};
use crate::overlay::Overlay;
use crate::source::Format;
use crate::tree::{Node, Value};
use crate::{Rules, schema};

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

/// The files with what the document changes.
fn read(loader: &Loader) -> Loaded {
    let files = loader.read();
    loader.overlaid(&files).unwrap_or(files)
}

/// The field of a policy after the change, and the messages of what is wrong.
fn changed(settings: &str, overlay: &str, policy: &str, field: &str) -> (Option<Value>, Vec<String>) {
    let file = format!("[remote]\nverify_key = '{KEY}'\n{settings}{FILE}");
    let overlay = document(overlay);
    let loaded = read(&Loader::text("local", Format::Toml, file).with_overlay(overlay));
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
            "policy.other: remote rules name a policy that the local file does not have: add it there, or leave it out",
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
    let loaded = read(&Loader::text("local", Format::Toml, FILE).with_overlay(overlay));
    assert_eq!((loaded.findings, loaded.remote), (vec![], None));
}

#[test]
fn mistakes_in_the_settings_are_found() {
    for (remote, finding) in [
        ("[remote]", "remote"),
        ("[remote]\nverify_key = 'abc'", "remote.verify_key"),
        ("[remote]\nverify_key = 5", "remote.verify_key"),
        (&format!("[remote]\nverify_key = '{}'", "0".repeat(64)), "remote.verify_key"),
        (&format!("[remote]\nverify_key = '{KEY}'\nallow = ['limit', 'bursts']"), "remote.allow[1]"),
        (&format!("[remote]\nverify_key = '{KEY}'\nallow = 'limit'"), "remote.allow"),
        (&format!("[remote]\nverify_key = '{KEY}'\npoll = 5"), "remote.poll"),
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

#[test]
fn mistakes_in_the_settings_have_a_place_and_a_fix() {
    let weak = "0".repeat(64);
    let file = format!(
        "[remote]\nverify_key = '{weak}'\nallow = ['limit', 'bursts', 'x']\nkey = ''\npoll = '2h'\nminimum = 1\n"
    );
    let findings = Rules::load(&Loader::text("local", Format::Toml, file)).unwrap_err();
    assert!(!findings.to_string().contains(&weak), "what is there may be a secret key");
    let shown: Vec<_> = findings
        .iter()
        .map(|one| {
            let line = findings.sources().location(one.span.unwrap()).line;
            (line, one.message.split(':').next().unwrap(), one.help.as_deref().unwrap())
        })
        .collect();
    let fields = "write names of fields of policies, such as \"limit\", \"burst\" and \"mode\"";
    let expected = [
        (
            2,
            "this public key is weak, and would accept signatures that nobody made",
            "write the public key that `portcullis rules keygen` printed",
        ),
        (3, "policies have no field \"bursts\"", "did you mean \"burst\"?"),
        (3, "policies have no field \"x\"", fields),
        (4, "the name of a document has 1 to 255 bytes, not 0", "leave it out for \"portcullis-rules\""),
        (
            5,
            "7200s is not between 10ms and 1h",
            "leave it out for 5s: each instance asks its store once in this time",
        ),
        (6, "unknown field \"minimum\"", "did you mean `minimum_number`?"),
    ];
    assert_eq!(shown, expected);
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let remote = |allow: &str| serde_json::json!({ "remote": { "verify_key": KEY, "allow": [allow] } });
    assert!(validator.is_valid(&remote("burst")) && !validator.is_valid(&remote("bursts")));
}
