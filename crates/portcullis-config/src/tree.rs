//! A document as a tree of values, each with its place, whatever the format.

use std::fmt;

use crate::source::Span;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
    /// Whether the value is a text that was `${NAME}` and nothing else in the file, so that it may mean a number.
    pub(crate) from_environment: bool,
}

impl Node {
    pub(crate) const fn new(span: Span, value: Value) -> Self {
        Self { span, value, from_environment: false }
    }

    /// The place of a field's value. If this is no table, or lacks it, that of the whole.
    pub(crate) fn span_of(&self, field: &str) -> Span {
        self.get(field).map_or(self.span, |entry| entry.node.span)
    }

    /// The value, if it is a text.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Removes a field, if this is a table that has it.
    pub(crate) fn take(&mut self, field: &str) -> Option<Entry> {
        let Value::Map(entries) = &mut self.value else { return None };
        let at = entries.iter().position(|entry| entry.name == field)?;
        Some(entries.remove(at))
    }

    /// The fields of a table. Other values have none.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The elements of a list, or one value alone.
    pub(crate) fn each(&self) -> &[Self] {
        match &self.value {
            Value::List(list) => list,
            _ => std::slice::from_ref(self),
        }
    }

    /// The value of a field, if this is a table that has it.
    pub(crate) fn get(&self, field: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.name == field)
    }
}

/// A value of TOML, YAML or JSON.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    String(String),
    List(Vec<Node>),
    /// In the order of the file. No name is there twice.
    Map(Vec<Entry>),
}

/// A field of a map.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// The place of the name.
    pub(crate) name_span: Span,
    pub(crate) node: Node,
}

impl fmt::Display for Node {
    /// Prints the value in one line, as TOML has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Integer(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value}"),
            Value::String(value) => write!(f, "{value:?}"),
            Value::List(list) => {
                f.write_str("[")?;
                for (index, one) in list.iter().enumerate() {
                    write!(f, "{}{one}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Value::Map(entries) => {
                f.write_str("{")?;
                for (index, Entry { name, node, .. }) in entries.iter().enumerate() {
                    let separator = if index == 0 { " " } else { ", " };
                    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
                    if name.bytes().all(is_bare) {
                        write!(f, "{separator}{name} = {node}")?;
                    } else {
                        write!(f, "{separator}{name:?} = {node}")?;
                    }
                }
                f.write_str(" }")
            }
        }
    }
}

impl Value {
    /// What the value is, for messages: "a number".
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a truth value",
            Self::Integer(_) | Self::Float(_) => "a number",
            Self::String(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a table",
        }
    }
}
