//! Reads the fields of tables.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use http::HeaderName;
use serde::de::DeserializeOwned;

use crate::findings::Finding;
pub(crate) use crate::findings::Findings;
use crate::source::Span;
pub(crate) use crate::text::quoted;
use crate::tree::{Entry, Node, Value};

mod alone;
mod deserialize;
mod error;
mod missing;
mod suggest;
#[cfg(test)]
mod tests;

use deserialize::MapFields;
pub(crate) use deserialize::Part;
pub(crate) use error::DecodeError;
use missing::Missing;
pub(crate) use suggest::{did_you_mean, nearest};

/// One table, whose fields are read one after the other.
///
/// [`finish`](Self::finish) reports those that were not read.
pub(crate) struct Fields<'a> {
    entries: &'a [Entry],
    read: Vec<Cell<bool>>,
    /// All that were asked for, for "did you mean".
    known: Vec<&'static str>,
    path: String,
    span: Span,
    findings: &'a Findings,
    missing: RefCell<Vec<Missing>>,
}

impl<'a> Fields<'a> {
    /// The fields of a table. A value that is no table is a finding.
    pub(crate) fn of(node: &'a Node, path: impl Into<String>, findings: &'a Findings) -> Option<Self> {
        let path = path.into();
        let Value::Map(entries) = &node.value else {
            findings.error(path, node.span, format!("expected a table, not {}", suggest::described(node)));
            return None;
        };
        let read = entries.iter().map(|_| Cell::new(false)).collect();
        let (known, missing) = (Vec::new(), RefCell::default());
        Some(Self { entries, read, known, path, span: node.span, findings, missing })
    }

    /// The fields of a table in a field of this one.
    pub(crate) fn table(&mut self, field: &'static str) -> Option<Self> {
        let node = self.node(field)?;
        Self::of(node, self.path(field), self.findings)
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

    /// The path of the table itself.
    pub(crate) fn own_path(&self) -> &str {
        &self.path
    }

    /// The place of the table.
    pub(crate) fn span(&self) -> Span {
        self.span
    }

    #[cfg(test)]
    pub(crate) fn findings(&self) -> &'a Findings {
        self.findings
    }

    /// The place of a field's value, or of the table if it is absent.
    pub(crate) fn span_of(&self, field: &str) -> Span {
        let entry = self.entries.iter().find(|entry| entry.name == field);
        entry.map_or(self.span, |entry| entry.node.span)
    }

