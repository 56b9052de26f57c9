//! Errors of deserializing, with the innermost value at fault.

use std::fmt::{self, Display};

use serde::de::{self, Expected, Unexpected};

use super::suggest::{did_you_mean, list_of_fields, nearest};
use super::{Findings, join};
use crate::source::Span;
use crate::text::quoted;
use crate::tree::{Entry, Node};

/// Why a value is not of a type.
#[derive(Debug)]
pub(crate) struct DecodeError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    message: String,
    help: Option<String>,
    /// The names and indices from the value to the one at fault, innermost first.
    path: Vec<String>,
    span: Option<Span>,
}

impl DecodeError {
    fn new(message: String) -> Self {
        Self(Box::new(Inner { message, help: None, path: Vec::new(), span: None }))
    }

    /// Sets the place, unless an inner value is at fault.
    pub(super) fn at(mut self, span: Span) -> Self {
        self.0.span.get_or_insert(span);
        self
    }

    /// Notes that the value at fault is inside a field or an element.
    pub(super) fn inside(mut self, name: &str) -> Self {
        self.0.path.push(name.to_owned());
        self
    }

    /// Adds it to the findings. `path` and `node` are of the value that was read.
    pub(super) fn report(self, path: &str, node: &Node, findings: &Findings) {
        let span = self.0.span.unwrap_or(node.span);
        self.finding(path, span, findings);
    }

    /// The path and the place of a value that is made of some fields of a table: if none of them is known to be at fault, the first is
    /// that the message names.
    pub(super) fn place_among(&self, path: &str, table: Span, entries: &[&Entry]) -> (String, Span) {
        if self.0.span.is_none() {
            let mut names = self.0.message.split('`').skip(1).step_by(2);
            let entry = names.find_map(|name| entries.iter().find(|entry| entry.name == name));
            if let Some(entry) = entry {
                return (join(path, &entry.name), entry.node.span);
            }
        }
        (path.to_owned(), self.0.span.unwrap_or(table))
    }

    /// The field that the value lacks, if that is what is wrong.
    pub(super) fn missing(&self) -> Option<&str> {
        let message = self.0.span.is_none().then_some(&*self.0.message)?;
        let named = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
        named.or_else(|| message.strip_prefix('`')?.strip_suffix("` is missing"))
    }

    /// Adds it to the findings.
    pub(super) fn finding(&self, path: &str, span: Span, findings: &Findings) {
        let mut whole = path.to_owned();
        for part in self.0.path.iter().rev() {
            whole = if part.starts_with('[') { whole + part } else { join(&whole, part) };
        }
        let help = self.0.help.clone().or_else(|| suggestion(&self.0.message));
        findings.error(whole, span, &*self.0.message).maybe_help(help);
    }
}

/// The known name that is nearest to a misspelt one, for messages such as ``unknown strategy "gcrb", expected `gcra` or ...``.
fn suggestion(message: &str) -> Option<String> {
    let (unknown, known) = message.strip_prefix("unknown ")?.split_once(", expected ")?;
    let marks = ['"', '`'];
    let name = unknown.split(marks).nth(1)?;
    let names = known.split(marks).skip(1).step_by(2).filter(|known| !known.contains(' '));
    did_you_mean(name, names)
}

/// What serde calls a type, in words of a file.
fn in_words(expected: &str) -> &str {
    match expected {
        "a boolean" => "true or false",
        "a string" | "a borrowed string" | "string" => "a text",
        "a sequence" => "a list",
        "a map" => "a table",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, at least 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "a nonzero u32" => "a whole number from 1 to 4294967295",
        "a nonzero u64" | "a nonzero usize" => "a whole number, at least 1",
        "f32" | "f64" => "a number",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}

/// How to mend a text where a number or a truth value is expected.
fn unquoted(text: &str, expected: &str) -> Option<String> {
    let help = match (text, expected) {
        ("true" | "false", "true or false") => "remove the quotes",
        ("yes" | "on" | "1", "true or false") => "write true",
        ("no" | "off" | "0", "true or false") => "write false",
        (_, expected) if expected.contains("number") && text.parse::<f64>().is_ok() => "remove the quotes",
        _ => return None,
    };
    Some(help.to_owned())
}

fn found(unexpected: Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(number) => format!("a number: {number}"),
        Unexpected::Signed(number) => format!("a number: {number}"),
        Unexpected::Float(number) => format!("a number: {number}"),
        Unexpected::Str(text) => format!("a text: {}", quoted(text)),
        Unexpected::Unit | Unexpected::Option => "nothing".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a table".to_owned(),
        Unexpected::Other(text) => match text.strip_prefix("integer `").and_then(|rest| rest.split_once('`'))
        {
            Some((number, _)) => format!("a number: {number}"),
            None => text.to_owned(),
        },
        other => other.to_string(),
    }
}

impl de::Error for DecodeError {
    fn custom<T: Display>(message: T) -> Self {
        let message = message.to_string();
        // Types that format serde's message themselves.
        let rest = message.strip_prefix("invalid type: string ");
        match rest.and_then(|rest| rest.split_once(", expected ")) {
            Some((text, expected)) => {
                let mut error = Self::new(format!("expected {expected}, not a text: {text}"));
                error.0.help = unquoted(text.trim_matches('"'), expected);
                error
            }
            None => Self::new(message),
        }
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = expected.to_string();
        let expected = in_words(&expected);
        let mut error = Self::new(format!("expected {expected}, not {}", found(unexpected)));
        if let Unexpected::Str(text) = unexpected {
            error.0.help = unquoted(text, expected);
        }
        error
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        let mut error = Self::new(format!("unknown field {}", quoted(field)));
        error.0.help = Some(match nearest(field, known.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => list_of_fields(known),
        });
        error
    }

    fn unknown_variant(variant: &str, known: &'static [&'static str]) -> Self {
        let names = super::suggest::list(known.iter().copied());
        let mut error = Self::new(format!("{} is not one of {names}", quoted(variant)));
        error.0.help = did_you_mean(variant, known.iter().copied());
        error
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("`{field}` is missing"))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new(format!("`{field}` is given twice"))
    }
}

impl Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for DecodeError {}
