//! YAML with the place of each value, as Envoy's service reads it: YAML 1.1 scalars, aliases and merge keys.

use saphyr::{LoadableYamlNode, MarkedYaml, Scalar as Core, YamlData};

use super::merge::Fields;
use super::nesting;
use super::node::{Node, Value};
use super::scalar::{Kind, resolve};
use crate::diagnostic::Diagnostic;
use crate::source::{FileId, Span};

/// The first document of a file, and the place of the second one.
pub(super) fn load(file: FileId, text: &str) -> Result<(Node, Option<Span>), Diagnostic> {
    let places = Places::new(file, text);
    if let Some((at, message, help)) = nesting::excess(text) {
        return Err(Diagnostic::error("", places.span_of_bytes(at, at), message).help(help));
    }
    let documents = MarkedYaml::load_from_str(text).map_err(|error| {
        let at = places.byte(error.marker().index());
        Diagnostic::error(
            "",
            places.span_of_bytes(at, at),
            format!("this is not valid YAML: {}", error.info()),
        )
        .help("see https://yaml.org/spec/1.2.2/; a text with special characters needs quotes")
    })?;
    let mut documents = documents.into_iter();
    let root = match documents.next() {
        Some(root) => places.node(&root)?,
        None => Node { span: places.span_of_bytes(0, 0), value: Value::Scalar(String::new(), Kind::Null) },
    };
    let second = documents.next().map(|second| places.span(&second));
    Ok((root, second))
}

/// Converts the places of the parser, which counts characters, to bytes.
struct Places<'a> {
    file: FileId,
    text: &'a str,
    /// The byte at which each character begins; empty if all characters have one byte.
    bytes: Vec<usize>,
}

impl<'a> Places<'a> {
    fn new(file: FileId, text: &'a str) -> Self {
        let bytes =
            if text.is_ascii() { Vec::new() } else { text.char_indices().map(|(byte, _)| byte).collect() };
        Self { file, text, bytes }
    }

    fn byte(&self, character: usize) -> usize {
        if self.bytes.is_empty() {
            character.min(self.text.len())
        } else {
            self.bytes.get(character).copied().unwrap_or(self.text.len())
        }
    }

    fn span_of_bytes(&self, start: usize, end: usize) -> Span {
        Span { file: self.file, start, end: end.max(start) }
    }

    fn span(&self, yaml: &MarkedYaml<'_>) -> Span {
        self.span_of_bytes(self.byte(yaml.span.start.index()), self.byte(yaml.span.end.index()))
    }

    fn node(&self, yaml: &MarkedYaml<'_>) -> Result<Node, Diagnostic> {
        let span = self.span(yaml);
        let value = match &yaml.data {
            YamlData::Value(value) => {
                let written = self.text.get(span.start..span.end).unwrap_or_default().trim();
                let (text, kind) = scalar(value, written);
                Value::Scalar(text, kind)
            }
            YamlData::Sequence(items) => {
                Value::List(items.iter().map(|item| self.node(item)).collect::<Result<_, _>>()?)
            }
            YamlData::Mapping(entries) => {
                let mut map = Fields::default();
                for (key, value) in entries {
                    let (key, value) = (self.node(key)?, self.node(value)?);
                    if matches!(&key.value, Value::Scalar(text, Kind::Text) if text == "<<") {
                        map.merge(value)?;
                    } else {
                        map.set(key, value);
                    }
                }
                Value::Map(map.into_entries())
            }
            YamlData::BadValue if span.start == span.end => Value::Scalar(String::new(), Kind::Null),
            YamlData::Tagged(..) | YamlData::Representation(..) | YamlData::Alias(_) | YamlData::BadValue => {
                return Err(Diagnostic::error(
                    "",
                    span,
                    "a tag that is not supported, or does not fit the value",
                )
                .help("remove the tag: the fields of a descriptor need none"));
            }
        };
        Ok(Node { span, value })
    }
}

/// The text of a scalar and its type: by YAML 1.1 if it is written without quotes, else a text.
fn scalar(value: &Core<'_>, written: &str) -> (String, Kind) {
    let quoted = written.starts_with(['"', '\'', '|', '>']);
    match value {
        // `!!str 5` is a text although it is written as a number.
        Core::String(text)
            if quoted || matches!(resolve(written), Kind::Integer(_)) && is_core_number(written) =>
        {
            (text.to_string(), Kind::Text)
        }
        Core::String(text) => (text.to_string(), resolve(text)),
        // An alias is written as `*name`, so that what it stands for has to be written anew.
        _ if quoted || written.starts_with('*') => {
            let text = match value {
                Core::Null => String::new(),
                Core::Boolean(value) => value.to_string(),
                Core::Integer(value) => value.to_string(),
                Core::FloatingPoint(value) => format!("{:?}", value.0),
                Core::String(text) => text.to_string(),
            };
            let kind =
                if matches!(value, Core::FloatingPoint(_)) { Kind::OtherNumber } else { resolve(&text) };
            (text, kind)
        }
        Core::Null | Core::Boolean(_) | Core::Integer(_) | Core::FloatingPoint(_) => {
            (written.to_owned(), resolve(written))
        }
    }
}

/// Whether YAML 1.2 has a number here, too.
fn is_core_number(written: &str) -> bool {
    !matches!(Core::parse_from_cow(written.into()), Core::String(_))
}
