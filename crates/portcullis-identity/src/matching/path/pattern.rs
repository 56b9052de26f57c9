//! Patterns of paths.

use std::fmt;

use super::fold;

/// A pattern of paths such as `/users/{id}/files/{*rest}`, with at most 64 segments: `{name}` stands for one segment, or for a part of one, as
/// in `{name}.json`, and `{*name}` for one segment or more at its end.
///
/// ```
/// use portcullis::key::PathPattern;
///
/// let pattern = PathPattern::parse("/users/{id}/files/{name}.json")?;
/// assert_eq!(pattern.parameters().map(|(_, name)| name).collect::<Vec<_>>(), ["id", "name"]);
/// assert!(["users", "/users/", "/{a}-{b}", "/users/:id"].iter().all(|text| PathPattern::parse(text).is_err()));
/// # Ok::<(), portcullis::key::PatternError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathPattern {
    text: Box<str>,
    segments: Box<[PatternSegment]>,
    /// Whether paths below a path of the pattern match as well.
    is_prefix: bool,
    /// Whether a plain path in lower case matches only if it is the text.
    is_plain: bool,
}

/// What a segment of a path must be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PatternSegment {
    /// This text, which is folded and trimmed.
    Literal(Box<str>),
    /// One segment, not empty.
    One,
    /// One segment with something between these two texts, which are folded.
    Within {
        /// What it begins with.
        prefix: Box<str>,
        /// What it ends with, trimmed.
        suffix: Box<str>,
    },
    /// One segment or more. The last of a pattern.
    Rest,
}

/// A segment of one reading of a path, folded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadSegment<'p> {
    /// Without blanks and dots at its end.
    pub(crate) trimmed: &'p [u8],
    pub(super) is_empty: bool,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PatternError {
    #[error("{text:?} does not begin with a slash")]
    NotAbsolute { text: String },
    #[error("{text:?} ends with a slash, which is ignored in paths: leave it out")]
    TrailingSlash { text: String },
    #[error("{text:?} has a segment that is empty, or nothing but dots and blanks: write it without")]
    Segment { text: String },
    #[error("{text:?} contains {character:?}: write the path itself, without escapes, parameters and query")]
    Character { text: String, character: char },
    #[error(
        "{segment:?} is no segment: write `{{name}}` for a segment, once and with or without text around it, and `{{*name}}` for the rest of a path"
    )]
    Parameter { segment: String },
    #[error("{segment:?} matches the rest of a path, so nothing can follow it")]
    NotLast { segment: String },
    #[error("the pattern has {segments} segments, more than {MAX_SEGMENTS} segments")]
    TooLong { segments: usize },
}

/// The most segments of a pattern.
pub(super) const MAX_SEGMENTS: usize = 64;

