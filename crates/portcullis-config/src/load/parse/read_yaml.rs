//! Reads YAML.

use saphyr::{MarkedYaml, Scalar, ScalarStyle, Tag, YamlData};

use super::MAX_DEPTH;
use super::{Context, Entries};
use crate::source::{Format, Span};
use crate::text::quoted;
use crate::tree::{Entry, Node, Value};
use crate::yaml::{self, Offsets, TypeTag};

pub(super) fn read(context: &Context<'_>) -> Option<Node> {
    if let Some(at) = deep_line(context.text) {
        let message = format!("more than {MAX_DEPTH} lists and tables inside each other");
        context.findings.error("", context.span(at, at + 1), message);
        return None;
    }
    let bytes = Offsets::new(context.text);
    let mut text = Characters::new(context.text);
    let documents = loop {
        match yaml::documents(&text.characters) {
            Ok(documents) => break documents,
            Err(error) => {
                let at = error.marker().index();
                syntax(context, bytes.of(at), error.info());
                if error.info() != TWICE || !text.rename(at) {
                    return None;
                }
            }
        }
    };
    let reader = Reader { context, bytes };
    if let Some(second) = documents.get(1) {
        context
            .findings
            .error("", reader.span(second), "a file of rules is one document, and here a second one begins")
            .help("remove the line ---, or make two files and include them");
    }
    match documents.first() {
        Some(document) => Some(reader.node(document, 0)),
        None => Some(Node::new(context.span(0, 0), Value::Null)),
    }
}

fn syntax(context: &Context<'_>, at: usize, message: &str) {
    if message == TWICE {
        let rest = context.text.get(at..).unwrap_or_default();
        let name = &rest[..rest.find([':', '\n', '\r']).unwrap_or(rest.len())];
        let span = context.span(at, at + name.len());
        let message = format!("{} is given twice", quoted(name.trim_matches(['"', '\''])));
        context.findings.error("", span, message).help("remove one of the two");
        return;
    }
    context.syntax(Format::Yaml, context.span(at, at + 1), message);
}

/// The first line that begins with more lists and tables than are allowed, such as `- - - -`.
///
/// The parser recurses once for each of them. All other ways to nest need more bytes for each level, or have a limit in the parser.
fn deep_line(text: &str) -> Option<usize> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let prefix = line.bytes().take_while(|byte| b" \t-?:".contains(byte)).count();
        let indicators = line.as_bytes()[..prefix].iter().enumerate().filter(|(index, byte)| {
            let next = line.as_bytes().get(index + 1);
            !byte.is_ascii_whitespace() && next.is_none_or(u8::is_ascii_whitespace)
        });
        if indicators.count() > MAX_DEPTH {
            return Some(start);
        }
        start += line.len();
    }
    None
}

/// The parser's message about a name that a table has twice, which ends the document.
const TWICE: &str = "duplicated key in mapping";

/// The text, in which names that are given twice are replaced by others of the same length, so that the rest can be read.
struct Characters {
    characters: Vec<char>,
    renamed: u8,
}

impl Characters {
    fn new(text: &str) -> Self {
        Self { characters: text.chars().collect(), renamed: 0 }
    }

    /// Replaces the name at a place. False after [`MAX_TWICE`] names, and for a name that is no plain text.
    fn rename(&mut self, at: usize) -> bool {
        let quotes = self.characters.get(at).filter(|first| matches!(first, '"' | '\''));
        let at = at + usize::from(quotes.is_some());
        let Some(first) = self.characters.get_mut(at) else { return false };
        if self.renamed == MAX_TWICE || !first.is_alphanumeric() && *first != '_' {
            return false;
        }
        *first = char::from_u32(RENAMED + u32::from(self.renamed)).unwrap_or(char::REPLACEMENT_CHARACTER);
        self.renamed += 1;
        true
    }
}

/// The most names that are found to be given twice. The text is read once for each.
const MAX_TWICE: u8 = 10;
/// The first of the characters with which names begin that were given twice. They are for private use, and no field has one.
const RENAMED: u32 = 0xE000;

