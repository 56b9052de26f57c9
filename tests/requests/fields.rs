//! Whether the files have every field of rules.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use toml::Value;

use crate::timeline::File;

#[test]
fn files_have_every_field_of_rules() {
    let schema: Json = portcullis::rules::schema();
    let mut known = BTreeSet::new();
    properties(&schema, &mut known);
    assert!(known.len() > 60, "{known:?}");
    let mut used = BTreeSet::new();
    for file in File::all() {
        keys(&Value::Table(file.rules), &mut used);
    }
    let missing: Vec<_> =
        known.difference(&used).filter(|field| !ELSEWHERE.contains(&field.as_str())).collect();
    assert!(missing.is_empty(), "no file has {missing:?}");
    let found: Vec<_> = ELSEWHERE.iter().filter(|field| used.contains(**field)).collect();
    assert!(found.is_empty(), "a file has {found:?}");
}

/// Fields that say where rules come from, not what they do.
const ELSEWHERE: [&str; 6] = ["include", "remote", "verify_key", "allow", "minimum_number", "poll"];

/// The names of the fields of all tables.
fn properties(schema: &Json, names: &mut BTreeSet<String>) {
    match schema {
        Json::Object(fields) => {
            for (name, value) in fields {
                if name == "properties" {
                    names.extend(value.as_object().into_iter().flatten().map(|(name, _)| name.clone()));
                }
                properties(value, names);
            }
        }
        Json::Array(all) => all.iter().for_each(|one| properties(one, names)),
        _ => {}
    }
}

fn keys(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Table(table) => {
            for (name, value) in table {
                names.insert(name.clone());
                keys(value, names);
            }
        }
        Value::Array(all) => all.iter().for_each(|one| keys(one, names)),
        _ => {}
    }
}
