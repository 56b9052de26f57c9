//! Reads JSON.
//!
//! `serde_json` decides what is JSON, and leaves the values inside of one as they are written: parts of the text, which have a place.

use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Context, Entries};
use crate::source::{Format, Span};
use crate::tree::{Entry, Node, Value};

pub(super) fn read(context: &Context<'_>) -> Option<Node> {
    if context.text.trim().is_empty() {
        return Some(Node::new(context.span(0, 0), Value::Null));
    }
    match serde_json::from_str(context.text) {
        Ok(value) => node(context, value, 0),
        Err(error) => {
            let at = offset(context.text, error.line(), error.column());
            context.syntax(Format::Json, context.span(at, at + 1), &reason(&error));
            None
        }
    }
}

/// The message without the place.
fn reason(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.rsplit_once(" at line ").map_or(message.clone(), |(reason, _)| reason.to_owned())
}

/// The byte at a line and a column, both from 1, the column in bytes.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let lines = text.split_inclusive('\n').take(line.saturating_sub(1));
    lines.map(str::len).sum::<usize>() + column.saturating_sub(1)
}

/// Reads a value. `None` after a text with escapes that are no characters.
fn node(context: &Context<'_>, raw: &RawValue, depth: usize) -> Option<Node> {
    let (written, span) = (raw.get(), place(context, raw));
    let value = match written.as_bytes().first()? {
        b'{' | b'[' if !context.is_shallow(depth, Span { end: span.start + 1, ..span }) => Value::Null,
        b'{' => map(context, written, depth)?,
        b'[' => {
            let list: Vec<&RawValue> = serde_json::from_str(written).ok()?;
            Value::List(list.into_iter().map(|one| node(context, one, depth + 1)).collect::<Option<_>>()?)
        }
        b'"' => Value::String(text(context, raw)?),
        b'n' => Value::Null,
        b't' | b'f' => Value::Bool(written == "true"),
        _ => match written.parse() {
            Ok(integer) => Value::Integer(integer),
            Err(_) => Value::Float(written.parse().ok()?),
        },
    };
    Some(Node::new(span, value))
}

fn map(context: &Context<'_>, written: &str, depth: usize) -> Option<Value> {
    let fields = serde_json::Deserializer::from_str(written).deserialize_map(Fields).ok()?;
    let mut entries = Entries::default();
    for (name, value) in fields {
        let (name, name_span) = (text(context, name)?, place(context, name));
        let node = node(context, value, depth + 1)?;
        context.insert(&mut entries, Entry { name, name_span, node });
    }
    Some(Value::Map(entries.list))
}

fn text(context: &Context<'_>, raw: &RawValue) -> Option<String> {
    // What is left as it is written was not looked into.
    let text = serde_json::from_str(raw.get());
    text.map_err(|error| context.syntax(Format::Json, place(context, raw), &reason(&error))).ok()
}

/// The place of a part of the text.
fn place(context: &Context<'_>, raw: &RawValue) -> Span {
    let start = raw.get().as_ptr().addr() - context.text.as_ptr().addr();
    context.span(start, start + raw.get().len())
}

/// Finds all fields of a table, also those that are there twice.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Vec<(&'de RawValue, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(fields)
    }
}
