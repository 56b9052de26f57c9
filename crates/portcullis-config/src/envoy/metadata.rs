//! The metadata of a descriptor.

use super::findings::Findings;
use super::node::{Node, Value};
use super::scalar::Kind;

/// The metadata of a descriptor: names and values, in the order of the file.
pub type Metadata = Vec<(String, MetadataValue)>;

/// A value of the metadata: what a `google.protobuf.Struct` can hold, which is the form that they have in a response.
#[derive(Clone, Debug, PartialEq)]
pub enum MetadataValue {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<MetadataValue>),
    /// Names and values, in the order of the file.
    Map(Metadata),
}

/// Reads the field `metadata`.
pub(super) fn read(node: &Node, field: &str, findings: &mut Findings) -> Metadata {
    match &node.value {
        Value::Map(_) => match convert(node, field, findings) {
            MetadataValue::Map(map) => map,
            _ => Metadata::new(),
        },
        Value::Scalar(_, Kind::Null) => Metadata::new(),
        Value::Scalar(..) | Value::List(_) => {
            let message = format!("metadata are a map, not {}", node.describe());
            findings
                .error(field, node.span, message)
                .help("write names and values, each in a line of its own");
            Metadata::new()
        }
    }
}

fn convert(node: &Node, field: &str, findings: &mut Findings) -> MetadataValue {
    match &node.value {
        Value::Scalar(_, Kind::Null) => MetadataValue::Null,
        Value::Scalar(_, Kind::Bool(value)) => MetadataValue::Bool(*value),
        #[expect(clippy::cast_precision_loss, reason = "a protobuf Struct has no other numbers")]
        Value::Scalar(_, Kind::Integer(value)) => MetadataValue::Number(*value as f64),
        Value::Scalar(text, Kind::OtherNumber) => text
            .replace('_', "")
            .parse()
            .map_or_else(|_| MetadataValue::Text(text.clone()), MetadataValue::Number),
        Value::Scalar(text, Kind::Text) => MetadataValue::Text(text.clone()),
        Value::List(items) => {
            MetadataValue::List(items.iter().map(|item| convert(item, field, findings)).collect())
        }
        Value::Map(entries) => {
            let mut map = Metadata::with_capacity(entries.len());
            for (key, value) in entries {
                if let Value::Scalar(name, _) = &key.value {
                    map.push((name.clone(), convert(value, field, findings)));
                } else {
                    let message = format!("the name of a value is {}", key.describe());
                    findings.error(field, key.span, message).help("use a text as the name");
                }
            }
            MetadataValue::Map(map)
        }
    }
}
