//! Reads the fields of tables.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use http::HeaderName;
use serde::de::DeserializeOwned;

use crate::findings::Finding;
pub(crate) use crate::findings::Findings;
use crate::source::Span;
use crate::tables::{Required, Table};
pub(crate) use crate::text::quoted;
use crate::tree::{Entry, Node, Value};

mod alone;
mod deserialize;
mod error;
mod suggest;
#[cfg(test)]
mod tests;

use deserialize::MapFields;
pub(crate) use deserialize::Part;
pub(crate) use error::DecodeError;
pub(crate) use suggest::{did_you_mean, nearest};

/// One table of a file.
pub(crate) struct Fields<'a> {
    table: &'static Table,
    pub(crate) node: &'a Node,
    pub(crate) path: String,
    findings: &'a Findings,
    /// The fields that are there under a misspelt name.
    misspelt: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// The fields of a table. Unknown fields and missing ones are findings, and so is a value that is no table.
    pub(crate) fn of(
        node: &'a Node,
        path: impl Into<String>,
        table: &'static Table,
        findings: &'a Findings,
    ) -> Option<Self> {
        let path = path.into();
        let entries = entries(node, &path, findings)?;
        let mut fields = Self { table, node, path, findings, misspelt: Vec::new() };
        for entry in entries.iter().filter(|entry| table.field(&entry.name).is_none()) {
            fields.unknown(entry);
        }
        for field in table.fields {
            if let Required::Yes(help) = field.required
                && fields.node(field.name).is_none()
            {
                fields.missing(&[field.name], format!("`{}` is missing", field.name)).maybe_help(help);
            }
        }
        Some(fields)
    }

    fn unknown(&mut self, entry: &Entry) {
        let message = format!("unknown field {}", quoted(&entry.name));
        let finding = self.findings.error(self.path(&entry.name), entry.name_span, message);
        if let Some(name) = nearest(&entry.name, self.table.names().filter(|known| !self.has(known))) {
            finding.help(format!("did you mean `{name}`?"));
            self.misspelt.push(name);
        } else if self.table.fields.len() <= 12 {
            finding.help(suggest::list_of_fields(&self.table.names().collect::<Vec<_>>()));
        }
    }

    /// The fields of a table in a field of this one.
    pub(crate) fn table(&self, field: &'static str) -> Option<Self> {
        let table = self.table.field(field)?.kind.table()?;
        Self::of(self.node(field)?, self.path(field), table, self.findings)
    }

    /// Adds an error that one of these fields is missing, at the table. If the table has one of them under a misspelt name, that is one
    /// mistake, and its finding has the place.
    pub(crate) fn missing(&self, names: &[&str], message: impl Into<String>) -> Finding<'a> {
        self.missing_at(names, self.path.clone(), self.node.span, message)
    }

    /// Like [`missing`](Self::missing), where any field of the table would do.
    pub(crate) fn missing_any(&self, message: &str) -> Finding<'a> {
        self.missing(&self.table.names().collect::<Vec<_>>(), message)
    }

    /// Like [`missing`](Self::missing), at another place.
    pub(crate) fn missing_at(
        &self,
        names: &[&str],
        path: String,
        span: Span,
        message: impl Into<String>,
    ) -> Finding<'a> {
        if self.is_misspelt(names) { self.findings.none() } else { self.findings.error(path, span, message) }
    }

    fn is_misspelt(&self, names: &[&str]) -> bool {
        // A quota may be written in several fields.
        let in_parts = names.contains(&"quota").then_some("limit");
        names.iter().copied().chain(in_parts).any(|name| self.misspelt.contains(&name))
    }

    /// Adds an error about a field, at its value, or at the table if it is absent.
    pub(crate) fn error(&self, field: &str, message: impl Into<String>) -> Finding<'a> {
        self.findings.error(self.path(field), self.span_of(field), message)
    }

    /// Adds a warning about a field.
    pub(crate) fn warning(&self, field: &str, message: impl Into<String>) -> Finding<'a> {
        self.findings.warning(self.path(field), self.span_of(field), message)
    }

    /// The path of a field of this table.
    pub(crate) fn path(&self, field: &str) -> String {
        join(&self.path, field)
    }

    /// The place of a field's value, or of the table if it is absent.
    pub(crate) fn span_of(&self, field: &str) -> Span {
        self.node.span_of(field)
    }

    /// Whether the field is there.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.node.get(field).is_some()
    }

    /// Whether the table has none of its fields.
    pub(crate) fn is_empty(&self) -> bool {
        !self.table.names().any(|name| self.has(name))
    }

    /// The value of a field. YAML's and JSON's `null` count as absent.
    pub(crate) fn node(&self, field: &str) -> Option<&'a Node> {
        debug_assert!(self.table.field(field).is_some(), "{field} is no field of {}", self.table.name);
        self.node.get(field).map(|entry| &entry.node).filter(|node| node.value != Value::Null)
    }

    /// The values of a list, or one value alone.
    pub(crate) fn each(&self, field: &str) -> std::slice::Iter<'a, Node> {
        self.node(field).map(Node::each).unwrap_or_default().iter()
    }

    /// A value of a type that serde reads. An error is a finding at the innermost value at fault.
    pub(crate) fn read<T: DeserializeOwned>(&self, field: &'static str) -> Option<T> {
        let node = self.node(field)?;
        decode(node, &self.path(field), self.findings)
    }

    /// The texts of a list, or one text alone, each with its node. `None` after a finding.
    pub(crate) fn texts(&self, field: &'static str) -> Option<Vec<(&'a str, &'a Node)>> {
        let node = self.node(field)?;
        let text = |one: &'a Node| match &one.value {
            Value::String(text) => Some((text.as_str(), one)),
            other => {
                let message = format!("expected a text, not {}", other.kind());
                self.findings.error(self.path(field), one.span, message);
                None
            }
        };
        // All are read, so that all mistakes are found.
        let texts: Vec<_> = node.each().iter().map(text).collect();
        texts.into_iter().collect()
    }

    /// A value that is written as a text.
    pub(crate) fn parse<T: FromStr<Err: Display>>(&self, field: &'static str) -> Option<T> {
        self.parse_with(field, str::parse)
    }

    /// Like [`parse`](Self::parse), with a function that parses.
    pub(crate) fn parse_with<T, E: Display>(
        &self,
        field: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let node = self.node(field)?;
        let Value::String(text) = &node.value else {
            self.expected(field, node, "a text");
            return None;
        };
        parse(text)
            .map_err(|error| {
                let message = error.to_string();
                // Errors that name the value need no second one.
                let message =
                    if message.contains(&**text) { message } else { format!("{}: {message}", quoted(text)) };
                self.findings.error(self.path(field), node.span, message);
            })
            .ok()
    }

    /// The name of a header.
    pub(crate) fn header(&self, field: &'static str) -> Option<HeaderName> {
        self.parse_with(field, |text| text.parse().map_err(|_| format!("{text:?} is no name of a header")))
    }

    /// A duration such as `"1m 30s"`.
    pub(crate) fn duration(&self, field: &'static str) -> Option<Duration> {
        let node = self.node(field)?;
        if !matches!(node.value, Value::String(_)) {
            self.expected(field, node, "a duration")
                .help("write a number with a unit: \"500ms\", \"2s\", \"1m 30s\"");
            return None;
        }
        humantime_serde::deserialize(node)
            .map_err(|_: DecodeError| {
                let Value::String(text) = &node.value else { return };
                let message = format!("{} is no duration", quoted(text));
                self.findings
                    .error(self.path(field), node.span, message)
                    .help("write a number with a unit: \"500ms\", \"2s\", \"1m 30s\"");
            })
            .ok()
    }

    /// One of several names.
    pub(crate) fn choice<T: Copy>(&self, field: &'static str, choices: &[(&'static str, T)]) -> Option<T> {
        let node = self.node(field)?;
        let names = || choices.iter().map(|(name, _)| *name);
        let Value::String(text) = &node.value else {
            self.expected(field, node, &format!("one of {}", suggest::list(names())));
            return None;
        };
        if let Some((_, choice)) = choices.iter().find(|(name, _)| name == text) {
            return Some(*choice);
        }
        let message = format!("{} is not one of {}", quoted(text), suggest::list(names()));
        self.findings.error(self.path(field), node.span, message).maybe_help(did_you_mean(text, names()));
        None
    }

    /// Reads some fields together as one value, such as a strategy. An error is a finding at the field at fault, and the others are
    /// then read without it, to find what is wrong with them whatever it is.
    pub(crate) fn sub_with<T>(
        &self,
        fields: &[&'static str],
        read: impl Fn(Part<'_>) -> Result<T, DecodeError>,
    ) -> Option<T> {
        let is_read =
            |entry: &&Entry| fields.contains(&entry.name.as_str()) && entry.node.value != Value::Null;
        let entries: Vec<_> = self.node.entries().iter().filter(is_read).collect();
        let error = match read(Part::new(MapFields::new(entries.clone()))) {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let (path, span) = error.place_among(&self.path, self.node.span, &entries);
        if !self.is_misspelt(error.missing().as_slice()) {
            error.finding(&path, span, self.findings);
        }
        self.report_others(entries, span, &read);
        None
    }

    /// An error about a value of the wrong kind.
    pub(crate) fn expected(&self, field: &str, node: &Node, expected: &str) -> Finding<'a> {
        let message = format!("expected {expected}, not {}", suggest::described(node));
        self.findings.error(self.path(field), node.span, message)
    }
}

/// The fields of a table whose names the author chooses. A value that is no table is a finding.
pub(crate) fn entries<'a>(node: &'a Node, path: &str, findings: &Findings) -> Option<&'a [Entry]> {
    let Value::Map(entries) = &node.value else {
        findings.error(path, node.span, format!("expected a table, not {}", suggest::described(node)));
        return None;
    };
    Some(entries)
}

/// Reads a value of a type that serde reads. An error is a finding at the innermost value at fault.
pub(crate) fn decode<T: DeserializeOwned>(node: &Node, path: &str, findings: &Findings) -> Option<T> {
    T::deserialize(node).map_err(|error| error.report(path, node, findings)).ok()
}

/// The path of a field of a table. Names that are not plain are in quotes, as in TOML.
pub(crate) fn join(path: &str, field: &str) -> String {
    let is_plain = |next: char| next.is_ascii_alphanumeric() || next == '_' || next == '-';
    let field =
        if !field.is_empty() && field.chars().all(is_plain) { field.to_owned() } else { quoted(field) };
    if path.is_empty() { field } else { format!("{path}.{field}") }
}