struct Reader<'a> {
    context: &'a Context<'a>,
    bytes: Offsets,
}

impl Reader<'_> {
    fn node(&self, yaml: &MarkedYaml<'_>, depth: usize) -> Node {
        let span = self.span(yaml);
        let value = match &yaml.data {
            YamlData::Representation(text, style, tag) => {
                resolved(text, *style, tag.as_deref()).unwrap_or_else(|| self.refuse_tag(yaml))
            }
            YamlData::Sequence(_) | YamlData::Mapping(_) if !self.context.is_shallow(depth, span) => {
                Value::Null
            }
            YamlData::Sequence(list) => {
                Value::List(list.iter().map(|one| self.node(one, depth + 1)).collect())
            }
            YamlData::Mapping(map) => {
                let mut entries = Entries::default();
                for (name, value) in map {
                    if let Some(entry) = self.entry(name, value, depth + 1) {
                        self.context.insert(&mut entries, entry);
                    }
                }
                Value::Map(entries.list)
            }
            YamlData::Tagged(tag, inner) if TypeTag::of(Some(tag)) != TypeTag::Other => {
                return self.node(inner, depth);
            }
            // An empty document.
            YamlData::BadValue if self.slice(span).trim().is_empty() => Value::Null,
            YamlData::BadValue | YamlData::Alias(_) | YamlData::Value(_) => {
                let message =
                    format!("the alias {} is inside of what it stands for", quoted(self.slice(span)));
                self.context.findings.error("", span, message).help("write the value out");
                Value::Null
            }
            YamlData::Tagged(..) => self.refuse_tag(yaml),
        };
        let span = self.end_of(&value, span);
        Node::new(span, value)
    }

    /// Adds the finding of a tag that the value cannot have.
    fn refuse_tag(&self, yaml: &MarkedYaml<'_>) -> Value {
        let span = self.whole_span(yaml);
        let written = self.slice(span);
        let properties = &written[..yaml::properties(written)];
        let tag = properties.split_whitespace().find(|word| word.starts_with('!'));
        // An alias has the tag elsewhere.
        let tag = tag.or_else(|| written.split_whitespace().next()).unwrap_or_default();
        let message = format!("{} is a tag that this value cannot have", quoted(tag));
        self.context.findings.error("", span, message).help("remove the tag");
        Value::Null
    }

    fn entry(&self, name: &MarkedYaml<'_>, value: &MarkedYaml<'_>, depth: usize) -> Option<Entry> {
        let span = self.span(name);
        let text = match &name.data {
            YamlData::Representation(text, style, tag) => {
                match resolved(text, *style, tag.as_deref()) {
                    Some(Value::Null) => None,
                    // `404: ...` is a field of this name.
                    Some(_) => Some(text.to_string()),
                    None => {
                        self.refuse_tag(name);
                        return None;
                    }
                }
            }
            _ => None,
        };
        let Some(text) = text else {
            self.context.findings.error("", span, "the name of a field is a text");
            return None;
        };
        let is_renamed = |first: char| (RENAMED..RENAMED + u32::from(MAX_TWICE)).contains(&first.into());
        if text.starts_with(is_renamed)
            && !self.slice(span).trim_start_matches(['"', '\'']).starts_with(is_renamed)
        {
            return None;
        }
        if text == "<<" {
            self.context
                .findings
                .error("", span, "`<<` does not merge tables here")
                .help("repeat the fields, or write `field: *alias` for each");
            return None;
        }
        Some(Entry { name: text, name_span: span, node: self.node(value, depth) })
    }

    /// The place of a value, with its anchor and its tag.
    fn whole_span(&self, yaml: &MarkedYaml<'_>) -> Span {
        self.context.span(self.bytes.of(yaml.span.start.index()), self.bytes.of(yaml.span.end.index()))
    }

    fn span(&self, yaml: &MarkedYaml<'_>) -> Span {
        let whole = self.whole_span(yaml);
        let span = Span { start: whole.start + yaml::properties_of(yaml, self.slice(whole)), ..whole };
        let slice = self.slice(span);
        let length = match &yaml.data {
            // The place of a value that is not written is that of what follows.
            YamlData::Representation(text, ScalarStyle::Plain, _)
                if text.is_empty() && !slice.starts_with('*') =>
            {
                0
            }
            YamlData::Representation(_, style, _) => scalar_length(slice, *style),
            _ => slice.trim_end().len(),
        };
        Span { end: span.start + length, ..span }
    }

    fn slice(&self, span: Span) -> &str {
        self.context.slice(span)
    }

    /// A list or a table ends behind its bracket, or with its last value.
    ///
    /// The parser ends it before the bracket, or where the next value begins.
    fn end_of(&self, value: &Value, span: Span) -> Span {
        let last = match value {
            Value::List(list) => list.last(),
            Value::Map(entries) => entries.last().map(|entry| &entry.node),
            _ => return span,
        };
        let whole = Span { end: span.end.max(last.map_or(0, |last| last.span.end)), ..span };
        if self.slice(span).starts_with(['[', '{']) {
            let closing = self.context.rest(whole.end).find([']', '}']).map_or(0, |at| at + 1);
            return Span { end: whole.end + closing, ..span };
        }
        match last {
            Some(last) if last.span.end > span.start => Span { end: last.span.end, ..span },
            _ => span,
        }
    }
}

