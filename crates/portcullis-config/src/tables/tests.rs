mod reference;

use serde_json::{Value as Json, json};

use super::{Field, POLICY, ROOT, Table, ValueKind};
use crate::{Diagnostics, Format, Loader, Rule, Rules, schema};

/// The tables with their paths in a file, those inside of tables included.
fn tables() -> Vec<(String, &'static Table)> {
    let mut found: Vec<(String, &'static Table)> = vec![(String::new(), &ROOT)];
    let mut next = 0;
    while let Some((path, table)) = found.get(next).cloned() {
        next += 1;
        for field in table.fields {
            let path = if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
            let path = if matches!(field.kind, ValueKind::Map(_)) { path + ".p" } else { path };
            if let Some(inner) = field.kind.table()
                && !found.iter().any(|(_, table)| table.name == inner.name)
            {
                found.push((path, inner));
            }
        }
    }
    found
}

/// Sets the field at a path.
fn set(document: &mut Json, path: &str, value: Json) {
    let mut place = document;
    for name in path.split('.') {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[name];
    }
    *place = value;
}

fn load(document: &Json) -> Result<Rules, Diagnostics> {
    Rules::load(&Loader::text("limits", Format::Json, document.to_string()).without_environment())
}

fn path_of(table: &str, field: &Field) -> String {
    if table.is_empty() { field.name.to_owned() } else { format!("{table}.{}", field.name) }
}

/// A file with the policy `p`.
fn file(strategy: &str) -> Json {
    let mut document = json!({ "policy": { "p": { "strategy": strategy, "quota": "1/s", "key": "peer" } } });
    if strategy == "in_flight" {
        document["policy"]["p"] = json!({ "strategy": strategy, "limit": 1, "key": "peer" });
    }
    document
}

/// A field that its reader forgets would be ignored.
#[test]
fn reader_refuses_a_wrong_value_of_each_field() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let mut fields = 0;
    for (table, field) in
        tables().iter().flat_map(|(path, table)| table.fields.iter().map(move |field| (path, field)))
    {
        let path = path_of(table, field);
        let mut document = file("gcra");
        set(&mut document, &path, json!({ "no field": [[]] }));
        assert!(!validator.is_valid(&document), "{document}");
        let findings = load(&document).unwrap_err();
        assert!(findings.iter().any(|finding| finding.field.starts_with(&path)), "{path}: {findings}");
        fields += 1;
    }
    assert!(fields > 90, "{fields}");
}

#[test]
fn strategies_are_those_of_core() {
    let Some(ValueKind::Choice(names)) = POLICY.field("strategy").map(|field| field.kind) else { panic!() };
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let findings = load(&file("other")).unwrap_err().to_string();
    assert!(findings.contains(&format!("expected one of {}", names.join(", "))), "{findings}");
}

/// What rules say that the default of a field may change.
fn meaning(rules: &Rules) -> String {
    let rule = |rule: &Rule| format!("{:?} {:?} {:?}", rule.policy(), rule.mode(), rule.lock_out());
    let all: Vec<_> = rules.iter().map(rule).collect();
    #[cfg(feature = "signed")]
    let all = (all, rules.remote());
    format!("{all:?} {:?} {}", rules.client_ip(), rules.shares_places())
}

#[test]
fn defaults_change_nothing() {
    for (table, path, field) in tables()
        .iter()
        .flat_map(|(path, table)| table.fields.iter().map(move |field| (table, path_of(path, field), field)))
    {
        let Some(default) = field.default else { continue };
        if table.name == "remote" && cfg!(not(feature = "signed")) {
            continue;
        }
        let mut document = file(match (table.name, field.name) {
            ("policy", "refill") => "token_bucket",
            ("policy", "anchor") => "fixed_window",
            ("policy", "slots") => "sliding_window",
            ("policy", "until") => "in_flight",
            _ => "gcra",
        });
        match table.name {
            "client_ip" => document["client_ip"] = json!({}),
            // An exemption by what a client writes is an error.
            "value" => document["policy"]["p"]["match"] = json!({ "headers": { "p": { "present": true } } }),
            "key_source" => document["policy"]["p"]["key"] = json!({ "header": "x-plan" }),
            "tier" => {
                document["policy"]["p"]["tiers"] = json!({ "pro": "2/s" });
                document["policy"]["p"]["tier"] = json!({ "header": "x-plan" });
            }
            "cost" => document["policy"]["p"]["cost"] = json!({ "header": "x-cost", "max": 5 }),
            "lock_out" => document["policy"]["p"]["lock_out"] = json!({ "after": 5 }),
            "in_flight" => document["policy"]["p"]["in_flight"] = json!({ "limit": 5 }),
            "remote" => {
                let key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
                document["remote"] = json!({ "verify_key": key });
            }
            _ => {}
        }
        document["policy"]["q"] = json!({ "strategy": "gcra", "quota": "1/s", "key": "peer" });
        let path = path.replace("layer.except.headers", "policy.p.match.headers");
        let without = load(&document).unwrap_or_else(|findings| panic!("{path}: {findings}"));
        set(&mut document, &path, serde_json::from_str(default).unwrap_or_else(|_| json!(default)));
        let with = load(&document).unwrap_or_else(|findings| panic!("{path}: {findings}"));
        assert_eq!(meaning(&without), meaning(&with), "{path}");
    }
}
