//! `headers` and `query` of a condition.

use http::HeaderName;

use super::super::matcher::value::{ValueCondition, ValueTest, WrittenValue};
use super::Reader;
use super::clients::never_trusted;
use crate::fields::{Fields, entries, join};
use crate::tables::{PARAMETER_TABLE, VALUE_TABLE};
use crate::text::quoted;
use crate::tree::{Entry, Value};
use portcullis_tower::matching::RequestValue;

impl Reader<'_> {
    /// All conditions of a table of requests.
    pub(super) fn values(&self, fields: &Fields<'_>) -> Vec<ValueCondition> {
        let mut values = Vec::new();
        for field in ["headers", "query"] {
            let Some(node) = fields.node(field) else { continue };
            let path = fields.path(field);
            let entries = entries(node, &path, self.findings).unwrap_or_default();
            values.extend(
                entries.iter().filter_map(|entry| self.value(field, entry, &join(&path, &entry.name))),
            );
        }
        values
    }

    fn value(&self, field: &'static str, entry: &Entry, path: &str) -> Option<ValueCondition> {
        let mut name = entry.name.clone();
        let mut header = None;
        if field == "headers" {
            let Ok(parsed) = name.parse::<HeaderName>() else {
                let message = format!("{} is no name of a header", quoted(&name));
                self.findings.error(path, entry.name_span, message);
                return None;
            };
            parsed.as_str().clone_into(&mut name);
            header = Some(parsed);
        }
        let (test, is_trusted) = match &entry.node.value {
            Value::String(text) if text == "present" => (ValueTest::Present, false),
            Value::String(text) if text == "absent" => (ValueTest::Absent, false),
            Value::String(text) => {
                let message = format!("{} is not one of \"present\" or \"absent\"", quoted(text));
                let help = format!("write {{ equals = {} }} for its value", quoted(text));
                self.findings.error(path, entry.node.span, message).help(help);
                return None;
            }
            _ => {
                // The reason why a parameter has no `trusted` helps more than that the field is unknown.
                let is_trusted_parameter = header.is_none() && entry.node.get("trusted").is_some();
                let has_trusted = header.is_some() || is_trusted_parameter;
                let table = if has_trusted { &VALUE_TABLE } else { &PARAMETER_TABLE };
                let fields = Fields::of(&entry.node, path, table, self.findings)?;
                if is_trusted_parameter {
                    never_trusted(&fields);
                }
                let is_trusted = header.is_some() && self.trusted(&fields, header.as_ref());
                (self.value_test(&fields)?, is_trusted && self.names_proxies())
            }
        };
        Some(ValueCondition::new(WrittenValue { field, name, test, is_trusted }, &self.clients))
    }

    fn value_test(&self, fields: &Fields<'_>) -> Option<ValueTest> {
        let present = fields.read("present");
        let [equals, prefix] = ["equals", "prefix"].map(|field| self.value_texts(fields, field));
        let given = ["present", "equals", "prefix"].into_iter().filter(|field| fields.has(field)).count();
        if given != 1 {
            fields
                .missing(&["present", "equals", "prefix"], format!("the table has {given} conditions"))
                .help("write one of `present`, `equals` and `prefix`");
            return None;
        }
        let present = present.map(|is| if is { ValueTest::Present } else { ValueTest::Absent });
        present.or(equals.map(ValueTest::Equals)).or(prefix.map(ValueTest::Prefix))
    }

    fn value_texts(&self, fields: &Fields<'_>, field: &'static str) -> Option<Vec<String>> {
        let texts = fields.texts(field)?;
        let before = self.findings.len();
        for (text, node) in &texts {
            let problem = match text.len() {
                0 => "a value that is empty is never equal to a text",
                length if length > RequestValue::MAX_BYTES => {
                    "a value of more than 1024 bytes is not compared"
                }
                _ => continue,
            };
            self.findings.error(fields.path(field), node.span, problem);
        }
        if texts.is_empty() {
            fields.error(field, "the list is empty, so that no value fulfils it");
        }
        (self.findings.len() == before).then(|| texts.into_iter().map(|(text, _)| text.to_owned()).collect())
    }
}
