//! The documents of a YAML text, with each scalar as it was parsed: its text, its style and its tag.
//!
//! Native rules and Envoy's files differ in what a scalar means, not in where it is: anchors, tags and tabs around it are no part of it.

use std::ops::Range;

use saphyr::{MarkedYaml, ScalarStyle, ScanError, Tag, YamlData, YamlLoader};
use saphyr_parser::{BufferedInput, Event, Parser};

/// Parses a text. Scalars are [`YamlData::Representation`], in places that count characters.
pub(crate) fn documents(text: &[char]) -> Result<Vec<MarkedYaml<'static>>, ScanError> {
    if !text.windows(2).any(is_tab_behind_colon) {
        return load(text);
    }
    // The parser refuses a tab in front of a plain value, which YAML allows. The second time it keeps those inside of texts.
    let spaced = without_tabs(text, &[]);
    load(&without_tabs(text, &literal_texts(&spaced)?))
}

fn load(text: &[char]) -> Result<Vec<MarkedYaml<'static>>, ScanError> {
    let mut loader = YamlLoader::<MarkedYaml<'static>>::default();
    loader.early_parse(false);
    Parser::new(BufferedInput::new(text.iter().copied())).load(&mut loader, true)?;
    match loader.error() {
        Some(error) => Err(error.clone()),
        None => Ok(loader.into_documents()),
    }
}

fn is_tab_behind_colon(pair: &[char]) -> bool {
    pair == [':', '\t']
}

/// The text with a space for each tab behind a colon, apart from some places.
fn without_tabs(text: &[char], kept: &[Range<usize>]) -> Vec<char> {
    let mut spaced = text.to_vec();
    let mut kept = kept.iter().peekable();
    for (at, pair) in text.windows(2).enumerate() {
        while kept.next_if(|range| range.end <= at + 1).is_some() {}
        if is_tab_behind_colon(pair) && !kept.peek().is_some_and(|range| range.contains(&(at + 1))) {
            spaced[at + 1] = ' ';
        }
    }
    spaced
}

/// Where the texts in quotes and in blocks are.
fn literal_texts(text: &[char]) -> Result<Vec<Range<usize>>, ScanError> {
    let mut ranges = Vec::new();
    for event in Parser::new(BufferedInput::new(text.iter().copied())) {
        if let (Event::Scalar(_, style, ..), span) = event?
            && style != ScalarStyle::Plain
        {
            ranges.push(span.start.index()..span.end.index());
        }
    }
    Ok(ranges)
}

/// The names of the fields at the top of the first document, as far as the text can be parsed.
pub(crate) fn top_level(text: &str) -> Vec<String> {
    let text: Vec<_> = text.chars().collect();
    let mut names = Vec::new();
    let (mut depth, mut is_name) = (0_usize, true);
    for event in Parser::new(BufferedInput::new(without_tabs(&text, &[]).into_iter())) {
        let name = match event {
            Ok((Event::StreamStart | Event::DocumentStart(_), _)) => continue,
            Ok((Event::MappingStart(..), _)) if depth == 0 => {
                depth = 1;
                continue;
            }
            Ok((Event::MappingStart(..) | Event::SequenceStart(..), _)) if depth > 0 => {
                depth += 1;
                if depth > 2 {
                    continue;
                }
                String::new()
            }
            Ok((Event::MappingEnd | Event::SequenceEnd, _)) if depth > 1 => {
                depth -= 1;
                continue;
            }
            Ok((Event::Scalar(..) | Event::Alias(_), _)) if depth > 1 => continue,
            Ok((Event::Scalar(text, ..), _)) if depth == 1 => text.into_owned(),
            Ok((Event::Alias(_), _)) if depth == 1 => String::new(),
            _ => break,
        };
        if is_name {
            names.push(name);
        }
        is_name = !is_name;
    }
    names
}

/// Where the characters of a text are: the parser counts them, and places count bytes.
pub(crate) struct Offsets {
    /// The byte at which each character begins; `None` if all characters have one byte.
    bytes: Option<Vec<usize>>,
    end: usize,
}

impl Offsets {
    pub(crate) fn new(text: &str) -> Self {
        let bytes = (!text.is_ascii()).then(|| text.char_indices().map(|(byte, _)| byte).collect());
        Self { bytes, end: text.len() }
    }

    pub(crate) fn of(&self, character: usize) -> usize {
        match &self.bytes {
            None => character.min(self.end),
            Some(bytes) => bytes.get(character).copied().unwrap_or(self.end),
        }
    }
}

/// What the tag of a value says about its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeTag<'a> {
    None,
    /// `!`
    NonSpecific,
    /// A type of YAML, such as `int` of `!!int`.
    Type(&'a str),
    Other,
}

impl<'a> TypeTag<'a> {
    pub(crate) fn of(tag: Option<&'a Tag>) -> Self {
        match tag {
            None => Self::None,
            Some(tag) if tag.is_yaml_core_schema() => Self::Type(&tag.suffix),
            Some(tag) if !tag.handle.is_empty() => Self::Other,
            Some(tag) if tag.suffix == "!" => Self::NonSpecific,
            // `!<tag:yaml.org,2002:int>`
            Some(tag) => tag.suffix.strip_prefix("tag:yaml.org,2002:").map_or(Self::Other, Self::Type),
        }
    }
}

/// The length of what is in front of the content of a value, whose place has this text.
pub(crate) fn properties_of(yaml: &MarkedYaml<'_>, written: &str) -> usize {
    match &yaml.data {
        // The place of a block begins with its content.
        YamlData::Representation(_, ScalarStyle::Literal | ScalarStyle::Folded, _) => 0,
        _ => properties(written),
    }
}

/// The length of the anchor and the tag in front of a value, with the space and the comments behind them.
pub(crate) fn properties(text: &str) -> usize {
    let mut rest = text;
    while rest.starts_with(['&', '!']) {
        rest = rest.find(char::is_whitespace).map_or("", |end| rest[end..].trim_start());
        while rest.starts_with('#') {
            rest = rest.find('\n').map_or("", |end| rest[end..].trim_start());
        }
    }
    text.len() - rest.len()
}
