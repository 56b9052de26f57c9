//! The JSON Schema of rules, from the tables of their fields.

use serde_json::{Value, json};

mod fields;
#[cfg(test)]
mod tests;

/// The schema of a table.
struct Table {
    schema: Value,
    /// The fields, in their order.
    names: Vec<&'static str>,
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
    let mut root = fields::root().schema;
    root["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    root["title"] = json!("Rules of the Portcullis rate limiter");
    root["$defs"] = fields::definitions();
    root
}

/// The names of the fields of a policy.
pub(crate) fn policy_fields() -> Vec<&'static str> {
    fields::policy().names
}

impl Table {
    fn new(about: &str) -> Self {
        let schema = json!({ "type": "object", "description": about, "additionalProperties": false });
        Self { schema, names: Vec::new() }
    }

    fn field(mut self, name: &'static str, mut schema: Value, about: &str) -> Self {
        schema["description"] = json!(about);
        self.schema["properties"][name] = schema;
        self.names.push(name);
        self
    }

    fn required(self, name: &'static str, schema: Value, about: &str) -> Self {
        let mut table = self.field(name, schema, about);
        match &mut table.schema["required"] {
            Value::Array(names) => names.push(json!(name)),
            none => *none = json!([name]),
        }
        table
    }

    fn at_least_one(mut self) -> Self {
        self.schema["minProperties"] = json!(1);
        self
    }

    fn at_most_one(mut self) -> Self {
        self.schema["maxProperties"] = json!(1);
        self
    }
}

/// What has a definition of this name.
fn defined(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn text() -> Value {
    json!({ "type": "string" })
}

/// A text of a form that only the reader knows exactly.
fn pattern(pattern: &str) -> Value {
    or_reference(json!({ "type": "string", "pattern": pattern }))
}

fn boolean() -> Value {
    or_reference(json!({ "type": "boolean" }))
}

/// A whole number in a range.
fn integer(least: u64, most: u64) -> Value {
    let mut integer = json!({ "type": "integer", "minimum": least });
    if most < u64::MAX {
        integer["maximum"] = json!(most);
    }
    or_reference(integer)
}

/// A number in a range.
fn number(least: f64, most: f64) -> Value {
    or_reference(json!({ "type": "number", "minimum": least, "maximum": most }))
}

/// One of some texts.
fn choice(names: &[&str]) -> Value {
    or_reference(json!({ "enum": names }))
}

/// A value, or a list of such values.
fn one_or_more(one: &Value) -> Value {
    any_of(&[one.clone(), json!({ "type": "array", "items": one })])
}

/// A list with at least one value.
fn list(each: &Value) -> Value {
    json!({ "type": "array", "items": each, "minItems": 1 })
}

/// A list of a number of values.
fn tuple(each: &Value, length: usize) -> Value {
    json!({ "type": "array", "items": each, "minItems": length, "maxItems": length })
}

/// A table whose names the author chooses.
fn map(each: &Value) -> Value {
    json!({ "type": "object", "additionalProperties": each })
}

fn any_of(schemas: &[Value]) -> Value {
    json!({ "anyOf": schemas })
}

/// What is not any text may be one with a reference to an environment variable.
fn or_reference(schema: Value) -> Value {
    any_of(&[schema, json!({ "type": "string", "pattern": "\\$\\{" })])
}