/// What a scalar is in YAML 1.2. `None` if it cannot have its tag.
fn resolved(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Option<Value> {
    let plain = || match Scalar::parse_from_cow(text.into()) {
        _ if text.is_empty() => Value::Null,
        Scalar::Null => Value::Null,
        Scalar::Boolean(value) => Value::Bool(value),
        Scalar::Integer(number) => Value::Integer(number.into()),
        // The parser has 64 bits for integers, and makes floating-point numbers of longer ones.
        Scalar::FloatingPoint(number) => text.parse().map_or(Value::Float(number.0), Value::Integer),
        Scalar::String(text) => Value::String(text.into_owned()),
    };
    match (TypeTag::of(tag), style) {
        (TypeTag::None, ScalarStyle::Plain) => Some(plain()),
        (TypeTag::None | TypeTag::NonSpecific | TypeTag::Type("str"), _) => {
            Some(Value::String(text.to_owned()))
        }
        (TypeTag::Type(tag), _) => match (tag, plain()) {
            ("null", value @ Value::Null)
            | ("bool", value @ Value::Bool(_))
            | ("int", value @ Value::Integer(_))
            | ("float", value @ (Value::Float(_) | Value::Integer(_))) => Some(value),
            _ => None,
        },
        (TypeTag::Other, _) => None,
    }
}

/// The length of a scalar, without the space and the comment that the parser counts as a part of it.
fn scalar_length(text: &str, style: ScalarStyle) -> usize {
    let mut bytes = text.bytes().enumerate().skip(1);
    match style {
        // An alias has the style of what it stands for.
        _ if text.starts_with('*') => {}
        ScalarStyle::DoubleQuoted => {
            while let Some((at, byte)) = bytes.next() {
                match byte {
                    b'"' => return at + 1,
                    b'\\' => drop(bytes.next()),
                    _ => {}
                }
            }
        }
        ScalarStyle::SingleQuoted => {
            while let Some((at, byte)) = bytes.next() {
                if byte == b'\'' {
                    if text.as_bytes().get(at + 1) != Some(&b'\'') {
                        return at + 1;
                    }
                    bytes.next();
                }
            }
        }
        ScalarStyle::Literal | ScalarStyle::Folded => {}
        ScalarStyle::Plain => {
            let comment = text.match_indices('#').find(|(at, _)| text[..*at].ends_with([' ', '\t', '\n']));
            return text[..comment.map_or(text.len(), |(at, _)| at)].trim_end().len();
        }
    }
    text.trim_end().len()
}
