//! The JSON Schema of rules, from the tables of their fields.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use crate::tables::{Field, ROOT, Required, Table, ValueKind};

/// The JSON Schema of a file of rules, of draft 2020-12, for editors and other programs.
///
/// It accepts what [`Loader`](crate::Loader) reads, whatever the format, apart from `null`, which is the same as an absent field. It
/// cannot express all that the rules check, such as which fields a strategy has.
///
/// # Examples
///
/// ```
/// let schema = portcullis::rules::schema();
/// assert_eq!(schema["type"], "object");
/// assert_eq!(schema["additionalProperties"], false);
/// assert!(schema["properties"]["policy"].is_object());
/// ```
pub fn schema() -> Value {
    let mut definitions = Map::new();
    let mut root = of_table(&ROOT, &mut definitions);
    root["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    root["title"] = json!("Rules of the Portcullis rate limiter");
    root["$defs"] = definitions.into();
    root
}

/// The schema of a table. What it refers to is added to the definitions.
fn of_table(table: &Table, definitions: &mut Map<String, Value>) -> Value {
    let mut schema = json!({ "type": "object", "description": table.about, "additionalProperties": false });
    for field in table.fields {
        schema["properties"][field.name] = of_field(field, definitions);
    }
    let required = table.fields.iter().filter(|field| field.required != Required::No);
    let required: Vec<_> = required.map(|field| field.name).collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    bounds(schema, ["minProperties", "maxProperties"], table.least, table.most)
}

fn of_field(field: &Field, definitions: &mut Map<String, Value>) -> Value {
    let mut schema = of_kind(&field.kind, definitions);
    schema["description"] = json!(field.about);
    if let Some(default) = field.default {
        schema["default"] = serde_json::from_str(default).unwrap_or_else(|_| json!(default));
    }
    schema
}

fn of_kind(kind: &ValueKind, definitions: &mut Map<String, Value>) -> Value {
    match *kind {
        ValueKind::Text => json!({ "type": "string" }),
        ValueKind::Form(pattern, example) => {
            or_reference(&json!({ "type": "string", "pattern": pattern, "examples": [example] }))
        }
        ValueKind::Bool => or_reference(&json!({ "type": "boolean" })),
        ValueKind::Integer(least, u64::MAX) => or_reference(&json!({ "type": "integer", "minimum": least })),
        ValueKind::Integer(least, most) => {
            or_reference(&json!({ "type": "integer", "minimum": least, "maximum": most }))
        }
        ValueKind::Number(least, most) => {
            or_reference(&json!({ "type": "number", "minimum": least, "maximum": most }))
        }
        ValueKind::Choice(names) => or_reference(&json!({ "enum": names })),
        ValueKind::FieldOf(table) => or_reference(&json!({ "enum": table.names().collect::<Vec<_>>() })),
        ValueKind::Nested(table) => defined(table.name, definitions, |all| of_table(table, all)),
        ValueKind::Named(name, kind) => defined(name, definitions, |all| of_kind(kind, all)),
        ValueKind::List(each, least, most) => {
            let list = json!({ "type": "array", "items": of_kind(each, definitions) });
            bounds(list, ["minItems", "maxItems"], least, most)
        }
        ValueKind::OneOrMore(one) => {
            let one = of_kind(one, definitions);
            json!({ "anyOf": [one, { "type": "array", "items": one }] })
        }
        ValueKind::Map(each) => {
            json!({ "type": "object", "additionalProperties": of_kind(each, definitions) })
        }
        ValueKind::AnyOf(kinds) => {
            let schemas: Vec<_> = kinds.iter().map(|kind| of_kind(kind, definitions)).collect();
            json!({ "anyOf": schemas })
        }
    }
}

/// A reference to a definition, which is made when it is first referred to.
fn defined(
    name: &str,
    definitions: &mut Map<String, Value>,
    make: impl FnOnce(&mut Map<String, Value>) -> Value,
) -> Value {
    if !definitions.contains_key(name) {
        // It may refer to itself.
        definitions.insert(name.to_owned(), Value::Null);
        let schema = make(definitions);
        definitions.insert(name.to_owned(), schema);
    }
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// A schema with the fewest and the most parts, where they say something.
fn bounds(mut schema: Value, [minimum, maximum]: [&str; 2], least: usize, most: usize) -> Value {
    if least > 0 {
        schema[minimum] = json!(least);
    }
    if most < usize::MAX {
        schema[maximum] = json!(most);
    }
    schema
}

/// What is not any text may be one with a reference to an environment variable.
fn or_reference(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "type": "string", "pattern": "\\$\\{" }] })
}
