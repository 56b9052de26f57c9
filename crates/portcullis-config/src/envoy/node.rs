//! The values of a YAML document, each with its place.

use super::scalar::Kind;
use crate::source::Span;

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) span: Span,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A scalar as it is written, without quotes, and its type.
    Scalar(String, Kind),
    List(Vec<Node>),
    /// Keys and values in the order of the file, with merge keys resolved. No key is there twice.
    Map(Vec<(Node, Node)>),
}

impl Node {
    /// What the value is, for messages.
    pub(super) fn describe(&self) -> String {
        match &self.value {
            Value::Scalar(_, Kind::Null) => "nothing".into(),
            Value::Scalar(text, kind) => {
                let kind = match kind {
                    Kind::Bool(_) => "the truth value",
                    Kind::Integer(_) | Kind::OtherNumber => "the number",
                    Kind::Null | Kind::Text => "the text",
                };
                format!("{kind} `{}`", super::excerpt(text))
            }
            Value::List(_) => "a list".into(),
            Value::Map(_) => "a map".into(),
        }
    }
}
