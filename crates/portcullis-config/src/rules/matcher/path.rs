//! Patterns of paths.

use std::fmt;

use super::spelling::Segment as Spelled;

/// A pattern such as `/users/{id}/files/{*rest}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PathPattern {
    text: Box<str>,
    segments: Box<[Segment]>,
}

/// What a segment of a path must be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Segment {
    Literal(Box<str>),
    /// One segment, not empty.
    One,
    /// One segment or more. The last of a pattern.
    Rest,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("{text:?} does not begin with a slash")]
    NotAbsolute { text: String },
    #[error("{text:?} ends with a slash, which is ignored in paths: leave it out")]
    TrailingSlash { text: String },
    #[error("{text:?} has an empty segment, `.` or `..`: write it without")]
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
    pub(crate) fn parse(text: &str) -> Result<Self, PatternError> {
        let owned = || text.to_owned();
        let rest = text.strip_prefix('/').ok_or_else(|| PatternError::NotAbsolute { text: owned() })?;
        if text == "/" {
            return Ok(Self { text: text.into(), segments: Box::default() });
        }
        if rest.ends_with('/') {
            return Err(PatternError::TrailingSlash { text: owned() });
        }
        let is_odd = |next: &char| matches!(next, '%' | ';' | '\\' | '?' | '#') || next.is_control();
        if let Some(character) = rest.chars().find(is_odd) {
            return Err(PatternError::Character { text: owned(), character });
        }
        let segments: Box<[_]> = rest.split('/').map(|one| segment(one, text)).collect::<Result<_, _>>()?;
        if segments.len() > MAX_SEGMENTS {
            return Err(PatternError::TooLong { segments: segments.len() });
        }
        let rest_at = segments.iter().position(|one| *one == Segment::Rest);
        if let Some(at) = rest_at.filter(|at| at + 1 < segments.len()) {
            let segment = rest.split('/').nth(at).unwrap_or_default().to_owned();
            return Err(PatternError::NotLast { segment });
        }
        Ok(Self { text: text.into(), segments })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether the segments of a path are those of the pattern. An empty one at the end, after a slash, may be ignored.
    pub(crate) fn matches<'s>(&self, path: impl IntoIterator<Item = Spelled<'s>>) -> bool {
        let mut path = path.into_iter();
        for expected in &self.segments {
            let Some(segment) = path.next() else { return false };
            match expected {
                Segment::Literal(literal) if !segment.is(literal) => return false,
                Segment::One if segment.is_empty() => return false,
                Segment::Rest => return true,
                Segment::Literal(_) | Segment::One => {}
            }
        }
        path.next().is_none_or(Spelled::is_empty) && path.next().is_none()
    }

    /// Whether each path of `other` is a path of this one.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let mut others = other.segments.iter();
        for segment in &self.segments {
            let covered = match (segment, others.next()) {
                (Segment::Rest, Some(_)) => return true,
                (Segment::Literal(one), Some(Segment::Literal(other))) => one == other,
                (Segment::One, Some(Segment::One | Segment::Literal(_))) => true,
                _ => false,
            };
            if !covered {
                return false;
            }
        }
        others.next().is_none()
    }

    /// Whether a path can be one of both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (mut left, mut right) = (self.segments.iter(), other.segments.iter());
        loop {
            match (left.next(), right.next()) {
                (None, None) | (Some(Segment::Rest), Some(_)) | (Some(_), Some(Segment::Rest)) => {
                    return true;
                }
                (None, _) | (_, None) => return false,
                (Some(Segment::Literal(one)), Some(Segment::Literal(other))) if one != other => return false,
                _ => {}
            }
        }
    }
}

fn segment(text: &str, pattern: &str) -> Result<Segment, PatternError> {
    let is_name = |name: &str| !name.is_empty() && !name.contains(['{', '}', '*', ':']);
    if let Some(name) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        if is_name(name) {
            return Ok(Segment::One);
        }
        if name.strip_prefix('*').is_some_and(is_name) {
            return Ok(Segment::Rest);
        }
    }
    if text.contains(['{', '}', '*']) || text.starts_with(':') {
        return Err(PatternError::Parameter { segment: text.to_owned() });
    }
    match text {
        "" | "." | ".." => Err(PatternError::Segment { text: pattern.to_owned() }),
        _ => Ok(Segment::Literal(text.into())),
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