    /// Whether the field is there. Does not read it.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == field)
    }

    /// The value of a field. Does not read it.
    pub(crate) fn value(&self, field: &str) -> Option<&'a Value> {
        let entry = self.entries.iter().find(|entry| entry.name == field)?;
        Some(&entry.node.value).filter(|value| **value != Value::Null)
    }

    /// The value of a field. YAML's and JSON's `null` count as absent.
    pub(crate) fn node(&mut self, field: &'static str) -> Option<&'a Node> {
        if !self.known.contains(&field) {
            self.known.push(field);
        }
        let at = self.entries.iter().position(|entry| entry.name == field)?;
        self.read[at].set(true);
        Some(&self.entries[at].node).filter(|node| node.value != Value::Null)
    }

    /// All fields that were not read so far, for a table whose names the author chooses. They count as read.
    pub(crate) fn rest(&mut self) -> Vec<&'a Entry> {
        let unread = self.entries.iter().zip(&self.read).filter(|(_, read)| !read.replace(true));
        unread.map(|(entry, _)| entry).collect()
    }

    /// A value of a type that serde reads. An error is a finding at the innermost value at fault.
    pub(crate) fn read<T: DeserializeOwned>(&mut self, field: &'static str) -> Option<T> {
        let node = self.node(field)?;
        decode(node, &self.path(field), self.findings)
    }

    /// The texts of a list, or one text alone, each with its node. `None` after a finding.
    pub(crate) fn texts(&mut self, field: &'static str) -> Option<Vec<(&'a str, &'a Node)>> {
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
    pub(crate) fn parse<T: FromStr<Err: Display>>(&mut self, field: &'static str) -> Option<T> {
        self.parse_with(field, str::parse)
    }

    /// Like [`parse`](Self::parse), with a function that parses.
    pub(crate) fn parse_with<T, E: Display>(
        &mut self,
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
    pub(crate) fn header(&mut self, field: &'static str) -> Option<HeaderName> {
        self.parse_with(field, |text| text.parse().map_err(|_| format!("{text:?} is no name of a header")))
    }

    /// A duration such as `"1m 30s"`.
    pub(crate) fn duration(&mut self, field: &'static str) -> Option<Duration> {
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
    pub(crate) fn choice<T: Copy>(
        &mut self,
        field: &'static str,
        choices: &[(&'static str, T)],
    ) -> Option<T> {
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

    /// A field that must be there: a finding at the table if it is not in the file.
    pub(crate) fn required<T>(&self, field: &str, value: Option<T>) -> Option<T> {
        let entry = self.entries.iter().find(|entry| entry.name == field);
        if value.is_none() && entry.is_none_or(|entry| entry.node.value == Value::Null) {
            self.missing(&[field], format!("`{field}` is missing"));
        }
        value
    }

    /// Reads some fields together as one type, such as a strategy. An error is a finding at the field at fault.
    #[cfg(test)]
    pub(crate) fn sub<T: DeserializeOwned>(&mut self, fields: &[&'static str]) -> Option<T> {
        self.sub_with(fields, |part| T::deserialize(part))
    }

    /// Reads some fields together as one value, such as a strategy. An error is a finding at the field at fault, and the others are
    /// then read without it, to find what is wrong with them whatever it is.
    pub(crate) fn sub_with<T>(
        &mut self,
        fields: &[&'static str],
        read: impl Fn(Part<'_>) -> Result<T, DecodeError>,
    ) -> Option<T> {
        self.known.extend(fields);
        let mut entries = Vec::new();
        for (entry, read) in self.entries.iter().zip(&self.read) {
            if fields.contains(&entry.name.as_str()) {
                read.set(true);
                if entry.node.value != Value::Null {
                    entries.push(entry);
                }
            }
        }
        let error = match read(Part::new(MapFields::new(entries.clone()))) {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let (path, span) = error.place_among(&self.path, self.span, &entries);
        let path = error.finding(&path, span, self.findings);
        self.note_missing(error.missing().as_slice(), &path, &error.to_string());
        self.report_others(entries, span, &read);
        None
    }

    /// An error about a value of the wrong kind.
    pub(crate) fn expected(&self, field: &str, node: &Node, expected: &str) -> Finding<'a> {
        let message = format!("expected {expected}, not {}", suggest::described(node));
        self.findings.error(self.path(field), node.span, message)
    }

    /// Reports the fields that were not read.
    pub(crate) fn finish(self) {
        #[cfg(test)]
        asked::record(&self.path, &self.known);
        for (entry, read) in self.entries.iter().zip(&self.read) {
            if read.get() {
                continue;
            }
            let message = format!("unknown field {}", quoted(&entry.name));
            let finding = self.findings.error(self.path(&entry.name), entry.name_span, message);
            let unused = self.known.iter().filter(|known| !self.has(known));
            match nearest(&entry.name, unused.copied()) {
                Some(name) => {
                    let finding = finding.help(format!("did you mean `{name}`?"));
                    self.retract_missing(name);
                    finding
                }
                None if self.known.len() <= 12 && !self.known.is_empty() => {
                    finding.help(suggest::list_of_fields(&self.known))
                }
                None => finding,
            };
        }
    }
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

/// The fields that readers ask for, for the test of the schema.
#[cfg(test)]
pub(crate) mod asked {
    use std::cell::RefCell;
    use std::collections::{BTreeMap, BTreeSet};

    type Asked = BTreeMap<String, BTreeSet<&'static str>>;

    thread_local! {
        static ASKED: RefCell<Asked> = RefCell::default();
    }

    pub(super) fn record(path: &str, known: &[&'static str]) {
        ASKED.with_borrow_mut(|asked| asked.entry(path.to_owned()).or_default().extend(known));
    }

    /// What this thread has asked for since the last call, by the path of the table.
    pub(crate) fn take() -> Asked {
        ASKED.take()
    }
}
