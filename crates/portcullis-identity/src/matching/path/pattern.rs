//! Patterns of paths.

use std::fmt;

use super::fold;

/// A pattern such as `/users/{id}/files/{*rest}`.
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
    /// One segment or more. The last of a pattern.
    Rest,
}

/// A segment of one reading of a path, folded.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadSegment<'p> {
    /// Without blanks and dots at its end.
    pub(super) trimmed: &'p [u8],
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
        "{segment:?} is no segment: write `{{name}}` for a whole segment, and `{{*name}}` for the rest of a path"
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

    /// Its segments, folded.
    pub fn segments(&self) -> &[PatternSegment] {
        &self.segments
    }

    /// Whether the segments of a reading are those of the pattern. An empty one at the end, after a slash, may be ignored.
    pub(super) fn matches<'s>(&self, reading: impl IntoIterator<Item = ReadSegment<'s>>) -> bool {
        let mut reading = reading.into_iter();
        for expected in &self.segments {
            let Some(segment) = reading.next() else { return false };
            match expected {
                PatternSegment::Literal(literal) if segment.trimmed != literal.as_bytes() => return false,
                PatternSegment::One if segment.is_empty => return false,
                PatternSegment::Rest => return true,
                PatternSegment::Literal(_) | PatternSegment::One => {}
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
                PatternSegment::Rest => return true,
                PatternSegment::Literal(_) | PatternSegment::One => {}
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
            let covered = match (segment, others.next()) {
                (PatternSegment::Rest, Some(_)) => return true,
                (PatternSegment::Literal(one), Some(PatternSegment::Literal(other))) => one == other,
                (PatternSegment::One, Some(PatternSegment::One | PatternSegment::Literal(_))) => true,
                _ => false,
            };
            if !covered {
                return false;
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
                (Some(PatternSegment::Literal(one)), Some(PatternSegment::Literal(other)))
                    if one != other =>
                {
                    return false;
                }
                _ => {}
            }
        }
    }
}

impl PatternSegment {
    fn literal(text: &str) -> Self {
        Self::Literal(fold::folded(text).trim_end_matches(fold::is_trimmed).into())
    }
}

fn segment(text: &str, pattern: &str) -> Result<PatternSegment, PatternError> {
    let is_name = |name: &str| !name.is_empty() && !name.contains(['{', '}', '*', ':']);
    if let Some(name) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        if is_name(name) {
            return Ok(PatternSegment::One);
        }
        if name.strip_prefix('*').is_some_and(is_name) {
            return Ok(PatternSegment::Rest);
        }
    }
    if text.contains(['{', '}', '*']) || text.starts_with(':') {
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
