//! Reads JSON.
//!
//! `serde_json` decides what is JSON. Then a second pass, over a text that is known to be valid, finds the places.

use serde::de::IgnoredAny;

use super::parse::{Context, Entries};
use crate::source::Format;
use crate::tree::{Entry, Node, Value};

pub(super) fn read(context: &Context<'_>) -> Option<Node> {
    if context.text.trim().is_empty() {
        return Some(Node::new(context.span(0, 0), Value::Null));
    }
    if let Err(error) = serde_json::from_str::<IgnoredAny>(context.text) {
        let at = offset(context.text, error.line(), error.column());
        context.syntax(Format::Json, context.span(at, at + 1), &reason(&error));
        return None;
    }
    Reader { context, at: 0 }.node(0)
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

struct Reader<'a> {
    context: &'a Context<'a>,
    at: usize,
}

impl Reader<'_> {
    /// Reads a value. `None` after a text with escapes that are no characters.
    fn node(&mut self, depth: usize) -> Option<Node> {
        self.skip_space();
        let start = self.at;
        let first = self.peek()?;
        let is_container = matches!(first, b'{' | b'[');
        let is_shallow = !is_container || self.context.is_shallow(depth, self.context.span(start, start + 1));
        let value = match first {
            // Without a call of itself, which a deep one would repeat until the stack is full.
            _ if !is_shallow => {
                self.skip_container();
                Value::Null
            }
            b'{' => self.map(depth)?,
            b'[' => self.list(depth)?,
            b'"' => Value::String(self.string()?),
            _ => self.scalar()?,
        };
        let span = self.context.span(start, self.at);
        Some(Node::new(span, value))
    }

    fn map(&mut self, depth: usize) -> Option<Value> {
        let mut entries = Entries::default();
        self.at += 1;
        self.skip_space();
        while self.peek()? != b'}' {
            self.skip(b',');
            let start = self.at;
            let name = self.string()?;
            let name_span = self.context.span(start, self.at);
            self.skip_space();
            self.skip(b':');
            let node = self.node(depth + 1)?;
            self.context.insert(&mut entries, Entry { name, name_span, node });
            self.skip_space();
        }
        self.at += 1;
        Some(Value::Map(entries.list))
    }

    fn list(&mut self, depth: usize) -> Option<Value> {
        let mut list = Vec::new();
        self.at += 1;
        self.skip_space();
        while self.peek()? != b']' {
            self.skip(b',');
            list.push(self.node(depth + 1)?);
            self.skip_space();
        }
        self.at += 1;
        Some(Value::List(list))
    }

    fn string(&mut self) -> Option<String> {
        let start = self.at;
        let mut bytes = self.context.text.as_bytes().get(start + 1..)?.iter();
        self.at += 2;
        loop {
            match bytes.next()? {
                b'"' => break,
                b'\\' => {
                    bytes.next()?;
                    self.at += 2;
                }
                _ => self.at += 1,
            }
        }
        // The first pass does not look into texts.
        let text = serde_json::from_str(self.context.text.get(start..self.at)?);
        text.map_err(|error| {
            self.context.syntax(Format::Json, self.context.span(start, self.at), &reason(&error))
        })
        .ok()
    }

    fn scalar(&mut self) -> Option<Value> {
        let rest = self.context.text.get(self.at..)?;
        let length = rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(rest.len());
        self.at += length;
        Some(match &rest[..length] {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            number => match number.parse() {
                Ok(integer) => Value::Integer(integer),
                Err(_) => Value::Float(number.parse().ok()?),
            },
        })
    }

    /// Skips a list or a table with all that it contains.
    fn skip_container(&mut self) {
        let (mut depth, mut is_text) = (0_usize, false);
        while let Some(next) = self.peek() {
            self.at += 1;
            match next {
                b'\\' => self.at += 1,
                b'"' => is_text = !is_text,
                b'[' | b'{' if !is_text => depth += 1,
                b']' | b'}' if !is_text => {
                    depth -= 1;
                    if depth == 0 {
                        return;
                    }
                }
                _ => {}
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.context.text.as_bytes().get(self.at).copied()
    }

    /// Skips a separator and the space behind it.
    fn skip(&mut self, separator: u8) {
        if self.peek() == Some(separator) {
            self.at += 1;
            self.skip_space();
        }
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|next| b" \t\r\n".contains(&next)) {
            self.at += 1;
        }
    }
}
