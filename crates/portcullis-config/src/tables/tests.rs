mod reference;

use serde_json::{Map, Value as Json, json};

use super::{ROOT, Table, ValueKind};
use crate::{Format, Loader, Rules, schema};

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

/// A file with a value at a path, and what a policy needs.
fn file(path: &str, value: Json) -> Json {
    let mut document = Map::new();
    if path.starts_with("policy.") {
        document.insert(
            "policy".to_owned(),
            json!({ "p": { "strategy": "gcra", "quota": "1/s", "key": "peer" } }),
        );
    }
    let mut document = Json::Object(document);
    let mut place = &mut document;
    for name in path.split('.') {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[name];
    }
    *place = value;
    document
}

/// A field that its reader forgets would be ignored.
#[test]
fn reader_and_schema_refuse_a_wrong_value_of_each_field() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let mut fields = 0;
    for (table, field) in
        tables().iter().flat_map(|(path, table)| table.names().map(move |name| (path, name)))
    {
        let path = if table.is_empty() { field.to_owned() } else { format!("{table}.{field}") };
        let document = file(&path, json!({ "no field": [[]] }));
        assert!(!validator.is_valid(&document), "{document}");
        let loader = Loader::text("limits", Format::Json, document.to_string()).without_environment();
        let findings = Rules::load(&loader).unwrap_err();
        assert!(findings.iter().any(|finding| finding.field.starts_with(&path)), "{path}: {findings}");
        fields += 1;
    }
    assert!(fields > 90, "{fields}");
}
