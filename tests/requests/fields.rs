//! Whether the files have every field of rules.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use toml::Value;

use crate::timeline::File;

/// A field, and the field that has the table in which it is.
type Place = (String, String);

#[test]
fn files_have_every_field_of_rules() {
    let schema = portcullis::rules::schema();
    let mut known = BTreeSet::new();
    Fields { schema: &schema, seen: BTreeSet::new(), known: &mut known }.of(&schema, "");
    assert!(known.len() > 70, "{known:?}");
    let mut used = BTreeSet::new();
    for file in File::all() {
        keys(&Value::Table(file.rules), "", &mut used);
    }
    // Where rules come from, not what they do.
    let is_elsewhere = |(table, field): &&Place| table == "remote" || field == "remote" || field == "include";
    let missing: Vec<_> = known.difference(&used).filter(|place| !is_elsewhere(place)).collect();
    assert!(missing.is_empty(), "no file has {missing:?}");
}

/// The three lists have the same fields, and so have the tables of a key.
fn table_of(field: &str) -> &str {
    match field {
        "except" | "deny" | "only" => "list",
        "all" => "key",
        field => field,
    }
}

struct Fields<'a> {
    schema: &'a Json,
    seen: BTreeSet<Place>,
    known: &'a mut BTreeSet<Place>,
}

impl Fields<'_> {
    /// The fields of the tables that a part of the schema describes.
    fn of(&mut self, part: &Json, table: &str) {
        let Json::Object(part) = part else { return };
        for (keyword, value) in part {
            match (keyword.as_str(), value) {
                ("$ref", Json::String(path)) if self.seen.insert((path.clone(), table.to_owned())) => {
                    let definition = self.schema.pointer(path.trim_start_matches('#')).cloned();
                    self.of(&definition.expect("the schema defines it"), table);
                }
                ("properties", Json::Object(fields)) => {
                    for (field, value) in fields {
                        self.known.insert((table.to_owned(), field.clone()));
                        self.of(value, table_of(field));
                    }
                }
                ("items" | "additionalProperties", value) => self.of(value, table),
                ("anyOf" | "oneOf" | "allOf" | "prefixItems", Json::Array(all)) => {
                    for one in all {
                        self.of(one, table);
                    }
                }
                _ => {}
            }
        }
    }
}

fn keys(value: &Value, table: &str, used: &mut BTreeSet<Place>) {
    match value {
        Value::Table(fields) => {
            for (field, value) in fields {
                used.insert((table.to_owned(), field.clone()));
                match (field.as_str(), value) {
                    // The names of policies, headers and parameters.
                    ("policy" | "headers" | "query", Value::Table(named)) => {
                        named.values().for_each(|one| keys(one, field, used));
                    }
                    _ => keys(value, table_of(field), used),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|one| keys(one, table, used)),
        _ => {}
    }
}