impl PathPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    ///
    /// If the text is no pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let owned = || text.to_owned();
        let rest = text.strip_prefix('/').ok_or_else(|| PatternError::NotAbsolute { text: owned() })?;
        if text != "/" && rest.ends_with('/') {
            return Err(PatternError::TrailingSlash { text: owned() });
        }
        let is_odd = |next: &char| matches!(next, '%' | ';' | '\\' | '?' | '#') || next.is_control();
        if let Some(character) = rest.chars().find(is_odd) {
            return Err(PatternError::Character { text: owned(), character });
        }
        let segments = rest.split('/').filter(|_| text != "/").map(|one| segment(one, text));
        let segments: Box<[_]> = segments.collect::<Result<_, _>>()?;
        if segments.len() > MAX_SEGMENTS {
            return Err(PatternError::TooLong { segments: segments.len() });
        }
        let rest_at = segments.iter().position(|one| *one == PatternSegment::Rest);
        if let Some(at) = rest_at.filter(|at| at + 1 < segments.len()) {
            let segment = rest.split('/').nth(at).unwrap_or_default().to_owned();
            return Err(PatternError::NotLast { segment });
        }
        Ok(Self::new(text, segments))
    }

    /// The pattern of one path. `None` if it has too many segments.
    pub(super) fn literal(path: &str) -> Option<Self> {
        let segments = path.strip_prefix('/').unwrap_or(path).split('/').filter(|_| path != "/");
        let segments: Box<[_]> = segments.map(PatternSegment::literal).collect();
        (segments.len() <= MAX_SEGMENTS).then(|| Self::new(path, segments))
    }

    pub(super) fn with_paths_below(self) -> Self {
        Self { is_prefix: true, ..self }
    }

    fn new(text: &str, segments: Box<[PatternSegment]>) -> Self {
        let written = text.strip_prefix('/').unwrap_or(text).split('/');
        let is_plain = segments
            .iter()
            .zip(written)
            .all(|(segment, text)| matches!(segment, PatternSegment::Literal(literal) if **literal == *text));
        Self { text: text.into(), segments, is_prefix: false, is_plain }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names of its parameters, each with the index of its segment.
    pub fn parameters(&self) -> impl Iterator<Item = (usize, &str)> {
        let segments = self.text.strip_prefix('/').unwrap_or(&self.text).split('/').enumerate();
        segments.filter_map(|(at, segment)| {
            let (_, name, _) = parameter(segment)?;
            Some((at, name.strip_prefix('*').unwrap_or(name)))
        })
    }

    /// Its segments, folded.
    pub fn segments(&self) -> &[PatternSegment] {
        &self.segments
    }

    /// Whether the segments of a reading are those of the pattern. An empty one at the end, after a slash, may be ignored.
    pub(crate) fn matches<'s>(&self, reading: impl IntoIterator<Item = ReadSegment<'s>>) -> bool {
        let mut reading = reading.into_iter();
        for expected in &self.segments {
            let Some(segment) = reading.next() else { return false };
            match expected {
                PatternSegment::Literal(literal) if segment.trimmed != literal.as_bytes() => return false,
                PatternSegment::One if segment.is_empty => return false,
                PatternSegment::Within { .. } if expected.value(segment.trimmed).is_none() => return false,
                PatternSegment::Rest => return true,
                _ => {}
            }
        }
        self.is_prefix
            || reading.next().is_none_or(|last| last.trimmed.is_empty()) && reading.next().is_none()
    }

    /// Whether a path is written as the pattern is, byte for byte.
    pub(super) fn is_written_as(&self, path: &str) -> bool {
        if self.is_plain {
            return path.strip_prefix(&*self.text).is_some_and(|rest| {
                rest.is_empty() || self.is_prefix && (rest.starts_with('/') || self.segments.is_empty())
            });
        }
        let segments = |text| str::strip_prefix(text, '/').unwrap_or(text).split('/');
        let mut path = segments(path);
        for (expected, written) in self.segments.iter().zip(segments(&self.text)) {
            let Some(segment) = path.next() else { return false };
            match expected {
                PatternSegment::Literal(_) if segment != written => return false,
                PatternSegment::One if segment.is_empty() => return false,
                PatternSegment::Within { .. } if !is_around(fixed(written), segment) => return false,
                PatternSegment::Rest => return true,
                _ => {}
            }
        }
        self.is_prefix || path.next().is_none()
    }

    /// Whether the pattern has neither parameters nor upper case, so that no other plain path in lower case meets it.
    pub(super) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Whether each path of `other` is a path of this one.
    pub fn covers(&self, other: &Self) -> bool {
        let mut others = other.segments.iter();
        for segment in &self.segments {
            match (segment, others.next()) {
                (PatternSegment::Rest, Some(_)) => return true,
                (segment, Some(other)) if segment.covers(other) => {}
                _ => return false,
            }
        }
        others.next().is_none()
    }

    /// Whether a path can be one of both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (mut left, mut right) = (self.segments.iter(), other.segments.iter());
        loop {
            match (left.next(), right.next()) {
                (None, None)
                | (Some(PatternSegment::Rest), Some(_))
                | (Some(_), Some(PatternSegment::Rest)) => {
                    return true;
                }
                (None, _) | (_, None) => return false,
                (Some(one), Some(other)) if !one.overlaps(other) => return false,
                _ => {}
            }
        }
    }
}

