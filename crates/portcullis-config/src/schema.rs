//! The JSON Schema of rules, from the tables of their fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

mod fields;
#[cfg(test)]
mod tests;

/// A table, with the fields that it may have.
pub(crate) struct Table {
    /// The name of its definition.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) fields: &'static [Field],
    /// The fewest fields that it has.
    pub(crate) at_least: usize,
    /// The most fields that it has.
    pub(crate) at_most: Option<usize>,
}

/// A field of a table.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_required: bool,
}

/// What a field may be.
pub(crate) enum Kind {
    Text,
    /// A text of a form that only the reader knows exactly.
    Pattern(&'static str),
    Bool,
    /// A whole number in a range.
    Integer(u64, u64),
    /// A number in a range.
    Number(f64, f64),
    /// One of some texts.
    Choice(&'static [&'static str]),
    /// The name of a field of a table.
    FieldOf(&'static Table),
    /// A value, or a list of such values.
    OneOrMore(&'static Kind),
    /// A list with at least one value.
    List(&'static Kind),
    /// A list of a number of values.
    Tuple(&'static Kind, usize),
    /// A table.
    Table(&'static Table),
    /// A table whose names the author chooses.
    Map(&'static Kind),
    AnyOf(&'static [Kind]),
    /// What has a definition of this name, because it contains itself.
    Shared(&'static str, &'static Kind),
}

/// The JSON Schema of a file of rules, of draft 2020-12, for editors and other programs.
///
/// It accepts what [`Loader`](crate::Loader) reads, whatever the format, apart from `null`, which is the same as an absent field. It
/// cannot express all that the rules check, such as which fields a strategy has.
///
/// # Examples
///
/// ```
/// let schema = portcullis_config::schema();
/// assert_eq!(schema["type"], "object");
/// assert_eq!(schema["additionalProperties"], false);
/// assert!(schema["properties"]["policy"].is_object());
/// ```
pub fn schema() -> Value {
    let mut definitions = BTreeMap::new();
    let mut root = table(&fields::ROOT, &mut definitions);
    root.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    root.insert("title".to_owned(), json!("Rules of the Portcullis rate limiter"));
    root.insert("$defs".to_owned(), json!(definitions));
    Value::Object(root)
}

/// The names of the fields of a policy.
pub(crate) fn policy_fields() -> impl Iterator<Item = &'static str> + Clone {
    fields::POLICY.fields.iter().map(|field| field.name)
}

type Definitions = BTreeMap<&'static str, Value>;

fn table(table: &Table, definitions: &mut Definitions) -> Map<String, Value> {
    let mut properties = Map::new();
    for field in table.fields {
        let mut property = kind(&field.kind, definitions);
        if let Value::Object(property) = &mut property {
            property.insert("description".to_owned(), json!(field.about));
        }
        properties.insert(field.name.to_owned(), property);
    }
    let required: Vec<_> =
        table.fields.iter().filter(|field| field.is_required).map(|field| field.name).collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("description".to_owned(), json!(table.about));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("additionalProperties".to_owned(), json!(false));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    if table.at_least > 0 {
        schema.insert("minProperties".to_owned(), json!(table.at_least));
    }
    if let Some(most) = table.at_most {
        schema.insert("maxProperties".to_owned(), json!(most));
    }
    schema
}

fn kind(of: &Kind, definitions: &mut Definitions) -> Value {
    match of {
        Kind::Shared(name, shared) => define(name, definitions, |definitions| kind(shared, definitions)),
        Kind::Text => json!({ "type": "string" }),
        Kind::Pattern(pattern) => or_reference(&json!({ "type": "string", "pattern": pattern })),
        Kind::Bool => or_reference(&json!({ "type": "boolean" })),
        Kind::Integer(least, u64::MAX) => or_reference(&json!({ "type": "integer", "minimum": least })),
        Kind::Integer(least, most) => {
            or_reference(&json!({ "type": "integer", "minimum": least, "maximum": most }))
        }
        Kind::Number(least, most) => {
            or_reference(&json!({ "type": "number", "minimum": least, "maximum": most }))
        }
        Kind::Choice(names) => or_reference(&json!({ "enum": names })),
        Kind::FieldOf(table) => {
            let names: Vec<_> = table.fields.iter().map(|field| field.name).collect();
            or_reference(&json!({ "enum": names }))
        }
        Kind::OneOrMore(one) => {
            let one = kind(one, definitions);
            json!({ "anyOf": [one, { "type": "array", "items": one }] })
        }
        Kind::List(each) => json!({ "type": "array", "items": kind(each, definitions), "minItems": 1 }),
        Kind::Tuple(each, length) => {
            json!({ "type": "array", "items": kind(each, definitions), "minItems": length, "maxItems": length })
        }
        Kind::Map(each) => json!({ "type": "object", "additionalProperties": kind(each, definitions) }),
        Kind::Table(inner) => {
            define(inner.name, definitions, |definitions| Value::Object(table(inner, definitions)))
        }
        Kind::AnyOf(kinds) => {
            json!({ "anyOf": kinds.iter().map(|one| kind(one, definitions)).collect::<Vec<_>>() })
        }
    }
}

/// Makes a definition, unless it is there or being made, and refers to it.
fn define(
    name: &'static str,
    definitions: &mut Definitions,
    make: impl FnOnce(&mut Definitions) -> Value,
) -> Value {
    if !definitions.contains_key(name) {
        definitions.insert(name, Value::Null);
        let schema = make(definitions);
        definitions.insert(name, schema);
    }
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// What is not any text may be one with a reference to an environment variable.
fn or_reference(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "type": "string", "pattern": "\\$\\{" }] })
}
