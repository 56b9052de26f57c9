//! YAML with the place of each value, as Envoy's service reads it: YAML 1.1 scalars, aliases and merge keys.

use std::collections::HashSet;

use saphyr::{MarkedYaml, ScalarStyle, Tag, YamlData};

use super::merge::Fields;
use super::nesting;
use super::node::{Node, Value};
use super::scalar::{Kind, resolve};
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::load::parse::on_own_stack;
use crate::source::{FileId, Span};
use crate::yaml::{self, Offsets, TypeTag};

/// The first document of a file, and the place of the second one.
pub(super) fn load(file: FileId, text: &str) -> Result<(Node, Option<Span>), Diagnostic> {
    on_own_stack(|| read(file, text)).unwrap_or_else(|| {
        let start = Span { file, start: 0, end: 0 };
        Err(Diagnostic::error("", start, "the parser of YAML failed on this file"))
    })
}

fn read(file: FileId, text: &str) -> Result<(Node, Option<Span>), Diagnostic> {
    let places = Places::new(file, text);
    if let Some((at, message, help)) = nesting::excess(text) {
        return Err(Diagnostic::error("", places.span_of_bytes(at, at), message).help(help));
    }
    let documents = yaml::documents(&text.chars().collect::<Vec<_>>()).map_err(|error| {
        let at = places.bytes.of(error.marker().index());
        let invalid = || invalid_yaml(places.span_of_bytes(at, at), error.info());
        kind::template(file, text).unwrap_or_else(invalid)
    })?;
    let root = match documents.first() {
        Some(root) => places.node(root)?,
        None => Node { span: places.span_of_bytes(0, 0), value: Value::Scalar(String::new(), Kind::Null) },
    };
    Ok((root, documents.get(1).map(|second| places.span(second))))
}

fn invalid_yaml(span: Span, why: &str) -> Diagnostic {
    Diagnostic::error("", span, format!("this is not valid YAML: {why}"))
        .help("see https://yaml.org/spec/1.2.2/; a text with special characters needs quotes")
}

/// Converts the places of the parser.
struct Places<'a> {
    file: FileId,
    text: &'a str,
    bytes: Offsets,
}

impl<'a> Places<'a> {
    fn new(file: FileId, text: &'a str) -> Self {
        Self { file, text, bytes: Offsets::new(text) }
    }

    fn span_of_bytes(&self, start: usize, end: usize) -> Span {
        Span { file: self.file, start, end: end.max(start) }
    }

    fn span(&self, yaml: &MarkedYaml<'_>) -> Span {
        let start = self.bytes.of(yaml.span.start.index());
        let end = self.bytes.of(yaml.span.end.index());
        let properties = yaml::properties_of(yaml, self.text.get(start..end).unwrap_or_default());
        self.span_of_bytes(start + properties, end)
    }

    fn node(&self, yaml: &MarkedYaml<'_>) -> Result<Node, Diagnostic> {
        let span = self.span(yaml);
        let tag_is_wrong = || {
            let span = Span { start: self.bytes.of(yaml.span.start.index()), ..span };
            Diagnostic::error("", span, "a tag that is not supported, or does not fit the value")
                .help("remove the tag: the fields of a descriptor need none")
        };
        let value = match &yaml.data {
            YamlData::Representation(text, style, tag) => {
                let kind = kind_of(text, *style, tag.as_deref()).ok_or_else(tag_is_wrong)?;
                Value::Scalar(text.to_string(), kind)
            }
            YamlData::Sequence(items) => {
                Value::List(items.iter().map(|item| self.node(item)).collect::<Result<_, _>>()?)
            }
            YamlData::Mapping(entries) => {
                let mut map = Fields::default();
                let mut names = HashSet::new();
                for (key, value) in entries {
                    if matches!(key.data, YamlData::Mapping(_))
                        && let Some(template) = kind::template(self.file, self.text)
                    {
                        return Err(template);
                    }
                    let (is_merge, key, value) = (is_merge_key(key), self.node(key)?, self.node(value)?);
                    if is_merge {
                        map.merge(value)?;
                        continue;
                    }
                    // The parser takes `key` and `"key"` for different ones.
                    if let Value::Scalar(name, kind) = &key.value
                        && !names.insert((name.clone(), *kind))
                    {
                        return Err(invalid_yaml(key.span, "duplicated key in mapping"));
                    }
                    map.set(key, value);
                }
                Value::Map(map.entries)
            }
            YamlData::Tagged(tag, inner) if TypeTag::of(Some(tag)) != TypeTag::Other => {
                return self.node(inner);
            }
            YamlData::BadValue if span.start == span.end => Value::Scalar(String::new(), Kind::Null),
            YamlData::BadValue | YamlData::Alias(_) | YamlData::Value(_) => {
                return Err(Diagnostic::error("", span, "an alias that is inside of what it stands for")
                    .help("write the value out"));
            }
            YamlData::Tagged(..) => return Err(tag_is_wrong()),
        };
        Ok(Node { span, value })
    }
}

/// `<<` without quotes.
fn is_merge_key(key: &MarkedYaml<'_>) -> bool {
    matches!(&key.data, YamlData::Representation(text, ScalarStyle::Plain, _) if text == "<<")
}

/// The type of a scalar by YAML 1.1. `None` if it cannot have its tag.
///
/// As in Envoy's service, a scalar in quotes is a text unless it has a tag, and `!` is as if there were neither quotes nor a tag.
fn kind_of(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Option<Kind> {
    match (TypeTag::of(tag), style) {
        (TypeTag::NonSpecific, _) | (TypeTag::None, ScalarStyle::Plain) => Some(resolve(text)),
        (TypeTag::None | TypeTag::Type("str"), _) => Some(Kind::Text),
        (TypeTag::Type(tag), _) => match (tag, resolve(text)) {
            ("null", kind @ Kind::Null)
            | ("bool", kind @ Kind::Bool(_))
            | ("int", kind @ Kind::Integer(_)) => Some(kind),
            ("float", Kind::Integer(_) | Kind::OtherNumber) => Some(Kind::OtherNumber),
            _ => None,
        },
        (TypeTag::Other, _) => None,
    }
}