impl PatternSegment {
    fn literal(text: &str) -> Self {
        Self::Literal(folded(text))
    }

    /// What a folded and trimmed segment has in place of the parameter. `None` if it is not such a segment, and for a literal.
    pub(crate) fn value<'s>(&self, segment: &'s [u8]) -> Option<&'s [u8]> {
        match self {
            Self::Literal(_) => None,
            Self::One | Self::Rest => Some(segment),
            Self::Within { prefix, suffix } => {
                let value = segment.strip_prefix(prefix.as_bytes())?.strip_suffix(suffix.as_bytes())?;
                (!value.is_empty()).then_some(value)
            }
        }
    }

    /// Whether a segment of this text, which is not empty, is one of these.
    pub fn admits(&self, text: &str) -> bool {
        match self {
            Self::Literal(literal) => **literal == *text,
            _ => self.value(text.as_bytes()).is_some(),
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Literal(text)) => self.admits(text),
            (Self::One, Self::One | Self::Within { .. }) => true,
            (Self::Within { prefix, suffix }, Self::Within { prefix: longer, suffix: end }) => {
                longer.starts_with(&**prefix) && end.ends_with(&**suffix)
            }
            _ => false,
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Literal(text), segment) | (segment, Self::Literal(text)) => segment.admits(text),
            (Self::Within { prefix, suffix }, Self::Within { prefix: other, suffix: end }) => {
                (prefix.starts_with(&**other) || other.starts_with(&**prefix))
                    && (suffix.ends_with(&**end) || end.ends_with(&**suffix))
            }
            _ => true,
        }
    }
}

fn folded(text: &str) -> Box<str> {
    fold::folded(text).trim_end_matches(fold::is_trimmed).into()
}

/// The text before the parameter of a segment, its name, and the text behind it. `None` for a literal.
fn parameter(segment: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = segment.split_once('{')?;
    let (name, behind) = rest.split_once('}')?;
    Some((before, name, behind))
}

/// What a segment has around its parameter, or the whole literal.
pub(super) fn fixed(segment: &str) -> (&str, &str) {
    parameter(segment).map_or((segment, ""), |(before, _, behind)| (before, behind))
}

fn is_around((before, behind): (&str, &str), segment: &str) -> bool {
    let value = segment.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
    value.is_some_and(|value| !value.is_empty())
}

fn segment(text: &str, pattern: &str) -> Result<PatternSegment, PatternError> {
    let is_text = |text: &str| !text.contains(['{', '}', '*']);
    if let Some((before, name, behind)) = parameter(text).filter(|_| !text.starts_with(':')) {
        let is_name = |name: &str| !name.is_empty() && is_text(name) && !name.contains(':');
        let is_whole = before.is_empty() && behind.is_empty();
        if is_whole && name.strip_prefix('*').is_some_and(is_name) {
            return Ok(PatternSegment::Rest);
        }
        if is_name(name) && is_text(before) && is_text(behind) {
            let (prefix, suffix) = (fold::folded(before).into(), folded(behind));
            let is_whole = before.is_empty() && suffix.is_empty();
            return Ok(if is_whole {
                PatternSegment::One
            } else {
                PatternSegment::Within { prefix, suffix }
            });
        }
    }
    if !is_text(text) || text.starts_with(':') {
        return Err(PatternError::Parameter { segment: text.to_owned() });
    }
    // Also of more dots and of blanks, which are trimmed.
    match PatternSegment::literal(text) {
        PatternSegment::Literal(literal) if literal.is_empty() => {
            Err(PatternError::Segment { text: pattern.to_owned() })
        }
        literal => Ok(literal),
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
